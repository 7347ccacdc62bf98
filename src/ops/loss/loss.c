#include "ops/loss/loss.h"

#include "ops/words.h"

ac_loss_rows ac_cross_entropy_rows(const ac_cross_entropy_attributes *attributes,
                                   const ac_operand *targets, int weights) {
  return (ac_loss_rows){.weights = weights,
                        .per_sample = targets->count,
                        .ignore = attributes->ignore,
                        .ignore_index = attributes->ignore_index};
}

void ac_cross_entropy_words(ac_words *words, const ac_cross_entropy_attributes *attributes) {
  if (attributes->smoothing > 0) ac_words_put(words, ", smoothed");
  if (attributes->ignore) ac_words_put(words, ", some ignored");
}

/* A row is an index of the leading dimension, which may have several rows for each sample. */
ac_loss_rows ac_sample_loss_rows(const ac_op_args *args) {
  return (ac_loss_rows){.weights = args->in[2].count ? 2 : -1, .per_sample = args->in[0].dim[0]};
}

ac_tensor *ac_loss_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands) {
  static const ac_shape sums = {.rank = 1, .dim = {AC_LOSS_SUMS}};
  int node = ac_graph_append(graph, op, attributes, size, count, operands);
  ac_tensor *loss = ac_graph_add_output(graph, node, AC_ROLE_LOSS, AC_F32, &sums);
  if (loss) loss->made_by = operands[0]->id;
  return loss;
}

bool ac_loss_weights_match(const ac_tensor *weights, const ac_shape *rows) {
  return !weights || (weights->dtype == AC_F32 && ac_shape_equal(&weights->shape, rows));
}

ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first,
                                  const char *instead) {
  char text[128];
  for (int i = first; i < AC_MAX_INPUTS; i++)
    if (ac_gradient_wanted(d, node->in[i]))
      return ac_fail(AC_ERROR_UNSUPPORTED,
                     "%s: operand %d must not depend on trainable parameters; %s",
                     ac_node_text(text, sizeof text, d->graph, node), i,
                     instead ? instead : "a loss where it may is made of other ops and ac_loss");
  return AC_OK;
}
