/* y = m x, m = 0 with probability p, else 1 / (1 - p); dx = m dy with the same m, which is drawn
 * anew from its counter instead of being kept. Each element has its own m, or each sample one. */
#include "ops/pointwise/dropout.h"

#include "graph/builder.h"
#include "ops/pointwise/elementwise.h"
#include "ops/words.h"

static ac_tensor *drop(const char *name, ac_tensor *x, float p, bool whole) {
  const ac_builder builder = {name, 1, {"x f32 [B, ...]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (!(p >= 0 && p < 1))
    return ac_builder_fail(graph, &builder, &x, "p is %g, not in [0, 1)", (double)p);
  if (x->dtype != AC_F32 || !x->shape.batched) return ac_builder_fail(graph, &builder, &x, NULL);
  if (p == 0) return ac_graph_view(graph, x, &x->shape);
  ac_dropout_attributes attributes = {p, ++graph->streams, ac_shape_count(&x->shape), whole};
  return ac_unary(AC_OP_dropout, x, &attributes, sizeof attributes);
}

ac_tensor *ac_dropout(ac_tensor *x, float p) {
  return drop("dropout", x, p, false);
}

ac_tensor *ac_drop_path(ac_tensor *x, float p) {
  return drop("drop_path", x, p, true);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_dropout, node->attributes, sizeof(ac_dropout_attributes), 1, &dy,
                          1, &node->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  if (((const ac_dropout_attributes *)args->attributes)->p > 0)
    ac_words_put_evaluation(words, args->run);
}

static const char *title(const void *attributes) {
  return ((const ac_dropout_attributes *)attributes)->whole ? "drop_path" : "dropout";
}

static const ac_dropout_attributes sampled = {0.1f, 1, 1 << 14, 0};

const ac_op_desc ac_op_desc_dropout = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .title = title,
    .words = words,
    .sample = {{"n"}, {"n"}, &sampled},
};
