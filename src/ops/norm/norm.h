/* What the builders of norms share. */
#ifndef AC_OPS_NORM_H
#define AC_OPS_NORM_H

#include "graph/builder.h"
#include "graph/differentiate.h"

/* Whether x, the first operand, is f32 [B, C, ...] and gamma and beta, the next two, are vectors of
 * C where there are any; if not, the graph fails with a sentence. */
bool ac_norm_over_channels(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands);

/* Replaces 0 by the default, 1e-5. An epsilon that is negative, infinite or NaN fails the graph. */
bool ac_norm_epsilon(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands,
                     float *epsilon);

/* Emits a norm of operand 0: a result of its shape, which is returned, and statistics. */
ac_tensor *ac_norm_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands, const ac_shape *statistics);

/* A norm of rows, [..., n], of x and of vectors [n] that may be NULL. */
typedef ac_tensor *(*ac_row_norm)(ac_graph *graph, ac_tensor *const *operands, float epsilon);

/* The same over any axes of x. The vectors have the shape of these axes, in x's order. Axes that
 * are not the last ones are moved there, and back. */
ac_tensor *ac_norm_over(const ac_builder *builder, ac_tensor *const *operands, int count,
                        const int *axes, float epsilon, ac_row_norm norm);

/* Of a batch norm: the running mean and variance follow what the window has pooled. */
ac_status ac_batch_norm_append_update(ac_graph *graph, const ac_node *node, ac_tensor *pooled,
                                      const int running[2]);

#endif
