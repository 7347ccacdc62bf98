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
/* Whether it has one for each of the leading dimensions, which the rows below share. */
bool ac_loss_weights_lead(const ac_tensor *weights, const ac_shape *rows);

/* The loss (row_loss) of losses that other ops have computed, NULL if these are: so many `elements`
 * form a row, with `factor` times their sum for its loss. It is that of `made_by`,
 * unless NULL. */
ac_tensor *ac_loss_of_rows(ac_tensor *losses, ac_tensor *weights, int64_t elements, float factor,
                           const ac_tensor *made_by);

/* ---- losses that are made of other ops ------------------------------------------------------- */

/* Whether a loss's operands are right, which else fails the graph: `count` of them are f32 of one
 * shape that begins with the batch, and weights, which follow, [B] or NULL. */
bool ac_loss_elements_match(const ac_builder *builder, ac_tensor *const *operands, int count);
/* The same of rows, the last dimension; weights are those of ac_loss for the rows. */
bool ac_loss_vectors_match(const ac_builder *builder, ac_tensor *const *operands, int count);
/* Whether a number is in [low, high], and not infinite; else the graph fails. */
bool ac_loss_number(const ac_builder *builder, ac_tensor *const *operands, const char *name,
                    float value, float low, float high);

/* A formula (ac_formula) in which each # is one of the numbers, in their order. */
ac_tensor *ac_loss_formula(ac_graph *graph, const char *formula, ac_tensor *const *operands,
                           int count, const float *numbers);
/* The mean over each sample of such a formula, as a loss. Weights follow the operands. */
ac_tensor *ac_loss_of_elements(const char *formula, ac_tensor *const *operands, int count,
                               const float *numbers);

/* What `desc`, which may be NULL, asks for; a smoothing outside [0, 1), and a cap that
 * ac_loss_cap_fits refuses, fail the graph. */
bool ac_cross_entropy_describe(ac_graph *graph, const ac_builder *builder,
                               ac_tensor *const *operands, const ac_cross_entropy_desc *desc,
                               ac_cross_entropy_attributes *attributes);

/* Whether it is 0 or bounds logits; else the graph fails. */
bool ac_loss_cap_fits(const ac_builder *builder, ac_tensor *const *operands, float cap);

/* Bytes of logits that ops of an output projection have at once, by how its weight is kept. */
int64_t ac_loss_chunk_bytes(const ac_tensor *weight);

/* Fails if an operand from index `first` on depends on trainable parameters: losses with kernels of
 * their own differentiate with respect to their prediction alone. The sentence ends with what to do
 * `instead`; NULL: to make the loss of other ops. */
ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first,
                                  const char *instead);

#endif
