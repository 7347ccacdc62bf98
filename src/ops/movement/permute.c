/* Axes in another order: y[i0, i1, ...] = x with index i[d] in axis axes[d]. The gradient brings
 * them back. */
#include "ops/movement/permute.h"

#include <accrue/movement.h>

#include "graph/differentiate.h"
#include "ops/movement/move.h"
#include "ops/words.h"

/* ---- builders -------------------------------------------------------------------------------- */

ac_tensor *ac_emit_moved(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                         ac_tensor *const *in, const ac_shape *shape) {
  const int node = ac_graph_append(graph, op, attributes, size, count, in);
  return ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, in[0]->dtype, shape);
}

/* Whether the elements lie as before: only axes of 1 have moved. */
static bool is_view(const ac_shape *x, const ac_permute_attributes *a) {
  int last = -1;
  for (int d = 0; d < x->rank; d++) {
    if (x->dim[a->axes[d]] == 1 && !(x->batched && a->axes[d] == 0)) continue;
    if (a->axes[d] < last) return false;
    last = a->axes[d];
  }
  return true;
}

static ac_tensor *permute(ac_graph *graph, ac_tensor *x, const ac_permute_attributes *a) {
  ac_shape shape = x->shape;
  for (int d = 0; d < shape.rank; d++) shape.dim[d] = x->shape.dim[a->axes[d]];
  if (is_view(&x->shape, a)) return ac_graph_view(graph, x, &shape);
  return ac_emit_moved(graph, AC_OP_permute, a, sizeof *a, 1, &x, &shape);
}

ac_tensor *ac_permute(ac_tensor *x, int count, const int *axes) {
  static const ac_builder builder = {"permute", 1, {"x f32 or i32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  const int rank = x->shape.rank;
  if (count != rank || !axes)
    return ac_builder_fail(graph, &builder, &x, "%d axes%s of %d", count, axes ? "" : " at NULL",
                           rank);
  ac_permute_attributes attributes = {{0}};
  uint32_t seen = 0;
  for (int d = 0; d < rank; d++) {
    const int axis = ac_shape_axis(&x->shape, axes[d]);
    if (axis < 0 || axis >= rank || seen >> axis & 1)
      return ac_builder_fail(graph, &builder, &x, "axis %d %s", axes[d],
                             axis < 0 || axis >= rank ? "is none of x" : "comes twice");
    seen |= 1u << axis;
    attributes.axes[d] = axis;
  }
  if (!ac_is_moved(x)) return ac_builder_fail(graph, &builder, &x, NULL);
  if (x->shape.batched && attributes.axes[0] != 0)
    return ac_builder_fail(graph, &builder, &x, "the batch must stay the first axis");
  return permute(graph, x, &attributes);
}

ac_tensor *ac_transpose(ac_tensor *x, int axis_a, int axis_b) {
  static const ac_builder builder = {"transpose", 1, {"x f32 or i32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  const int a = ac_shape_axis(&x->shape, axis_a), b = ac_shape_axis(&x->shape, axis_b);
  if (!ac_is_moved(x) || !ac_is_axis(&x->shape, a) || !ac_is_axis(&x->shape, b))
    return ac_builder_fail(graph, &builder, &x, "cannot swap axes %d and %d", axis_a, axis_b);
  ac_permute_attributes attributes = {{0}};
  for (int d = 0; d < x->shape.rank; d++) attributes.axes[d] = d == a ? b : d == b ? a : d;
  return permute(graph, x, &attributes);
}

/* ---- gradient -------------------------------------------------------------------------------- */

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  const ac_permute_attributes *a = (const void *)node->attributes;
  ac_permute_attributes back = {{0}};
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  const int rank = ac_tensor_at(d->graph, node->in[0])->shape.rank;
  for (int k = 0; k < rank; k++) back.axes[a->axes[k]] = k;
  return ac_gradient_emit(d, AC_OP_permute, &back, sizeof back, 1, &dy, 1, &node->in[0]);
}

/* ---- for kernels ----------------------------------------------------------------------------- */

ac_permuted_axes ac_permuted_axes_of(const ac_op_args *args) {
  const ac_permute_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  int64_t stride[AC_MAX_RANK], next = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    stride[d] = next;
    next *= x->dim[d];
  }
  ac_permuted_axes axes = {.rank = 0};
  for (int d = 0; d < y->rank; d++) {
    const int64_t dim = y->dim[d], own = stride[a->axes[d]];
    if (dim == 1) continue;
    const int last = axes.rank - 1;
    if (last >= 0 && axes.stride[last] == own * dim) {
      axes.dim[last] *= dim;
      axes.stride[last] = own;
    } else {
      axes.dim[axes.rank] = dim;
      axes.stride[axes.rank++] = own;
    }
  }
  if (!axes.rank) axes.dim[0] = axes.stride[0] = axes.rank = 1;
  return axes;
}

/* ---- description ----------------------------------------------------------------------------- */

static void words(ac_words *words, const ac_op_args *args) {
  const ac_permute_attributes *a = args->attributes;
  ac_words_put(words, ", axes");
  for (int d = 0; d < args->in[0].rank; d++) ac_words_put(words, " %d", (int)a->axes[d]);
}

static const ac_permute_attributes sampled = {{1, 0}};

const ac_op_desc ac_op_desc_permute = {
    .copies_values = true,
    .gradient = gradient,
    .words = words,
    .sample = {{"RC"}, {"CR"}, &sampled},
};
