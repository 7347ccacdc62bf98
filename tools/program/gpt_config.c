#include "program/gpt_config.h"

#include "common/json_text.h"
#include "common/message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static const ac_model_tensor *find(const ac_model_file *file, const char *name) {
  char full[64];
  snprintf(full, sizeof full, GPT_PREFIX "%s", name);
  int index = ac_model_file_find(file, full);
  if (index < 0) index = ac_model_file_find(file, name);
  return index < 0 ? NULL : ac_model_file_tensor(file, index);
}

/* Sizes that the tensors themselves tell. */
static int read_shapes(gpt_config *config, const ac_model_file *file, const char *path) {
  const ac_model_tensor *wte = find(file, "wte.weight"), *wpe = find(file, "wpe.weight");
  if (!wte || !wpe || wte->rank != 2 || wpe->rank != 2 || wte->shape[1] != wpe->shape[1])
    return fail("%s is no GPT-2 model: it lacks wte.weight and wpe.weight of equal width", path);
  if (wte->shape[0] < 1 || wte->shape[1] < 1 || wpe->shape[0] < 1)
    return fail("%s is no GPT-2 model: its vocabulary, width or context is empty", path);
  config->vocab = wte->shape[0];
  config->context = wpe->shape[0];
  config->width = wte->shape[1];
  char name[48];
  for (config->layers = 0; config->layers < 10000; config->layers++) {
    snprintf(name, sizeof name, "h.%d.ln_1.weight", (int)config->layers);
    if (!find(file, name)) break;
  }
  if (!config->layers) return fail("%s is no GPT-2 model: it has no h.0.ln_1.weight", path);
  return STATUS_CONTINUE;
}

static json_t *load_sibling(const char *path) {
  char name[4096];
  const char *slash = strrchr(path, '/');
  int length =
      snprintf(name, sizeof name, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
  return length > 0 && (size_t)length < sizeof name ? json_load_file(name, 0, NULL) : NULL;
}

/* Variants of the architecture that would load and then compute something else. */
static const char *variant(const json_t *json) {
  const char *activation = json_string_value(json_object_get(json, "activation_function"));
  if (activation && strcmp(activation, "gelu_new") && strcmp(activation, "gelu_pytorch_tanh"))
    return "activation_function";
  const json_t *epsilon = json_object_get(json, "layer_norm_epsilon");
  if (json_is_number(epsilon) && json_number_value(epsilon) != 1e-5) return "layer_norm_epsilon";
  if (json_is_false(json_object_get(json, "scale_attn_weights"))) return "scale_attn_weights";
  if (json_is_true(json_object_get(json, "scale_attn_by_inverse_layer_idx")))
    return "scale_attn_by_inverse_layer_idx";
  if (json_is_false(json_object_get(json, "tie_word_embeddings"))) return "tie_word_embeddings";
  return NULL;
}

static int read_sibling(gpt_config *config, const char *path) {
  json_t *json = load_sibling(path);
  if (!json) return STATUS_CONTINUE;
  const char *different = variant(json);
  const json_t *heads = json_object_get(json, "n_head");
  if (json_is_integer(heads)) config->heads = json_integer_value(heads);
  int status =
      different ? fail("the config.json beside %s sets %s, which is not GPT-2's", path, different)
                : STATUS_CONTINUE;
  json_decref(json);
  return status;
}

int gpt_config_read(gpt_config *config, const ac_model_file *file, const char *path) {
  *config = (gpt_config){0};
  const char *model = ac_model_file_metadata(file, "accrue.model");
  if (model && strcmp(model, "gpt"))
    return fail("%s holds a model of kind %s, not gpt", path, model);
  int status = read_shapes(config, file, path);
  if (status != STATUS_CONTINUE) return status;

  const char *heads = ac_model_file_metadata(file, "accrue.heads");
  if (heads) config->heads = strtoll(heads, NULL, 10);
  else if ((status = read_sibling(config, path)) != STATUS_CONTINUE) return status;
  if (config->heads < 0 || (config->heads > 0 && config->width % config->heads))
    return fail("%s: %" PRId64 " heads do not divide the width %" PRId64, path, config->heads,
                config->width);
  return STATUS_CONTINUE;
}

/* ---- writing --------------------------------------------------------------------------------- */

void gpt_config_describe(const gpt_config *config, model_metadata *metadata) {
  model_metadata_add(metadata, "accrue.model", "gpt");
  model_metadata_add(metadata, "accrue.layers", "%" PRId64, config->layers);
  model_metadata_add(metadata, "accrue.heads", "%" PRId64, config->heads);
  model_metadata_add(metadata, "accrue.width", "%" PRId64, config->width);
  model_metadata_add(metadata, "accrue.context", "%" PRId64, config->context);
  model_metadata_add(metadata, "accrue.vocab", "%" PRId64, config->vocab);
  model_metadata_add(metadata, "accrue.dropout", "%g", config->dropout);
}

char *gpt_config_json(const gpt_config *config) {
  json_int_t V = config->vocab, T = config->context, C = config->width;
  double p = config->dropout;
  json_t *json = json_pack(
      "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:n, s:n, "
      "s:s}",
      "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "vocab_size", V, "n_positions", T,
      "n_ctx", T, "n_embd", C, "n_layer", (json_int_t)config->layers, "n_head",
      (json_int_t)config->heads, "activation_function", "gelu_new", "embd_pdrop", p, "attn_pdrop",
      p, "resid_pdrop", p, "layer_norm_epsilon", 1e-5, "initializer_range", 0.02,
      "tie_word_embeddings", 1, "bos_token_id", "eos_token_id", "torch_dtype", "float32");
  char *text = json ? json_text_short(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  return text;
}
