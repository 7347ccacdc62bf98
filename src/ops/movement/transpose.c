/* Swaps two dimensions; the gradient swaps them back. */
#include "ops/movement/transpose.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

ac_tensor *ac_transpose(ac_tensor *x, int axis_a, int axis_b) {
  static const ac_builder builder = {"transpose", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  const int a = ac_shape_axis(&x->shape, axis_a), b = ac_shape_axis(&x->shape, axis_b);
  const ac_transpose_attributes attributes = {a < b ? a : b, a < b ? b : a};
  const int first = x->shape.batched ? 1 : 0;
  if (x->dtype != AC_F32 || attributes.axis_a < first || attributes.axis_b >= x->shape.rank)
    return ac_builder_fail(graph, &builder, &x, "cannot swap axes %d and %d", axis_a, axis_b);
  if (a == b) return ac_graph_view(graph, x, &x->shape);
  ac_shape shape = x->shape;
  shape.dim[a] = x->shape.dim[b];
  shape.dim[b] = x->shape.dim[a];
  return ac_graph_emit(graph, AC_OP_transpose, &attributes, sizeof attributes, 1, &x, &shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_transpose, node->attributes, sizeof(ac_transpose_attributes), 1,
                          &dy, 1, &node->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_transpose_attributes *a = args->attributes;
  ac_words_put(words, ", axes %d and %d", (int)a->axis_a, (int)a->axis_b);
}

static const ac_transpose_attributes sampled = {0, 1};

const ac_op_desc ac_op_desc_transpose = {
    .copies_values = true,
    .gradient = gradient,
    .words = words,
    .sample = {{"RC"}, {"CR"}, &sampled},
};
