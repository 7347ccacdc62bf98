/* What loss ops share. */
#ifndef AC_OPS_LOSS_H
#define AC_OPS_LOSS_H

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/cross_entropy.h"

/* What a loss op adds up over: a row for each integer target or, without these, for each sample. A
 * row weighs what its weight says, 1 without weights, and nothing if its target is ignored. */
typedef struct ac_loss_rows {
  int targets, weights; /* which operands; -1: none */
  int64_t classes;      /* that targets may name */
  int64_t per_sample;   /* rows */
  bool ignore;
  int32_t ignore_index;
} ac_loss_rows;

/* False if the node is no loss. */
bool ac_loss_rows_of(const ac_graph *graph, const ac_node *node, ac_loss_rows *rows);

/* Emits a loss op whose output 0 holds the sums. */
ac_tensor *ac_loss_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands);

/* Whether `weights` (may be NULL) has one f32 for each row. */
bool ac_loss_weights_match(const ac_tensor *weights, const ac_shape *rows);

/* What `desc`, which may be NULL, asks for; a smoothing outside [0, 1) fails the graph. */
bool ac_cross_entropy_describe(ac_graph *graph, const ac_builder *builder,
                               ac_tensor *const *operands, const ac_cross_entropy_desc *desc,
                               ac_cross_entropy_attributes *attributes);

/* Fails if an operand from index `first` on depends on trainable parameters: losses differentiate
 * with respect to their prediction alone. */
ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first);

#endif
