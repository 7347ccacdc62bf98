/* What a run of `accrue train llm` writes: an adapter in PEFT's form, or a folder of Hugging Face's
 * form with all weights. */
#include "program/llm_kind.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/carry.h"
#include "program/run_folder.h"

#include <accrue/export.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

model_files llm_files(const void *self) {
  static const model_files adapter = {"adapter_model.safetensors", "adapter_config.json"},
                           whole = {"model.safetensors", "config.json"};
  return ((const llm_model *)self)->rank ? adapter : whole;
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct writing {
  ac_trainer *trainer;
  ac_model_tensor *tensors; /* in the order of the parameters */
  int count;
} writing;

/* Matrices that the plan keeps in bf16 are written so, without loss. */
static ac_status list_tensors(writing *w) {
  w->count = ac_trainer_parameter_count(w->trainer);
  w->tensors = calloc((size_t)w->count + 1, sizeof *w->tensors);
  for (int i = 0; w->tensors && i < w->count; i++) {
    ac_tensor_info info;
    const ac_status status = ac_trainer_parameter_info(w->trainer, i, &info);
    if (status != AC_OK) return status;
    w->tensors[i] = (ac_model_tensor){info.name, info.rank > 1 ? AC_BF16 : AC_F32, info.rank, {0}};
    for (int d = 0; d < info.rank; d++) w->tensors[i].shape[d] = info.shape[d];
  }
  return w->tensors ? AC_OK : AC_ERROR_MEMORY;
}

/* The upper halves of floats, which are bf16 already. */
static ac_status read_halves(writing *w, int parameter, int64_t first, int64_t count,
                             uint16_t *data) {
  float piece[4096];
  const int64_t most = sizeof piece / sizeof *piece;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t part = count - done < most ? count - done : most;
    const ac_status status =
        ac_trainer_get_parameter(w->trainer, parameter, first + done, part, piece);
    if (status != AC_OK) return status;
    for (int64_t i = 0; i < part; i++) {
      uint32_t bits;
      memcpy(&bits, &piece[i], sizeof bits);
      data[done + i] = (uint16_t)(bits >> 16);
    }
  }
  return AC_OK;
}

static ac_status read_weights(void *user, int index, int64_t first, int64_t count, void *data) {
  writing *w = user;
  if (w->tensors[index].dtype == AC_BF16) return read_halves(w, index, first, count, data);
  return ac_trainer_get_parameter(w->trainer, index, first, count, data);
}

ac_status llm_save(const void *self, ac_trainer *trainer, const char *path,
                   const ac_metadata *metadata, int metadata_count) {
  const llm_model *model = self;
  writing w = {.trainer = trainer};
  if (model->rank) return ac_adapter_save_weights(trainer, path, metadata, metadata_count);
  if (!model->weights_in_16_bits) return ac_trainer_save(trainer, path, metadata, metadata_count);
  ac_status status = list_tensors(&w);
  if (status == AC_OK)
    status =
        ac_model_file_write(path, w.tensors, w.count, metadata, metadata_count, read_weights, &w);
  free(w.tensors);
  return status;
}

/* ---- what is next to them -------------------------------------------------------------------- */

/* The configuration of the folder that was trained, in the type that its new weights have. */
static char *whole_config(const llm_model *model) {
  char path[MODEL_PATH_BYTES + 16];
  static const char *const keys[] = {"torch_dtype", "dtype"};
  snprintf(path, sizeof path, "%s/config.json", model->found.base);
  json_t *config = json_file_load(path, 0, NULL);
  for (int i = 0; config && i < 2; i++)
    if (i == 0 || json_object_get(config, keys[i]))
      json_object_set_new(config, keys[i],
                          json_string(model->weights_in_16_bits ? "bfloat16" : "float32"));
  char *text = config ? json_text(config, JSON_INDENT(2)) : NULL;
  json_decref(config);
  return text;
}

/* A GGUF file has its configuration in other words. */
static char *made_config(const llm_model *model) {
  char *text = NULL;
  const ac_dtype dtype = model->weights_in_16_bits ? AC_BF16 : AC_F32;
  if (ac_model_config_json(&text, model->model, dtype) != AC_OK) fail_library();
  return text;
}

char *llm_config_json(const void *self, const ac_trainer *trainer) {
  const llm_model *model = self;
  if (!model->rank && model->info.gguf) return made_config(model);
  char *text = model->rank ? NULL : whole_config(model);
  if (!model->rank && !text) fail("out of memory");
  if (model->rank && ac_adapter_config(&text, trainer, &model->lora, model->found.base) != AC_OK)
    fail_library();
  return text;
}

/* Those of a GGUF file are made once: files that are there may be someone else's, unless the run
 * replaces another. */
static void make_files(const llm_model *model, const run_folder *folder, bool replace) {
  char path[RUN_PATH_BYTES];
  run_folder_path(folder, "generation_config.json", path);
  if (!replace && access(path, F_OK) == 0) return;
  if (ac_model_export_files(model->model, folder->path) != AC_OK)
    say("%s: %s", folder->path, ac_last_error());
}

/* A folder of a whole model is complete with the files of its tokenizer. */
void llm_carry(const void *self, const struct run_folder *folder, bool replace) {
  static const char *const files[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "merges.txt",
                                      "tokenizer.model",
                                      "chat_template.jinja",
                                      "chat_template.json",
                                      "generation_config.json",
                                      NULL};
  char path[MODEL_PATH_BYTES + 16];
  const llm_model *model = self;
  if (model->rank) return;
  if (model->info.gguf) {
    make_files(model, folder, replace);
    return;
  }
  snprintf(path, sizeof path, "%s/config.json", model->found.base);
  carry_files(files, path, folder, replace);
}
