/* What ops over axes share, and the sum that takes a tensor back to a shape that was repeated. */
#ifndef AC_OPS_REDUCTION_H
#define AC_OPS_REDUCTION_H

#include "graph/differentiate.h"
#include "ops/reduction/reduce.h"

/* The graph of x, if x is f32 and the axes are good: each once, negative ones counted from the end,
 * the batch not among them; none at all are all but the batch. Else NULL, with the failure
 * recorded.
 */
ac_graph *ac_axes_begin(const ac_builder *builder, ac_tensor *x, int count, const int *axes,
                        uint32_t *bits);
/* The shape without these axes or, if they are kept, with 1 in their places. One without dimensions
 * is [1]. */
ac_shape ac_shape_reduced(const ac_shape *shape, uint32_t axes, bool keep);

/* The axes along which NumPy's broadcasting repeats a tensor of shape `from` to get `to`. */
uint32_t ac_repeated_axes(const ac_shape *from, const ac_shape *to);

/* Passes a gradient on to `target`, summed over the axes along which the target was repeated to
 * give what the gradient is of. */
ac_status ac_gradient_sum_to(ac_differentiation *d, int target, ac_tensor *gradient);

#endif
