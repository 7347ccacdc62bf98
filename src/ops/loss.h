/* What loss ops share. */
#ifndef AC_OPS_LOSS_H
#define AC_OPS_LOSS_H

#include "graph/differentiate.h"

/* Emits a loss op whose output 0 holds the sums. */
ac_tensor *ac_loss_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands);

/* Whether `weights` (may be NULL) has one f32 for each row. */
bool ac_loss_weights_match(const ac_tensor *weights, const ac_shape *rows);

/* Fails if an operand from index `first` on depends on trainable parameters: losses differentiate
 * with respect to their prediction alone. */
ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first);

#endif
