/* What the element-by-element ops share. */
#ifndef AC_OPS_ELEMENTWISE_H
#define AC_OPS_ELEMENTWISE_H

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/pointwise/pointwise.h"

/* y = f(x): checks the operand and emits the node. */
ac_tensor *ac_unary(ac_op op, ac_tensor *x, const void *attributes, size_t size);

/* The gradient of such an op: emits `op`: dy, saved -> contribution to x, where saved is the op's
 * input or output. */
ac_status ac_unary_gradient(ac_differentiation *d, const ac_node *node, ac_op op, int saved,
                            size_t attribute_bytes);

/* c = f(a, b) with the smaller operand repeated along leading dimensions; the larger comes first in
 * the node. */
ac_tensor *ac_binary(ac_op op, ac_tensor *a, ac_tensor *b);

/* Passes a gradient shaped like the larger operand on to `target`, summed over leading dimensions
 * if that is the smaller one. */
ac_status ac_broadcast_gradient(ac_differentiation *d, int target, ac_tensor *gradient);

/* Checks the operands and emits the program's node: one result, of the operands' broadcast shape.
 * A program that is nothing but an operand of this shape gives a view of it. The sentence about
 * operands that do not fit names `builder`. */
ac_tensor *ac_pointwise(const ac_builder *builder, ac_tensor *const *operands,
                        const ac_program *program);

/* Appends a node without results, as ac_graph_append does, for operands that have been checked:
 * `shape` is that of all results. */
int ac_append_pointwise(ac_graph *graph, const ac_program *program, ac_tensor *const *operands,
                        const ac_shape *shape);

#endif
