/* What adapters of linear layers are made of. The builder that ac_linear is a part of: the product
 * of an adapter is added to the layer's result in the same op. */
#ifndef AC_OPS_LINEAR_ADAPTED_H
#define AC_OPS_LINEAR_ADAPTED_H

#include "graph/graph.h"

/* y = x W + bias + low B^T, with low [..., rank] of x's leading dimensions and B [out, rank],
 * whatever the layout of W. `low` and `up` may both be NULL. */
ac_tensor *ac_linear_adapted(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, ac_layout layout,
                             ac_tensor *low, ac_tensor *up);

/* The weight of the first layer that adds a product with B, where `up` is that parameter; NULL:
 * there is none. */
const ac_tensor *ac_linear_adapted_weight(const ac_graph *graph, int up);

/* Of V = W + scale * B A, row by row: |W| / |V| - 1 and *inverse = 1 / |V|, [out] each, or zeros
 * where V is zero; both without a gradient. `down` is A [rank, in], `up` is B. */
ac_tensor *ac_row_norms(ac_tensor *weight, ac_tensor *down, ac_tensor *up, ac_layout layout,
                        float scale, ac_tensor **inverse);

#endif
