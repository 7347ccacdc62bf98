/* clang-format off */
/* Causal multi-head self-attention, for each sample and head with queries q, keys k and values v of [T, D]:
 *   s[i,j] = scale q[i] . k[j] for j <= i
 *   lse[i] = log sum over j of exp(s[i,j])
 *   p[i,j] = exp(s[i,j] - lse[i])
 *   y[i]   = sum over j of m[i,j] p[i,j] v[j], where m is 0 or 1 / (1 - dropout)
 * Backward, with p computed anew from lse:
 *   delta[i] = dy[i] . y[i]
 *   ds[i,j]  = p[i,j] (m[i,j] dy[i] . v[j] - delta[i])
 *   dq[i]    = scale sum of ds[i,j] k[j]
 *   dk[j]    = scale sum of ds[i,j] q[i]
 *   dv[j]    = sum of m[i,j] p[i,j] dy[i]
 * Only lse is kept, O(T) a head (Dao et al., arXiv 2205.14135). */
/* clang-format on */
#include "ops/attention/attention.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

#include <math.h>

ac_tensor *ac_causal_attention(ac_tensor *qkv, const ac_attention_desc *desc) {
  static const ac_builder builder = {"attention", 1, {"qkv f32 [B, T, 3 * C]"}};
  const ac_attention_desc described = AC_DESCRIBED(ac_attention_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, &qkv);
  if (!graph) return NULL;
  desc = &described;
  const ac_shape *in = &qkv->shape;
  if (desc->heads < 1)
    return ac_builder_fail(graph, &builder, &qkv, "needs at least one head, not %d", desc->heads);
  if (qkv->dtype != AC_F32 || in->rank != 3 || !in->batched || in->dim[0] != 1 ||
      in->dim[2] % 3 != 0)
    return ac_builder_fail(graph, &builder, &qkv, NULL);
  int64_t width = in->dim[2] / 3, head = width / desc->heads;
  if (width % desc->heads)
    return ac_builder_fail(graph, &builder, &qkv, "%d heads do not divide the width %lld",
                           desc->heads, (long long)width);
  if (!(desc->dropout >= 0 && desc->dropout < 1) || !isfinite(desc->scale))
    return ac_builder_fail(
        graph, &builder, &qkv,
        "dropout is %g and scale is %g; dropout must be in [0, 1) and scale finite",
        (double)desc->dropout, (double)desc->scale);
  ac_attention_attributes attributes = {.heads = desc->heads, .dropout = desc->dropout};
  attributes.scale = desc->scale != 0 ? desc->scale : 1 / sqrtf((float)head);
  if (desc->dropout > 0) attributes.stream = ++graph->streams;
  ac_shape out = *in, lse = *in;
  out.dim[2] = width;
  lse.dim[1] = desc->heads;
  lse.dim[2] = in->dim[1];
  ac_tensor *y =
      ac_graph_emit(graph, AC_OP_attention, &attributes, sizeof attributes, 1, &qkv, &out);
  if (!y || !ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, &lse)) return NULL;
  return y;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(graph, node->in[0]),
                           ac_tensor_at(graph, node->out[0]), ac_tensor_at(graph, node->out[1])};
  return ac_gradient_emit(d, AC_OP_attention_gradient, node->attributes,
                          sizeof(ac_attention_attributes), 4, operands, 1, &node->in[0]);
}

/* Products over the lower triangle: two forward, five backward, of 2 D flops for each of T (T + 1)
 * / 2 pairs. */
static double triangle_flops(const ac_operand *qkv, double products) {
  double samples = (double)qkv->dim[0], T = (double)qkv->dim[1], C = (double)qkv->dim[2] / 3;
  return products * samples * T * (T + 1) * C;
}

static double flops(const ac_op_args *args) {
  return triangle_flops(&args->in[0], 2);
}
static double gradient_flops(const ac_op_args *args) {
  return triangle_flops(&args->in[1], 5);
}

static void words(ac_words *words, const ac_op_args *args) {
  if (!(((const ac_attention_attributes *)args->attributes)->dropout > 0)) return;
  ac_words_put(words, ", dropout");
  ac_words_put_evaluation(words, args->run);
}

static const ac_attention_attributes sampled = {4, 0.125f, 0, 0};

const ac_op_desc ac_op_desc_attention = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"BTQ"}, {"BTD", "BHT"}, &sampled},
};
const ac_op_desc ac_op_desc_attention_gradient = {
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = gradient_flops,
    .words = words,
    .sample = {{"BTD", "BTQ", "BTD", "BHT"}, {"BTQ"}, &sampled},
};
