/* clang-format off */
/* Attention, for each sample and head with queries q [Tq, D], keys k [Tk, D] and values v [Tk, Dv]:
 *   s[i,j] = scale q[i] . k[j]
 *   t[i,j] = s[i,j], with a cap c tanh(s[i,j] / c), plus the bias, for the keys j that i sees
 *   lse[i] = log sum over j of exp(t[i,j])
 *   p[i,j] = exp(t[i,j] - lse[i])
 *   y[i]   = sum over j of m[i,j] p[i,j] v[j], where m is 0 or 1 / (1 - dropout)
 * Backward, with p computed anew from lse:
 *   delta[i]   = dy[i] . y[i]
 *   dt[i,j]    = p[i,j] (m[i,j] dy[i] . v[j] - delta[i])
 *   dbias[i,j] = sum of dt[i,j] over samples, and over heads if they share it
 *   ds[i,j]    = dt[i,j], with a cap times 1 - tanh(s[i,j] / c)^2
 *   dq[i]      = scale sum of ds[i,j] k[j]
 *   dk[j]      = scale sum of ds[i,j] q[i], also over the heads that share k, and so is
 *   dv[j]      = sum of m[i,j] p[i,j] dy[i]
 * Only lse is kept, O(T) a head (Dao et al., arXiv 2205.14135). */
/* clang-format on */
#include "ops/attention/attention.h"

#include <accrue/attention.h>

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

#include <math.h>
#include <string.h>

/* ---- builders -------------------------------------------------------------------------------- */

enum { Q, K, V, BIAS, LENGTHS, SEGMENTS, KEY_SEGMENTS, OPERANDS };

#define MASKS                                                              \
  "bias? f32 [H or 1, Tq, Tk] or [B, H or 1, Tq, Tk]", "lengths? i32 [B]", \
      "segments? i32 [B, Tq]", "key_segments? i32 [B, Tk]"

/* A call: the operands as they are given, and what their shapes say. */
typedef struct call {
  const ac_builder *builder;
  ac_graph *graph;
  ac_tensor *in[OPERANDS];
  ac_attention_desc desc;
  int64_t queries, keys, size, values;
} call;

static ac_tensor *fail(const call *c) {
  return ac_builder_fail(c->graph, c->builder, c->in, NULL);
}

static void take_masks(call *c) {
  c->in[BIAS] = c->desc.bias;
  c->in[LENGTHS] = c->desc.lengths;
  c->in[SEGMENTS] = c->desc.segments;
  c->in[KEY_SEGMENTS] = c->desc.key_segments;
}

/* Whether an operand that may be absent is i32 with the first dimension of q, and then `length`
 * if that is positive. */
static bool is_integers(const call *c, int operand, int64_t length) {
  const ac_tensor *x = c->in[operand];
  if (!x) return true;
  const ac_shape *s = &x->shape;
  return x->dtype == AC_I32 && s->batched && s->dim[0] == c->in[Q]->shape.dim[0] &&
         s->rank == (length ? 2 : 1) && (!length || s->dim[1] == length);
}

static bool is_bias(const call *c) {
  const ac_tensor *x = c->in[BIAS];
  if (!x) return true;
  const ac_shape *s = &x->shape;
  const int at = s->rank - 3;
  return x->dtype == AC_F32 && (at == 0 || at == 1) && s->batched == (at == 1) &&
         (at == 0 || s->dim[0] == c->in[Q]->shape.dim[0]) &&
         (s->dim[at] == 1 || s->dim[at] == c->desc.heads) && s->dim[at + 1] == c->queries &&
         s->dim[at + 2] == c->keys;
}

static bool masks_fit(const call *c) {
  return is_bias(c) && is_integers(c, LENGTHS, 0) && is_integers(c, SEGMENTS, c->queries) &&
         is_integers(c, KEY_SEGMENTS, c->keys);
}

/* Fails the graph if the settings contradict each other, or the operands. */
static bool are_settings(const call *c) {
  const ac_attention_desc *d = &c->desc;
  if (!(d->dropout >= 0 && d->dropout < 1) || !isfinite(d->scale)) {
    ac_builder_fail(c->graph, c->builder, c->in,
                    "dropout is %g and scale is %g; dropout must be in [0, 1) and scale finite",
                    (double)d->dropout, (double)d->scale);
    return false;
  }
  const char *wrong =
      !isfinite(d->soft_cap) || d->soft_cap < 0 || d->window < 0
          ? "soft_cap must be finite and, as window, not negative"
      : d->at_end && !d->causal && !d->window
          ? "at_end has no meaning unless it is causal or has a window"
      : d->key_segments && !d->segments ? "key_segments come with segments"
      : d->segments && !d->key_segments && c->queries != c->keys
          ? "segments alone are for as many keys as queries"
      : c->queries > INT32_MAX || c->keys > INT32_MAX || c->in[Q]->shape.dim[0] > INT32_MAX
          ? "positions are counted in 32 bits"
          : NULL;
  if (wrong) ac_builder_fail(c->graph, c->builder, c->in, "%s", wrong);
  return !wrong;
}

/* x [B, T, ...] seen as [B, T, width]; NULL is absent. */
static ac_tensor *flat(ac_tensor *x, int64_t width) {
  if (!x || x->shape.rank == 3) return x;
  ac_shape shape = x->shape;
  shape.rank = 3;
  shape.dim[2] = width;
  return ac_graph_view(x->graph, x, &shape);
}

/* The op on what was found to fit: its result, [B, Tq, H Dv]. */
static ac_tensor *emit(const call *c) {
  const ac_attention_desc *d = &c->desc;
  ac_attention_attributes attributes = {
      .heads = d->heads,
      .scale = d->scale != 0 ? d->scale : 1 / sqrtf((float)c->size),
      .dropout = d->dropout,
      .key_heads = d->key_heads,
      .causal = d->causal,
      .at_end = d->at_end,
      .window = d->window,
      .skip_padding = d->skip_padding,
      .soft_cap = d->soft_cap,
      .per_sample = (int32_t)c->in[Q]->shape.dim[0],
  };
  if (d->dropout > 0) attributes.stream = ++c->graph->streams;
  ac_tensor *in[OPERANDS];
  memcpy(in, c->in, sizeof in);
  const int64_t heads = d->heads + (c->in[K] ? 0 : 2 * (int64_t)d->key_heads);
  in[Q] = flat(in[Q], heads * c->size);
  in[K] = flat(in[K], d->key_heads * c->size);
  in[V] = flat(in[V], d->key_heads * c->values);
  if (!in[Q] || (c->in[K] && (!in[K] || !in[V]))) return NULL;
  ac_shape out = in[Q]->shape, lse = out;
  out.dim[2] = d->heads * c->values;
  lse.dim[1] = d->heads;
  lse.dim[2] = c->queries;
  ac_tensor *y =
      ac_graph_emit(c->graph, AC_OP_attention, &attributes, sizeof attributes, OPERANDS, in, &out);
  if (!y || !ac_graph_add_output(c->graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, &lse))
    return NULL;
  return y;
}

/* Whether it is f32 [B, T, heads, size], with the first dimension of q. */
static bool is_heads(const call *c, int operand) {
  const ac_tensor *x = c->in[operand];
  return x && x->dtype == AC_F32 && x->shape.rank == 4 && x->shape.batched &&
         x->shape.dim[0] == c->in[Q]->shape.dim[0];
}

/* The shapes of q, k and v; false if they do not fit. */
static bool take_shapes(call *c) {
  if (!is_heads(c, Q)) return false;
  const ac_shape *q = &c->in[Q]->shape;
  c->queries = c->keys = q->dim[1];
  c->size = c->values = q->dim[3];
  if (!c->in[K] && !c->in[V]) return true;
  if (!is_heads(c, K) || !is_heads(c, V)) return false;
  const ac_shape *k = &c->in[K]->shape, *v = &c->in[V]->shape;
  c->keys = k->dim[1];
  c->values = v->dim[3];
  return k->dim[3] == c->size && v->dim[1] == c->keys && v->dim[2] == k->dim[2];
}

/* The numbers of heads, which the shapes must agree with; NULL in the place of a sentence. */
static bool take_heads(call *c) {
  ac_attention_desc *d = &c->desc;
  const int64_t heads = c->in[Q]->shape.dim[2];
  const ac_tensor *k = c->in[K];
  if (k && !d->heads) d->heads = (int)ac_smaller(heads, INT32_MAX);
  if (k && !d->key_heads) d->key_heads = (int)ac_smaller(k->shape.dim[2], INT32_MAX);
  if (!d->key_heads) d->key_heads = d->heads;
  const int64_t in_q = d->heads + (k ? 0 : 2 * (int64_t)d->key_heads);
  if (d->heads >= 1 && d->key_heads >= 1 && d->heads % d->key_heads == 0 && heads == in_q &&
      (!k || k->shape.dim[2] == d->key_heads))
    return true;
  ac_builder_fail(c->graph, c->builder, c->in,
                  "%d heads and key_heads %d; the first must be a multiple of the second, and q "
                  "have %s heads",
                  d->heads, d->key_heads, k ? "as many" : "heads + 2 key_heads");
  return false;
}

ac_tensor *ac_attention(ac_tensor *q, ac_tensor *k, ac_tensor *v, const ac_attention_desc *desc) {
  static const ac_builder builder = {
      "attention",
      OPERANDS,
      {"q f32 [B, Tq, H, D]", "k? f32 [B, Tk, Hkv, D]", "v? f32 [B, Tk, Hkv, Dv]", MASKS}};
  call c = {.builder = &builder, .in = {q, k, v}, .desc = AC_DESCRIBED(ac_attention_desc, desc)};
  take_masks(&c);
  c.graph = ac_builder_graph(&builder, c.in);
  if (!c.graph) return NULL;
  if (!take_shapes(&c)) return fail(&c);
  if (!take_heads(&c)) return NULL;
  if (!masks_fit(&c)) return fail(&c);
  ac_tensor *y = are_settings(&c) ? emit(&c) : NULL;
  if (!y) return NULL;
  ac_shape out = y->shape;
  out.rank = 4;
  out.dim[2] = c.desc.heads;
  out.dim[3] = c.values;
  return ac_graph_view(c.graph, y, &out);
}

ac_tensor *ac_causal_attention(ac_tensor *qkv, const ac_attention_desc *desc) {
  static const ac_builder builder = {"causal_attention", 1, {"qkv f32 [B, T, 3 * C]"}};
  ac_attention_desc causal = AC_DESCRIBED(ac_attention_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, &qkv);
  if (!graph) return NULL;
  if (causal.heads < 1)
    return ac_builder_fail(graph, &builder, &qkv, "needs at least one head, not %d", causal.heads);
  ac_shape shape = qkv->shape;
  const int64_t heads =
      causal.heads + 2 * (int64_t)(causal.key_heads ? causal.key_heads : causal.heads);
  if (qkv->dtype != AC_F32 || shape.rank != 3 || !shape.batched ||
      (!causal.key_heads && shape.dim[2] % 3 != 0))
    return ac_builder_fail(graph, &builder, &qkv, NULL);
  if (!causal.key_heads && shape.dim[2] / 3 % causal.heads != 0)
    return ac_builder_fail(graph, &builder, &qkv, "%d heads do not divide the width %lld",
                           causal.heads, (long long)(shape.dim[2] / 3));
  if (heads < 1 || shape.dim[2] % heads != 0)
    return ac_builder_fail(graph, &builder, &qkv,
                           "%d heads and twice %d of keys do not divide the width %lld",
                           causal.heads, causal.key_heads, (long long)shape.dim[2]);
  shape.rank = 4;
  shape.dim[3] = shape.dim[2] / heads;
  shape.dim[2] = heads;
  causal.causal = true;
  ac_tensor *y = ac_attention(ac_graph_view(graph, qkv, &shape), NULL, NULL, &causal);
  if (!y) return NULL;
  shape = y->shape;
  shape.rank = 3;
  shape.dim[2] *= shape.dim[3];
  return ac_graph_view(graph, y, &shape);
}

/* ---- gradient -------------------------------------------------------------------------------- */

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  const int of[] = {node->in[Q],       node->in[K],        node->in[V],
                    node->out[0],      node->out[1],       node->in[BIAS],
                    node->in[LENGTHS], node->in[SEGMENTS], node->in[KEY_SEGMENTS]};
  enum { COUNT = sizeof of / sizeof *of };
  ac_tensor *operands[1 + COUNT] = {ac_gradient_of(d, node->out[0])};
  for (int i = 0; i < COUNT; i++) operands[1 + i] = ac_tensor_at(graph, of[i]);
  return ac_gradient_emit(d, AC_OP_attention_gradient, node->attributes,
                          sizeof(ac_attention_attributes), 1 + COUNT, operands, 4, node->in);
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Pairs of a query and a key that it sees, in all samples and heads, if samples have all keys and
 * one segment. */
static double pairs(const ac_attention_attributes *a, const ac_attention_shape *s) {
  double sum = 0;
  for (int64_t i = 0; i < s->queries; i++) {
    const ac_attention_range seen = ac_attention_seen(a, s->queries, s->keys, i);
    sum += (double)(seen.end - seen.first);
  }
  return sum * (double)(s->batch * s->heads);
}

/* Two products. Each pair takes 2 D and 2 Dv flops in them; backward one more with v and two more
 * with k and q. */
static double flops(const ac_op_args *args) {
  const ac_operand *in = args->in;
  const ac_attention_shape s =
      ac_attention_shape_of(args->attributes, &in[Q], &in[K], &in[V], &in[BIAS]);
  return 2 * pairs(args->attributes, &s) * (double)(s.size + s.values);
}
static double gradient_flops(const ac_op_args *args) {
  const ac_operand *in = args->in;
  const ac_attention_shape s =
      ac_attention_shape_of(args->attributes, &in[1], &in[2], &in[3], &in[6]);
  return 2 * pairs(args->attributes, &s) * (double)(3 * s.size + 2 * s.values);
}

static int64_t limit(const ac_op_args *args, int input) {
  const ac_operand *in = args->in;
  return input == LENGTHS ? (in[K].count ? in[K].dim[1] : in[Q].dim[1]) + 1 : 0;
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_attention_attributes *a = args->attributes;
  if (!a->causal) ac_words_put(words, ", both ways");
  if (a->window) ac_words_put(words, ", window %d", (int)a->window);
  if (a->at_end) ac_words_put(words, ", at the end");
  if (a->skip_padding) ac_words_put(words, ", no padding");
  if (a->soft_cap > 0) ac_words_put(words, ", soft cap");
  if (!(a->dropout > 0)) return;
  ac_words_put(words, ", dropout");
  ac_words_put_evaluation(words, args->run);
}

static const ac_attention_attributes sampled = {
    .heads = 4, .scale = 0.125f, .key_heads = 4, .causal = 1, .per_sample = 1};

const ac_op_desc ac_op_desc_attention = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .limit = limit,
    .words = words,
    .sample = {{"BTQ"}, {"BTD", "BHT"}, &sampled},
};
const ac_op_desc ac_op_desc_attention_gradient = {
    .can_add = 8,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = gradient_flops,
    .words = words,
    .sample = {{"BTD", "BTQ", NULL, NULL, "BTD", "BHT"}, {"BTQ"}, &sampled},
};
