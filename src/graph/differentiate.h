/* Reverse-mode differentiation: appends to a graph the nodes that compute the gradients of its
 * loss.
 *
 * Forward nodes are visited in reverse; an op's gradient rule emits nodes, and each output of such
 * a node is a contribution to the gradient of some forward tensor. Contributions add up:
 *   - for a parameter, into its persistent gradient tensor, which the node adds to;
 *   - for an activation, into a chain of tensors: the first contribution is the gradient; a later
 *     one takes it as `accumulate` operand if the op can add, else an add node joins the two.
 * A contribution may also be a tensor that exists (the gradient of a sum is passed on as it is). */
#ifndef AC_GRAPH_DIFFERENTIATE_H
#define AC_GRAPH_DIFFERENTIATE_H

#include "core/error.h"
#include "graph/graph.h"

struct ac_differentiation {
  ac_graph *graph;
  int *gradient;  /* by storage: the activation that holds the gradient so far, or -1 */
  int *parameter; /* by parameter: its gradient tensor, or -1 */
};

/* Differentiates the graph's losses. A parameter that none depends on gets no gradient tensor;
 * reach.h refuses those that they depend on without a gradient. */
ac_status ac_graph_differentiate(ac_graph *graph);

/* ---- for gradient rules ---------------------------------------------------------------------- */

/* The gradient of the loss with respect to an activation, in that tensor's shape. */
ac_tensor *ac_gradient_of(ac_differentiation *d, int tensor);

/* Whether anything needs the gradient of this operand (false for -1). */
bool ac_gradient_wanted(const ac_differentiation *d, int tensor);

/* Emits a node; output j contributes to the gradient of forward tensor target[j] (-1, or one that
 * needs no gradient: the output is absent). */
ac_status ac_gradient_emit(ac_differentiation *d, ac_op op, const void *attributes, size_t size,
                           int in_count, ac_tensor *const *in, int target_count, const int *target);

/* An existing tensor is the contribution to the gradient of `target`. */
ac_status ac_gradient_pass(ac_differentiation *d, int target, ac_tensor *gradient);

#endif
