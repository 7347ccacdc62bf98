/* What loss ops share. */
#ifndef AC_OPS_LOSS_H
#define AC_OPS_LOSS_H

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/loss/cross_entropy.h"

/* The rows of losses over integer targets, and over samples with weights as input 2. Both as of one
 * sample. */
ac_loss_rows ac_cross_entropy_rows(const ac_cross_entropy_attributes *attributes,
                                   const ac_operand *targets, int weights);
ac_loss_rows ac_sample_loss_rows(const ac_op_args *args);

/* ac_op_desc.words of what they have in common. */
void ac_cross_entropy_words(ac_words *words, const ac_cross_entropy_attributes *attributes);

/* Emits a loss op; its output 0 holds the sums. */
ac_tensor *ac_loss_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands);

/* Whether `weights` (may be NULL) has one f32 for each row. */
bool ac_loss_weights_match(const ac_tensor *weights, const ac_shape *rows);

/* What `desc`, which may be NULL, asks for; a smoothing outside [0, 1) fails the graph. */
bool ac_cross_entropy_describe(ac_graph *graph, const ac_builder *builder,
                               ac_tensor *const *operands, const ac_cross_entropy_desc *desc,
                               ac_cross_entropy_attributes *attributes);

/* Fails if an operand from index `first` on depends on trainable parameters: losses with kernels of
 * their own differentiate with respect to their prediction alone. The sentence ends with what to do
 * `instead`; NULL: to make the loss of other ops. */
ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first,
                                  const char *instead);

#endif
