/* What ops on single elements share. */
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

/* Checks the operands and emits the program's node: one result, of the operands' broadcast shape.
 * A program that is nothing but an operand of this shape gives a view of it. The sentence about
 * operands that do not fit names `builder`. */
ac_tensor *ac_pointwise(const ac_builder *builder, ac_tensor *const *operands,
                        const ac_program *program);

/* The attributes of a program of operands that have been checked: `shape` is that of all results.
 */
ac_pointwise_attributes ac_pointwise_attributes_of(const ac_program *program,
                                                   ac_tensor *const *operands,
                                                   const ac_shape *shape);

/* What nodes are called. 0, a formula, for a name that is of no function. */
uint8_t ac_pointwise_title(const char *name);
const char *ac_pointwise_title_text(const ac_pointwise_attributes *attributes);

#endif
