/* tanh: y = x/2 (1 + t), t = tanh(u), u = k (x + a x^3), k = sqrt(2/pi), a = 0.044715
 *       dx = dy (1/2 (1 + t) + x/2 (1 - t^2) k (1 + 3 a x^2))
 * erf:  y = x Phi(x);  dx = dy (Phi(x) + x phi(x)) */
#include "ops/pointwise/gelu.h"

#include "graph/builder.h"
#include "ops/pointwise/elementwise.h"
#include "ops/words.h"

ac_tensor *ac_gelu(ac_tensor *x, ac_gelu_kind kind) {
  static const ac_builder builder = {"gelu", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (kind != AC_GELU_TANH && kind != AC_GELU_ERF)
    return ac_builder_fail(graph, &builder, &x, "unknown kind %d", (int)kind);
  ac_gelu_attributes attributes = {kind};
  return ac_unary(AC_OP_gelu, x, &attributes, sizeof attributes);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_gelu_gradient, node->in[0], sizeof(ac_gelu_attributes));
}

static void words(ac_words *words, const ac_op_args *args) {
  if (((const ac_gelu_attributes *)args->attributes)->kind == AC_GELU_ERF)
    ac_words_put(words, ", erf");
}

static const ac_gelu_attributes sampled = {AC_GELU_TANH};

const ac_op_desc ac_op_desc_gelu = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 16,
    .words = words,
    .sample = {{"n"}, {"n"}, &sampled},
};
const ac_op_desc ac_op_desc_gelu_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 24,
    .words = words,
    .sample = {{"n", "n"}, {"n"}, &sampled},
};
