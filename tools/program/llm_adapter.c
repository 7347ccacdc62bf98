/* Adapters in PEFT's form, as they are read. */
#include "program/llm_kind.h"

#include "common/json_file.h"
#include "common/message.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "base_model.model.";

/* A list of names, or one text, as patterns with commas between. */
static char *join(const json_t *targets) {
  size_t size = 1;
  const json_t *one;
  size_t i;
  if (json_is_string(targets)) return strdup(json_string_value(targets));
  json_array_foreach(targets, i, one) if (json_is_string(one)) size += json_string_length(one) + 1;
  char *text = calloc(1, size);
  json_array_foreach(targets, i, one) {
    if (!text || !json_is_string(one)) continue;
    if (*text) strcat(text, ",");
    strcat(text, json_string_value(one));
  }
  return text;
}

static int read_config(llm_model *model, const json_t *config, const char *path) {
  const char *type = json_string_value(json_object_get(config, "peft_type"));
  const json_t *targets = json_object_get(config, "target_modules");
  if (!type || strcmp(type, "LORA") != 0)
    return fail("%s: peft_type is not LORA, the only one that Accrue has", path);
  model->adapter_targets = targets && !json_is_null(targets) ? join(targets) : NULL;
  model->lora =
      (ac_lora_desc){.rank = json_integer_value(json_object_get(config, "r")),
                     .alpha = json_number_value(json_object_get(config, "lora_alpha")),
                     .rank_stabilised = json_is_true(json_object_get(config, "use_rslora")),
                     .dora = json_is_true(json_object_get(config, "use_dora")),
                     .targets = model->adapter_targets};
  return model->lora.rank > 0 ? STATUS_CONTINUE : fail("%s: r is not a rank", path);
}

int llm_adapter_open(llm_model *model) {
  char path[MODEL_PATH_BYTES + 32];
  json_error_t error;
  snprintf(path, sizeof path, "%s/adapter_config.json", model->found.adapter);
  json_t *config = json_file_load(path, 0, &error);
  const int status = config ? read_config(model, config, path) : fail("%s: %s", path, error.text);
  json_decref(config);
  if (status != STATUS_CONTINUE) return status;
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", model->found.adapter);
  return ac_model_file_open(&model->adapter, path) == AC_OK ? STATUS_CONTINUE : fail_library();
}

static int load_tensor(const llm_model *model, int index, ac_session *session) {
  enum { PIECE = 1 << 14 };
  float piece[PIECE];
  const ac_model_tensor *t = ac_model_file_tensor(model->adapter, index);
  int64_t count = 1;
  const char *name =
      strncmp(t->name, prefix, sizeof prefix - 1) ? t->name : t->name + sizeof prefix - 1;
  for (int d = 0; d < t->rank; d++) count *= t->shape[d];
  for (int64_t first = 0; first < count; first += PIECE) {
    const int64_t part = count - first < PIECE ? count - first : PIECE;
    if (ac_model_file_read(model->adapter, index, first, part, piece) != AC_OK ||
        ac_session_set_parameter(session, name, first, part, piece) != AC_OK)
      return fail_library();
  }
  return STATUS_CONTINUE;
}

int llm_adapter_load(const llm_model *model, ac_session *session) {
  int status = STATUS_CONTINUE;
  for (int i = 0; i < ac_model_file_tensor_count(model->adapter) && status == STATUS_CONTINUE; i++)
    status = load_tensor(model, i, session);
  return status;
}
