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

static bool is_gpt2(const exporter *e) {
  return !strcmp(e->model.info.family, "gpt2");
}

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
  if (stat(e->model.found.base, &base) == 0 && base.st_dev == info.st_dev &&
      base.st_ino == info.st_ino)
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

/* A parameter as the trained model has it, with its adapter added. */
static ac_status read_merged(void *user, const char *name, int64_t first, int64_t count,
                             float *data) {
  const exporter *e = user;
  const ac_status status = ac_session_get_parameter(e->trained.session, name, first, count, data);
  const export_layer *layer = export_layers_find(&e->layers, name);
  if (status == AC_OK && layer) export_layer_add(layer, is_gpt2(e), first, count, 1, data);
  return status;
}

static bool is_changed(void *user, const char *name) {
  const exporter *e = user;
  return export_layers_find(&e->layers, name) != NULL;
}

static ac_status write_whole(exporter *e) {
  const ac_export_desc desc = {.storage = (ac_export_storage)e->storage,
                               .read = read_merged,
                               .changed = is_changed,
                               .user = e};
  return e->to == EXPORT_GGUF ? ac_model_export_gguf(e->model.model, e->temporary, &desc)
                              : ac_model_export_folder(e->model.model, e->temporary, &desc);
}

/* ---- an adapter alone ------------------------------------------------------------------------ */

static ac_status copy_tensor(void *user, int index, int64_t first, int64_t count, void *data) {
  return ac_model_file_read(user, index, first, count, data);
}

static int write_peft_weights(const exporter *e, const char *path) {
  static const ac_metadata format = {"format", "pt"};
  const int count = ac_model_file_tensor_count(e->model.adapter);
  ac_model_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
  if (!tensors) return fail("out of memory");
  for (int i = 0; i < count; i++) {
    tensors[i] = *ac_model_file_tensor(e->model.adapter, i);
    tensors[i].dtype = AC_F32;
  }
  const ac_status status =
      ac_model_file_write(path, tensors, count, &format, 1, copy_tensor, e->model.adapter);
  free(tensors);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* The end of a layer's name: "q_proj". */
static const char *end_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

/* Ends of names, if each layer of the model with such an end has an adapter, else whole names: PEFT
 * takes either, and gives an adapter to all that match. */
static json_t *target_modules(const exporter *e) {
  json_t *ends = json_object(), *list = json_array();
  for (int i = 0; i < e->layers.count; i++)
    json_object_set_new(ends, end_of(e->layers.list[i].name), json_true());
  const bool all = (int64_t)json_object_size(ends) * e->model.info.layers == e->layers.count;
  const char *end;
  json_t *value;
  json_object_foreach(ends, end, value) if (all) json_array_append_new(list, json_string(end));
  for (int i = 0; i < e->layers.count && !all; i++)
    json_array_append_new(list, json_string(e->layers.list[i].name));
  json_decref(ends);
  return list;
}

static int write_peft_config(const exporter *e, const char *path) {
  char from[MODEL_PATH_BYTES + 32];
  json_error_t error;
  snprintf(from, sizeof from, "%s/adapter_config.json", e->model.found.adapter);
  json_t *config = json_file_load(from, 0, &error);
  if (!config) return fail("%s: %s", from, error.text);
  json_object_set_new(config, "target_modules", target_modules(e));
  json_object_set_new(config, "base_model_name_or_path", json_text_name(e->model.found.base));
  json_object_set_new(config, "fan_in_fan_out", json_boolean(is_gpt2(e)));
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
static int write_gguf_adapter(exporter *e) {
  const int count = e->layers.count;
  const double alpha = e->layers.list[0].scale * (double)e->layers.list[0].rank;
  ac_export_adapter *adapters = calloc((size_t)count, sizeof *adapters);
  float **scaled = calloc((size_t)count, sizeof *scaled);
  bool whole = adapters && scaled;
  for (int i = 0; i < count && whole; i++) {
    const export_layer *l = &e->layers.list[i];
    const double factor = l->scale * (double)l->rank / alpha;
    const int64_t elements = l->out * l->rank;
    scaled[i] = malloc((size_t)elements * sizeof **scaled);
    whole = scaled[i] != NULL;
    for (int64_t k = 0; whole && k < elements; k++) scaled[i][k] = (float)(factor * l->b[k]);
    adapters[i] = (ac_export_adapter){l->name, l->rank, l->a, scaled[i]};
  }
  int status = whole ? STATUS_CONTINUE : fail("out of memory");
  if (whole &&
      ac_adapter_export_gguf(e->model.model, e->temporary, alpha, adapters, count) != AC_OK)
    status = fail_library();
  for (int i = 0; i < count && scaled; i++) free(scaled[i]);
  free(scaled);
  free(adapters);
  return status;
}

int export_write(exporter *e) {
  size_t length = strlen(e->out);
  while (length > 1 && e->out[length - 1] == '/') length--;
  snprintf(e->temporary, sizeof e->temporary, "%.*s.partial-%ld", (int)length, e->out,
           (long)getpid());
  if (e->model.lora.dora && e->to == EXPORT_GGUF_ADAPTER)
    return fail("%s is an adapter with magnitudes (DoRA), which llama.cpp does not have; merge it "
                "with --to gguf --merge",
                e->model.path);
  int status = e->to == EXPORT_ADAPTER        ? write_peft(e)
               : e->to == EXPORT_GGUF_ADAPTER ? write_gguf_adapter(e)
               : write_whole(e) == AC_OK      ? STATUS_CONTINUE
                                              : fail_library();
  if (status != STATUS_CONTINUE) export_remove(e);
  return status;
}

/* ---- the proof of a whole model -------------------------------------------------------------- */

/* How far an element may be from what was rounded, as a part of the largest magnitude of its 32.
 * Scales of blocks are rounded to f16 as well. */
static double step_of(const exporter *e, ac_model_file *file, int index) {
  const ac_dtype dtype = ac_model_file_tensor(file, index)->dtype;
  if (dtype == AC_F16) return 0x1p-11;
  if (dtype == AC_BF16) return 0x1p-8;
  if (e->storage == AC_EXPORT_Q8_0) return 0.5 / 127 + 0x1p-11; /* half a step */
  if (e->storage == AC_EXPORT_Q4_0) return 1.0 / 8 + 0x1p-11;   /* a whole one at an end */
  return e->to == EXPORT_GGUF && e->model.info.gguf ? 1.0 / 8 + 0x1p-11 : 0x1p-23;
}

/* Parts of a parameter: as the file has it, and as the trained model has it. */
enum { PIECE = 1 << 15 };
typedef struct pieces {
  float file[PIECE], trained[PIECE];
} pieces;

static int check_elements(const pieces *p, int64_t count, double step, const char *name) {
  for (int64_t begin = 0; begin < count; begin += 32) {
    const int64_t end = begin + 32 < count ? begin + 32 : count;
    double most = 0;
    for (int64_t i = begin; i < end; i++) most = fmax(most, fabs((double)p->trained[i]));
    for (int64_t i = begin; i < end; i++)
      if (!(fabs((double)p->file[i] - (double)p->trained[i]) <= step * most + 1e-7))
        return fail("%s has %g in the file and %g in the trained model: more than rounding "
                    "explains; nothing was kept",
                    name, (double)p->file[i], (double)p->trained[i]);
  }
  return STATUS_CONTINUE;
}

/* Checks a parameter, and gives the trained model the file's rounding of it: what the file has,
 * less what the adapter adds. */
static int take_parameter(exporter *e, ac_model_file *file, const ac_tensor_info *info, pieces *p) {
  const int index = ac_model_file_find(file, info->name);
  const export_layer *layer = export_layers_find(&e->layers, info->name);
  int64_t elements = 1;
  for (int d = 0; d < info->rank; d++) elements *= info->shape[d];
  if (index < 0) return fail("the file lacks %s; nothing was kept", info->name);
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    if (ac_model_file_read(file, index, first, count, p->file) != AC_OK ||
        read_merged(e, info->name, first, count, p->trained) != AC_OK)
      return fail_library();
    const int status = check_elements(p, count, step_of(e, file, index), info->name);
    if (status != STATUS_CONTINUE) return status;
    if (layer) export_layer_add(layer, is_gpt2(e), first, count, -1, p->file);
    if (ac_session_set_parameter(e->trained.session, info->name, first, count, p->file) != AC_OK)
      return fail_library();
  }
  return STATUS_CONTINUE;
}

static int take_rounding(exporter *e, ac_model *written) {
  ac_tensor_info info;
  int status = STATUS_CONTINUE;
  pieces *p = malloc(sizeof *p);
  if (!p) return fail("out of memory");
  for (int i = 0; i < ac_graph_parameter_count(e->trained.graph) && status == STATUS_CONTINUE;
       i++) {
    if (ac_graph_parameter(e->trained.graph, i, &info) != AC_OK) status = fail_library();
    else if (!strstr(info.name, ".lora_"))
      status = take_parameter(e, ac_model_weights(written), &info, p);
  }
  free(p);
  return status;
}

static int logits_of_written(exporter *e, ac_model *written, float **logits) {
  proof_model model;
  int status = proof_model_open(&model, written, &(ac_model_graph_desc){.context = 0}, &e->text,
                                e->open_device);
  if (status == STATUS_CONTINUE && ac_model_load_session(written, model.session) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE)
    status = proof_logits(logits, &model, &e->text, e->model.info.vocabulary);
  proof_model_close(&model);
  return status;
}

static int judge(exporter *e, const float *rounded, const float *written) {
  const int64_t count = e->text.samples * e->text.context * e->model.info.vocabulary;
  e->total = proof_compare(e->logits, written, count);
  e->rounded = proof_compare(rounded, written, count);
  e->allowed = proof_allowed(&e->model.info, e->total.logit);
  if (!e->total.finite || !e->rounded.finite)
    return fail("logits are not finite; nothing was kept");
  if (e->rounded.largest <= e->allowed) return STATUS_CONTINUE;
  return fail("logits of the file differ by up to %.3g from those of the trained model with the "
              "same rounding, and sums explain %.3g; nothing was kept",
              e->rounded.largest, e->allowed);
}

int export_prove_whole(exporter *e) {
  ac_model *written;
  ac_model_info info;
  float *rounded = NULL, *of_file = NULL;
  if (ac_model_open(&written, e->temporary) != AC_OK) return fail_library();
  ac_model_get_info(written, &info);
  int status = info.vocabulary == e->model.info.vocabulary && info.weights
                   ? take_rounding(e, written)
                   : fail("the file is of another model; nothing was kept");
  if (status == STATUS_CONTINUE)
    status = proof_logits(&rounded, &e->trained, &e->text, info.vocabulary);
  proof_model_close(&e->trained); /* one model is in memory at a time */
  if (status == STATUS_CONTINUE) status = logits_of_written(e, written, &of_file);
  if (status == STATUS_CONTINUE) status = judge(e, rounded, of_file);
  free(rounded);
  free(of_file);
  ac_model_free(written);
  return status;
}

/* ---- the proof of an adapter ----------------------------------------------------------------- */

/* Puts matrices of the written file into the session that the trained model is in. */
static int set_matrix(exporter *e, const export_layer *layer, const char *which, int64_t count,
                      const float *data) {
  char name[sizeof layer->name + 32];
  snprintf(name, sizeof name, "%s.%s.weight", layer->name, which);
  return ac_session_set_parameter(e->trained.session, name, 0, count, data) == AC_OK
             ? STATUS_CONTINUE
             : fail_library();
}

static bool is_permuted(const exporter *e, ac_model_file *file, int index) {
  const char *architecture = ac_model_file_metadata(file, "general.architecture");
  const char *name = ac_model_file_tensor(file, index)->name;
  (void)e;
  return architecture && !strcmp(architecture, "llama") &&
         (strstr(name, ".attn_q.") || strstr(name, ".attn_k."));
}

/* B of a GGUF file: rows of heads back in their order, and the file's factor in the place of the
 * trained model's. */
static int take_gguf_b(exporter *e, ac_model_file *file, int index, const export_layer *layer) {
  const int64_t size = e->model.info.head_size, rank = layer->rank;
  const char *text = ac_model_file_metadata(file, "adapter.lora.alpha");
  const double alpha = text ? strtod(text, NULL) : 0;
  const float factor = (float)(alpha / (double)rank / layer->scale);
  float *stored = malloc((size_t)(layer->out * rank) * sizeof *stored),
        *b = malloc((size_t)(layer->out * rank) * sizeof *b);
  int status = stored && b ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE &&
      ac_model_file_read(file, index, 0, layer->out * rank, stored) != AC_OK)
    status = fail_library();
  for (int64_t row = 0; row < layer->out && status == STATUS_CONTINUE; row++) {
    const int64_t place = row % size, half = size / 2;
    const int64_t to =
        is_permuted(e, file, index) ? row - place + place % 2 * half + place / 2 : row;
    for (int64_t k = 0; k < rank; k++) b[to * rank + k] = factor * stored[row * rank + k];
  }
  if (status == STATUS_CONTINUE) status = set_matrix(e, layer, "lora_B", layer->out * rank, b);
  free(stored);
  free(b);
  return status;
}

static int take_gguf_layer(exporter *e, ac_model_file *file, int layer_index) {
  const export_layer *layer = &e->layers.list[layer_index];
  const int64_t count = layer->rank * layer->in;
  float *a = malloc((size_t)count * sizeof *a);
  int status = a ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE && ac_model_file_read(file, 2 * layer_index, 0, count, a) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE) status = set_matrix(e, layer, "lora_A", count, a);
  free(a);
  return status == STATUS_CONTINUE ? take_gguf_b(e, file, 2 * layer_index + 1, layer) : status;
}

static int take_gguf(exporter *e) {
  ac_model_file *file;
  if (ac_model_file_open(&file, e->temporary) != AC_OK) return fail_library();
  int status = ac_model_file_tensor_count(file) == 2 * e->layers.count
                   ? STATUS_CONTINUE
                   : fail("the file has another number of adapters; nothing was kept");
  for (int i = 0; i < e->layers.count && status == STATUS_CONTINUE; i++)
    status = take_gguf_layer(e, file, i);
  ac_model_file_close(file);
  return status;
}

/* The same session, with the adapter as it was written. */
static int take_peft(exporter *e) {
  llm_model written = {.info = e->model.info};
  if (strlen(e->temporary) >= sizeof written.found.adapter) return fail("--out is too long a path");
  strcpy(written.found.adapter, e->temporary);
  int status = llm_adapter_open(&written);
  if (status == STATUS_CONTINUE &&
      (written.lora.rank != e->model.lora.rank || written.lora.alpha != e->model.lora.alpha ||
       written.lora.rank_stabilised != e->model.lora.rank_stabilised))
    status = fail("the adapter's description is another; nothing was kept");
  if (status == STATUS_CONTINUE) status = llm_adapter_load(&written, e->trained.session);
  ac_model_file_close(written.adapter);
  free(written.adapter_targets);
  return status;
}

int export_prove_adapter(exporter *e) {
  float *written = NULL;
  /* What was there before must not be taken for what was read. */
  for (int i = 0; i < e->layers.count; i++) {
    const export_layer *l = &e->layers.list[i];
    float *zeros = calloc((size_t)(l->out * l->rank), sizeof *zeros);
    const int status =
        zeros ? set_matrix(e, l, "lora_B", l->out * l->rank, zeros) : fail("out of memory");
    free(zeros);
    if (status != STATUS_CONTINUE) return status;
  }
  int status = e->to == EXPORT_ADAPTER ? take_peft(e) : take_gguf(e);
  if (status == STATUS_CONTINUE)
    status = proof_logits(&written, &e->trained, &e->text, e->model.info.vocabulary);
  if (status == STATUS_CONTINUE) status = judge(e, e->logits, written);
  free(written);
  return status;
}
