/* The weights of a model: whether its file has what the graph needs, and filling parameters. */
#include "model/model.h"

#include "core/error.h"
#include "core/platform/patterns.h"
#include "core/quote.h"
#include "graph/names.h"
#include "io/opened.h"
#include "io/safetensors.h"
#include "run/instance.h"
#include "window/trainer.h"

#include <string.h>

/* Tensors that files have although no model needs them. */
static const char *const buffers[] = {"*.rotary_emb.inv_freq", "*.attn.bias", "*.attn.masked_bias",
                                      "rope_freqs.weight"};

static bool is_buffer(const char *name) {
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    if (ac_pattern_matches(buffers[i], name)) return true;
  return false;
}

static const char *prefix_of(const ac_model *model) {
  return model->config.family->optional_prefix;
}

bool ac_model_owns(const ac_model *model, const char *name) {
  int found = -1;
  return ac_graph_find_leaf(model->graph, AC_ROLE_PARAMETER, name, &found) && found >= 0;
}

/* The name that the graph has for a tensor of the file, which may lack the prefix. */
static bool is_in_graph(const ac_model *model, const char *name) {
  char whole[AC_MAX_NAME + 1];
  if (ac_model_owns(model, name)) return true;
  const char *prefix = prefix_of(model);
  if (!prefix) return false;
  snprintf(whole, sizeof whole, "%s%s", prefix, name);
  return ac_model_owns(model, whole);
}

ac_blocks ac_model_blocks_in_file(const ac_model *model, const char *name) {
  const char *prefix = prefix_of(model);
  const size_t length = prefix ? strlen(prefix) : 0;
  int index = ac_model_file_find(model->weights, name);
  if (index < 0 && length && !strncmp(name, prefix, length))
    index = ac_model_file_find(model->weights, name + length);
  if (index < 0) return AC_BLOCKS_NONE;
  const ac_blocks blocks = ac_model_file_blocks(model->weights, index);
  const bool in_blocks = ac_entry_is_in_blocks(&model->weights->entries[index]);
  return blocks ? blocks : in_blocks ? AC_BLOCKS_Q8_0 : AC_BLOCKS_NONE;
}

static ac_status check_known(const ac_model *model, const char *name) {
  char head[AC_PART_NAME + 16], part[AC_PART_NAME];
  snprintf(head, sizeof head, "%s.weight",
           ac_part_name(model->config.family, AC_PART_HEAD, 0, part));
  if (is_in_graph(model, name) || is_buffer(name) || !strcmp(name, head)) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s: the file has a tensor %s, which the model of %s does not have",
                 ac_model_file_path(model->weights), ac_quote(name).text, model->config.source);
}

ac_status ac_model_check_weights(const ac_model *model) {
  for (int i = 0; i < ac_model_file_tensor_count(model->weights); i++)
    AC_TRY(check_known(model, ac_model_file_tensor(model->weights, i)->name));
  return ac_graph_check_file(model->graph, model->weights, prefix_of(model));
}

/* ---- loading --------------------------------------------------------------------------------- */

static bool is_own(void *user, const char *name) {
  return ac_model_owns(user, name);
}

static ac_status check_weights(const ac_model *model) {
  if (model->weights) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "%s: the model has no weights", model->path);
}

ac_status ac_model_load(ac_model *model, ac_trainer *trainer) {
  AC_REQUIRE(model, trainer);
  AC_TRY(check_weights(model));
  return ac_trainer_load_from(trainer, model->weights, prefix_of(model), is_own, model);
}

ac_status ac_model_load_session(ac_model *model, ac_session *session) {
  AC_REQUIRE(model, session);
  AC_TRY(check_weights(model));
  return ac_session_load_from(session, model->weights, prefix_of(model), is_own, model);
}
