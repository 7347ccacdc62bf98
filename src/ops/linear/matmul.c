/* c = op(a) op(b) over the last two dimensions, batched over the leading ones. With A = op(a), B =
 * op(b): dA = dc B^T, dB = A^T dc, each transposed once more if the operand was. */
#include "ops/linear/matmul.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

#include <string.h>

ac_tensor *ac_matmul(ac_tensor *a, ac_tensor *b, bool transpose_a, bool transpose_b) {
  const ac_builder builder = {"matmul",
                              2,
                              {transpose_a ? "a f32 [..., K, M]" : "a f32 [..., M, K]",
                               transpose_b ? "b f32 [..., N, K]" : "b f32 [..., K, N]"}};
  ac_tensor *operands[] = {a, b};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const ac_shape *s = &a->shape, *t = &b->shape;
  int rank = s->rank;
  bool good = a->dtype == AC_F32 && b->dtype == AC_F32 && rank >= 2 && t->rank == rank;
  /* The dimensions that are multiplied are fixed: the batch is never among them. */
  good = good && s->batched == t->batched && !(s->batched && rank == 2) &&
         !memcmp(s->dim, t->dim, (size_t)(rank - 2) * sizeof s->dim[0]) &&
         s->dim[rank - 1 - transpose_a] == t->dim[rank - 2 + transpose_b];
  if (!good) return ac_builder_fail(graph, &builder, operands, NULL);
  ac_shape shape = *s;
  shape.dim[rank - 2] = s->dim[rank - 2 + transpose_a];
  shape.dim[rank - 1] = t->dim[rank - 1 - transpose_b];
  ac_matmul_attributes attributes = {transpose_a, transpose_b};
  return ac_graph_emit(graph, AC_OP_matmul, &attributes, sizeof attributes, 2, operands, &shape);
}

static ac_status product(ac_differentiation *d, ac_tensor *left, bool transpose_left,
                         ac_tensor *right, bool transpose_right, int target) {
  ac_matmul_attributes attributes = {transpose_left, transpose_right};
  ac_tensor *operands[] = {left, right};
  return ac_gradient_emit(d, AC_OP_matmul, &attributes, sizeof attributes, 2, operands, 1, &target);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  const ac_matmul_attributes *t = (const void *)node->attributes;
  ac_tensor *a = ac_tensor_at(d->graph, node->in[0]), *b = ac_tensor_at(d->graph, node->in[1]);
  ac_tensor *dc = ac_gradient_of(d, node->out[0]);
  if (t->transpose_a) AC_TRY(product(d, b, t->transpose_b, dc, true, a->id));
  else AC_TRY(product(d, dc, false, b, !t->transpose_b, a->id));
  if (t->transpose_b) return product(d, dc, true, a, t->transpose_a, b->id);
  return product(d, a, !t->transpose_a, dc, false, b->id);
}

static double flops(const ac_op_args *args) {
  const ac_matmul_attributes *t = args->attributes;
  int64_t inner = args->in[0].dim[args->in[0].rank - 1 - (t->transpose_a ? 1 : 0)];
  return 2.0 * (double)args->out[0].count * (double)inner;
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_matmul_attributes *t = args->attributes;
  if (t->transpose_a) ac_words_put(words, ", a transposed");
  if (t->transpose_b) ac_words_put(words, ", b transposed");
}

static const ac_matmul_attributes sampled = {false, false};

const ac_op_desc ac_op_desc_matmul = {
    .can_add = 1,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"bTD", "bDT"}, {"bTT"}, &sampled},
};
