/* y[n, out] = x[n, in] W + b + u[n, r] B^T, where n is the product of x's leading dimensions. u and
 * B, an adapter's, may be absent.
 *   dx = dy W^T,  dW = x^T dy,  db = sum over rows of dy,  du = dy B,  dB = dy^T u
 * The weight gradient comes first, so that x can be freed before dx is made. */
#include "ops/linear/linear.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/linear/adapted.h"
#include "ops/words.h"

/* Whether u [..., r] and B [out, r] go with a result of this shape. */
static bool fits(const ac_tensor *low, const ac_tensor *up, const ac_shape *result) {
  if (!low && !up) return true;
  if (!low || !up || low->dtype != AC_F32 || up->dtype != AC_F32) return false;
  const ac_shape *w = &up->shape;
  ac_shape rows = *result;
  rows.dim[rows.rank - 1] = ac_shape_last(&low->shape);
  return w->rank == 2 && !w->batched && w->dim[0] == ac_shape_last(result) &&
         w->dim[1] == ac_shape_last(&low->shape) && ac_shape_equal(&low->shape, &rows);
}

ac_tensor *ac_linear(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, ac_layout layout) {
  return ac_linear_adapted(x, weight, bias, layout, NULL, NULL);
}

ac_tensor *ac_linear_adapted(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, ac_layout layout,
                             ac_tensor *low, ac_tensor *up) {
  const ac_builder builder = {
      "linear",
      low || up ? 5 : 3,
      {"x f32 [..., in]", layout == AC_OUT_IN ? "weight f32 [out, in]" : "weight f32 [in, out]",
       "bias? f32 [out]", low || up ? "low? f32 [..., rank]" : NULL,
       low || up ? "up? f32 [out, rank]" : NULL}};
  ac_tensor *operands[] = {x, weight, bias, low, up};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (layout != AC_OUT_IN && layout != AC_IN_OUT)
    return ac_builder_fail(graph, &builder, operands, "unknown weight layout %d", (int)layout);
  const ac_shape *w = &weight->shape;
  int in = layout == AC_OUT_IN, out = !in;
  if (x->dtype != AC_F32 || weight->dtype != AC_F32 || w->rank != 2 || w->batched ||
      w->dim[in] != ac_shape_last(&x->shape) || (x->shape.batched && x->shape.rank < 2) ||
      (bias && !ac_is_float_vector(bias, w->dim[out])))
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_shape shape = x->shape;
  shape.dim[shape.rank - 1] = w->dim[out];
  if (!fits(low, up, &shape)) return ac_builder_fail(graph, &builder, operands, NULL);
  ac_linear_attributes attributes = {layout};
  ac_tensor_at(graph, weight->storage)->matrix =
      layout == AC_OUT_IN ? AC_MATRIX_OUT_IN : AC_MATRIX_IN_OUT;
  if (up) ac_tensor_at(graph, up->storage)->matrix = AC_MATRIX_OUT_IN;
  return ac_graph_emit(graph, AC_OP_linear, &attributes, sizeof attributes, 5, operands, &shape);
}

/* The parameter that a tensor is, or is a copy of in another type, or is made of by ops of one
 * operand; else the tensor. */
static const ac_tensor *original_of(const ac_graph *graph, int tensor) {
  const ac_tensor *storage = ac_tensor_at(graph, ac_tensor_at(graph, tensor)->storage);
  if (storage->role == AC_ROLE_PARAMETER) return storage;
  if (storage->role == AC_ROLE_WORKING)
    return ac_tensor_at(graph, graph->parameters[storage->parameter]);
  const ac_node *made = storage->producer < 0 ? NULL : ac_node_at(graph, storage->producer);
  return made && made->in[0] >= 0 && made->in[1] < 0 ? original_of(graph, made->in[0]) : storage;
}

const ac_tensor *ac_linear_adapted_weight(const ac_graph *graph, int up) {
  for (int i = 0; i < graph->node_count; i++) {
    const ac_node *node = ac_node_at(graph, i);
    if (node->op == AC_OP_linear && node->in[4] >= 0 && original_of(graph, node->in[4])->id == up)
      return original_of(graph, node->in[1]);
  }
  return NULL;
}

/* Of an adapter's part, u B^T. */
static ac_status adapter_gradient(ac_differentiation *d, const ac_node *node, ac_tensor *dy) {
  static const ac_linear_attributes attributes = {AC_OUT_IN};
  const int low = node->in[3], up = node->in[4];
  ac_tensor *of_up[] = {ac_tensor_at(d->graph, low), dy},
            *of_low[] = {dy, ac_tensor_at(d->graph, up)};
  AC_TRY(ac_gradient_emit(d, AC_OP_linear_weight_gradient, &attributes, sizeof attributes, 2, of_up,
                          1, &up));
  return ac_gradient_emit(d, AC_OP_linear_input_gradient, &attributes, sizeof attributes, 2, of_low,
                          1, &low);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  int x = node->in[0], weight = node->in[1], bias = node->in[2];
  ac_tensor *of_weight[] = {ac_tensor_at(graph, x), dy},
            *of_input[] = {dy, ac_tensor_at(graph, weight)};
  int parameters[] = {weight, bias};
  AC_TRY(ac_gradient_emit(d, AC_OP_linear_weight_gradient, node->attributes,
                          sizeof(ac_linear_attributes), 2, of_weight, 2, parameters));
  AC_TRY(adapter_gradient(d, node, dy));
  return ac_gradient_emit(d, AC_OP_linear_input_gradient, node->attributes,
                          sizeof(ac_linear_attributes), 2, of_input, 1, &x);
}

static double flops(const ac_op_args *args) {
  return 2.0 * (double)(args->in[0].count + args->in[3].count) * (double)ac_columns(&args->out[0]);
}

static double weight_gradient_flops(const ac_op_args *args) {
  double product = args->out[0].count ? 2.0 * (double)args->in[0].count : 0;
  return product * (double)ac_columns(&args->in[1]) +
         (args->out[1].count ? (double)args->in[1].count : 0);
}

static void words(ac_words *words, const ac_op_args *args) {
  ac_words_put_layout(words, ((const ac_linear_attributes *)args->attributes)->layout,
                      &args->in[1]);
  if (args->in[3].count) ac_words_put(words, ", rank %lld", (long long)ac_columns(&args->in[3]));
}

static void weight_gradient_words(ac_words *words, const ac_op_args *args) {
  ac_words_put_layout(words, ((const ac_linear_attributes *)args->attributes)->layout,
                      &args->out[0]);
}

static const ac_linear_attributes sampled = {AC_IN_OUT};

const ac_op_desc ac_op_desc_linear = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"ri", "io", "o"}, {"ro"}, &sampled},
};
const ac_op_desc ac_op_desc_linear_input_gradient = {
    .can_add = 1,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = flops,
    .words = words,
    .sample = {{"ro", "io"}, {"ri"}, &sampled},
};
const ac_op_desc ac_op_desc_linear_weight_gradient = {
    .can_add = 3,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = weight_gradient_flops,
    .words = weight_gradient_words,
    .sample = {{"ri", "ro"}, {"io", "o"}, &sampled},
};
