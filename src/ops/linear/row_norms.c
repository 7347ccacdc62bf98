/* The norms of a weight's rows, without and with an adapter (DoRA, arXiv 2402.09353). With V = W +
 * s B A, and W's output o as row W[o]:
 *   inverse[o] = 1 / |V[o]|,  ratio[o] = |W[o]| / |V[o]| - 1
 * Both are 0 for a row of V that is 0. Of the ratio 1 is taken off so that what is near 1 keeps its
 * digits in 16 bits. V is never stored: its elements are made where they are squared. The norms
 * count as constants, as in section 4.3 of the paper, so there is no gradient. */
#include "ops/linear/row_norms.h"

#include "graph/builder.h"
#include "ops/linear/adapted.h"
#include "ops/words.h"

ac_tensor *ac_row_norms(ac_tensor *weight, ac_tensor *down, ac_tensor *up, ac_layout layout,
                        float scale, ac_tensor **inverse) {
  static const ac_builder builder = {
      "row_norms", 3, {"weight f32 [out, in] or [in, out]", "A f32 [r, in]", "B f32 [out, r]"}};
  ac_tensor *operands[] = {weight, down, up};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  *inverse = NULL;
  if (!graph) return NULL;
  const ac_shape *w = &weight->shape, *a = &down->shape, *b = &up->shape;
  const int in = layout == AC_OUT_IN;
  if (w->rank != 2 || w->batched || a->rank != 2 || a->batched || b->rank != 2 || b->batched ||
      a->dim[1] != w->dim[in] || b->dim[0] != w->dim[!in] || a->dim[0] != b->dim[1])
    return ac_builder_fail(graph, &builder, operands, NULL);
  const ac_row_norms_attributes attributes = {layout, scale};
  const ac_shape norms = {.rank = 1, .dim = {w->dim[!in]}};
  const int node =
      ac_graph_append(graph, AC_OP_row_norms, &attributes, sizeof attributes, 3, operands);
  ac_tensor *ratio = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, &norms);
  if (ratio) *inverse = ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, &norms);
  return *inverse ? ratio : NULL;
}

/* An element of V takes a product for each row of A; it and W's are squared and added. */
static double flops(const ac_op_args *args) {
  return (double)args->in[0].count * (2.0 * (double)args->in[1].dim[0] + 4.0);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_row_norms_attributes *a = args->attributes;
  ac_words_put_layout(words, a->layout, &args->in[0]);
}

static const ac_row_norms_attributes sampled = {AC_OUT_IN, 1};

const ac_op_desc ac_op_desc_row_norms = {
    .bound = AC_BOUND_BY_BOTH,
    .flops = flops,
    .words = words,
    .sample = {{"oi", "8i", "o8"}, {"o", "o"}, &sampled},
};
