#include "program/export_files.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool writes_folder(const exporter *e) {
  return e->to == EXPORT_FOLDER || e->to == EXPORT_ADAPTER;
}

static bool is_empty_folder(const char *path) {
  DIR *folder = opendir(path);
  bool empty = folder != NULL;
  for (struct dirent *entry; folder && empty && (entry = readdir(folder));)
    empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
  if (folder) closedir(folder);
  return empty;
}

static bool is_gguf(const char *path) {
  char magic[4] = "";
  FILE *file = fopen(path, "rb");
  const bool is = file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "GGUF", 4);
  if (file) fclose(file);
  return is;
}

int export_check_out(const exporter *e) {
  struct stat info, base;
  if (strlen(e->out) >= MODEL_PATH_BYTES || !*e->out) return fail_usage("--out is not a path");
  if (stat(e->out, &info) != 0) return STATUS_CONTINUE;
  if (writes_folder(e))
    return is_empty_folder(e->out)
               ? STATUS_CONTINUE
               : fail_usage("--out %s is there already; name a folder that is new or empty",
                            e->out);
  if (stat(e->found.base, &base) == 0 && base.st_dev == info.st_dev && base.st_ino == info.st_ino)
    return fail_usage("--out %s is the model itself", e->out);
  if (!S_ISREG(info.st_mode) || !is_gguf(e->out))
    return fail_usage("--out %s is not a GGUF file, and would be written over; name another file",
                      e->out);
  if (e->overwrite) return STATUS_CONTINUE;
  return fail_usage("--out %s is there already; replace it with --overwrite, or name another file",
                    e->out);
}

/* What was written is one file, or files in one folder. */
void export_remove(const exporter *e) {
  char path[sizeof e->temporary + 260];
  DIR *folder = writes_folder(e) ? opendir(e->temporary) : NULL;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/%s", e->temporary, entry->d_name);
    unlink(path);
  }
  if (folder) closedir(folder);
  if (writes_folder(e)) rmdir(e->temporary);
  else unlink(e->temporary);
}

static uint64_t measure(const exporter *e) {
  char path[sizeof e->temporary + 260];
  struct stat info;
  uint64_t bytes = 0;
  DIR *folder = writes_folder(e) ? opendir(e->temporary) : NULL;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(path, sizeof path, "%s/%s", e->temporary, entry->d_name);
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) bytes += (uint64_t)info.st_size;
  }
  if (folder) closedir(folder);
  else if (stat(e->temporary, &info) == 0) bytes = (uint64_t)info.st_size;
  return bytes;
}

int export_keep(exporter *e) {
  e->bytes = measure(e);
  if (rename(e->temporary, e->out) == 0) return STATUS_CONTINUE;
  const int error = errno;
  export_remove(e);
  return fail("cannot write %s: %s", e->out, strerror(error));
}

/* ---- a whole model --------------------------------------------------------------------------- */

static ac_status write_whole(exporter *e) {
  const ac_export_desc desc = {.storage = (ac_export_storage)e->storage,
                               .read = export_read_merged,
                               .changed = export_is_changed,
                               .user = e};
  return e->to == EXPORT_GGUF ? ac_model_export_gguf(e->base, e->temporary, &desc)
                              : ac_model_export_folder(e->base, e->temporary, &desc);
}

/* ---- an adapter alone ------------------------------------------------------------------------ */

static ac_status copy_tensor(void *user, int index, int64_t first, int64_t count, void *data) {
  return ac_model_file_read(user, index, first, count, data);
}

static int copy_tensors(ac_model_file *file, const char *path) {
  const char *base = ac_model_file_metadata(file, "accrue.base");
  const char *storage = ac_model_file_metadata(file, "accrue.base_storage");
  const ac_metadata metadata[] = {
      {"format", "pt"}, {"accrue.base", base}, {"accrue.base_storage", storage}};
  const int count = ac_model_file_tensor_count(file);
  ac_model_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
  if (!tensors) return fail("out of memory");
  for (int i = 0; i < count; i++) {
    tensors[i] = *ac_model_file_tensor(file, i);
    tensors[i].dtype = AC_F32;
  }
  const ac_status status = ac_model_file_write(path, tensors, count, metadata,
                                               base && storage ? 3
                                               : base          ? 2
                                                               : 1,
                                               copy_tensor, file);
  free(tensors);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static int write_peft_weights(const exporter *e, const char *path) {
  char from[MODEL_PATH_BYTES + 32];
  ac_model_file *file;
  snprintf(from, sizeof from, "%s/adapter_model.safetensors", e->found.adapter);
  if (ac_model_file_open(&file, from) != AC_OK) return fail_library();
  const int status = copy_tensors(file, path);
  ac_model_file_close(file);
  return status;
}

static int write_peft_config(const exporter *e, const char *path) {
  char from[MODEL_PATH_BYTES + 32];
  json_error_t error;
  snprintf(from, sizeof from, "%s/adapter_config.json", e->found.adapter);
  json_t *config = json_file_load(from, 0, &error);
  if (!config) return fail("%s: %s", from, error.text);
  json_object_set_new(config, "base_model_name_or_path", json_text_name(e->found.base));
  const int status = json_text_replace(config, JSON_INDENT(2), path);
  json_decref(config);
  return status;
}

static int write_peft(exporter *e) {
  char path[sizeof e->temporary + 32];
  if (mkdir(e->temporary, 0777) != 0)
    return fail("cannot make the folder %s: %s", e->temporary, strerror(errno));
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", e->temporary);
  const int status = write_peft_weights(e, path);
  if (status != STATUS_CONTINUE) return status;
  snprintf(path, sizeof path, "%s/adapter_config.json", e->temporary);
  return write_peft_config(e, path);
}

/* llama.cpp multiplies by alpha / rank; for a layer with another factor, B has the rest of it. */
static int write_layers(const exporter *e, const export_layers *layers) {
  const double alpha = layers->list[0].scale * (double)layers->list[0].rank;
  ac_export_adapter *adapters = calloc((size_t)layers->count, sizeof *adapters);
  if (!adapters) return fail("out of memory");
  for (int i = 0; i < layers->count; i++) {
    const export_layer *l = &layers->list[i];
    const double factor = l->scale * (double)l->rank / alpha;
    for (int64_t k = 0; k < l->out * l->rank; k++) l->b[k] = (float)(factor * (double)l->b[k]);
    adapters[i] = (ac_export_adapter){l->name, l->rank, l->a, l->b};
  }
  const ac_status status =
      ac_adapter_export_gguf(e->base, e->temporary, alpha, adapters, layers->count);
  free(adapters);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static int write_gguf_adapter(const exporter *e) {
  export_layers layers;
  int status = export_layers_read(&layers, e->found.adapter, &e->lora);
  if (status == STATUS_CONTINUE)
    status = layers.count ? write_layers(e, &layers) : fail("%s holds no adapter", e->path);
  export_layers_free(&layers);
  return status;
}

int export_write(exporter *e) {
  size_t length = strlen(e->out);
  while (length > 1 && e->out[length - 1] == '/') length--;
  snprintf(e->temporary, sizeof e->temporary, "%.*s.partial-%ld", (int)length, e->out,
           (long)getpid());
  if (e->lora.dora && e->to == EXPORT_GGUF_ADAPTER)
    return fail("%s is an adapter with magnitudes (DoRA), which llama.cpp does not have; merge it "
                "with --to gguf --merge",
                e->path);
  int status = e->to == EXPORT_ADAPTER        ? write_peft(e)
               : e->to == EXPORT_GGUF_ADAPTER ? write_gguf_adapter(e)
               : write_whole(e) == AC_OK      ? STATUS_CONTINUE
                                              : fail_library();
  if (status != STATUS_CONTINUE) export_remove(e);
  return status;
}
