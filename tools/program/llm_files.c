/* What a run of `accrue train llm` writes: an adapter in PEFT's form, or a folder of Hugging Face's
 * form with all weights. */
#include "program/llm_kind.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/carry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What PEFT puts before the names of a model's layers. */
static const char peft_prefix[] = "base_model.model.";

model_files llm_files(const void *self) {
  static const model_files adapter = {"adapter_model.safetensors", "adapter_config.json"},
                           whole = {"model.safetensors", "config.json"};
  return ((const llm_model *)self)->rank ? adapter : whole;
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct writing {
  ac_trainer *trainer;
  ac_model_tensor *tensors;
  int *parameters, count;
  char *names;
} writing;

static bool is_of_adapter(const char *name) {
  return strstr(name, ".lora_") != NULL;
}

/* Those of the adapter, or all. Matrices that the plan keeps in bf16 are written so, without
 * loss. */
static ac_status list_tensors(writing *w, bool adapter, bool halves) {
  const int all = ac_trainer_parameter_count(w->trainer);
  enum { NAME = 512 };
  w->tensors = calloc((size_t)all + 1, sizeof *w->tensors);
  w->parameters = calloc((size_t)all + 1, sizeof *w->parameters);
  w->names = calloc((size_t)all + 1, NAME);
  if (!w->tensors || !w->parameters || !w->names) return AC_ERROR_MEMORY;
  for (int i = 0; i < all; i++) {
    ac_tensor_info info;
    const ac_status status = ac_trainer_parameter_info(w->trainer, i, &info);
    if (status != AC_OK) return status;
    if (adapter && !is_of_adapter(info.name)) continue;
    char *name = w->names + (size_t)w->count * NAME;
    snprintf(name, NAME, "%s%s", adapter ? peft_prefix : "", info.name);
    ac_model_tensor *t = &w->tensors[w->count];
    *t = (ac_model_tensor){name, halves && info.rank > 1 ? AC_BF16 : AC_F32, info.rank, {0}};
    for (int d = 0; d < info.rank; d++) t->shape[d] = info.shape[d];
    w->parameters[w->count++] = i;
  }
  return AC_OK;
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
  if (w->tensors[index].dtype == AC_BF16)
    return read_halves(w, w->parameters[index], first, count, data);
  return ac_trainer_get_parameter(w->trainer, w->parameters[index], first, count, data);
}

ac_status llm_save(const void *self, ac_trainer *trainer, const char *path,
                   const ac_metadata *metadata, int metadata_count) {
  const llm_model *model = self;
  writing w = {.trainer = trainer};
  ac_status status = list_tensors(&w, model->rank > 0, model->weights_in_16_bits);
  if (status == AC_OK)
    status =
        ac_model_file_write(path, w.tensors, w.count, metadata, metadata_count, read_weights, &w);
  free(w.tensors);
  free(w.parameters);
  free(w.names);
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

static char *adapter_config(const llm_model *model) {
  json_t *config = json_pack(
      "{s:s, s:s, s:o, s:I, s:f, s:f, s:b, s:b, s:s, s:b, s:b, s:[sssssss]}", "peft_type", "LORA",
      "task_type", "CAUSAL_LM", "base_model_name_or_path", json_text_name(model->found.base), "r",
      (json_int_t)model->rank, "lora_alpha", model->lora.alpha, "lora_dropout", model->dropout,
      "use_rslora", model->rslora, "use_dora", model->dora, "bias", "none", "fan_in_fan_out", 0,
      "inference_mode", 1, "target_modules", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
      "up_proj", "down_proj");
  char *text = config ? json_text(config, JSON_INDENT(2)) : NULL;
  json_decref(config);
  return text;
}

char *llm_config_json(const void *self) {
  const llm_model *model = self;
  return model->rank ? adapter_config(model) : whole_config(model);
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
  if (model->rank || model->info.gguf) return;
  snprintf(path, sizeof path, "%s/config.json", model->found.base);
  carry_files(files, path, folder, replace);
}
