/* Cases and references of attention. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include "core/random.h"

#include <accrue/attention.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reference ------------------------------------------------------------------------------- */

/* For head h, which reads head g = h / (H / Hkv) of keys and values:
 *   s_ij = scale q_i . k_j;  t_ij = cap tanh(s_ij / cap) + bias_ij, for the keys j that i sees
 *   lse_i = log sum_j exp(t_ij);  p_ij = exp(t_ij - lse_i)
 *   y_i = sum_j z_ij p_ij v_j,  z_ij = 0 where dropped, else 1 / (1 - dropout) */
typedef struct shape {
  const ac_attention_attributes *a;
  const ac_run_state *run;
  const double *q, *k, *v, *bias;
  const int32_t *lengths, *segments, *key_segments;
  int64_t B, Tq, Tk, H, Hkv, D, Dv;
  int64_t q_row, k_row, v_row; /* elements of a position */
  int64_t bias_rank, bias_heads;
} shape;

/* `first` operand holds the queries, `bias` the bias. */
static shape shape_of(const ac_op_args *args, int first, int bias) {
  const ac_operand *q = &args->in[first], *k = q + 1, *v = q + 2, *masks = &args->in[bias];
  const ac_attention_attributes *a = args->attributes;
  shape s = {.a = a, .run = args->run, .H = a->heads, .Hkv = a->key_heads};
  s.B = q->dim[0], s.Tq = s.Tk = q->dim[1];
  s.q_row = s.k_row = s.v_row = q->dim[2];
  s.q = op_reals(q);
  if (k->count) {
    s.Tk = k->dim[1], s.k_row = k->dim[2], s.v_row = v->dim[2];
    s.D = s.q_row / s.H, s.Dv = s.v_row / s.Hkv;
    s.k = op_reals(k), s.v = op_reals(v);
  } else {
    s.D = s.Dv = s.q_row / (s.H + 2 * s.Hkv);
    s.k = s.q ? s.q + s.H * s.D : NULL;
    s.v = s.q ? s.k + s.Hkv * s.D : NULL;
  }
  if (masks[0].count) {
    s.bias = op_reals(&masks[0]);
    s.bias_rank = masks[0].rank;
    s.bias_heads = masks[0].dim[masks[0].rank - 3];
  }
  if (masks[1].count) s.lengths = op_integers(&masks[1]);
  if (masks[2].count) s.segments = s.key_segments = op_integers(&masks[2]);
  if (masks[3].count) s.key_segments = op_integers(&masks[3]);
  return s;
}

static int64_t q_at(const shape *s, int64_t b, int64_t h, int64_t i) {
  return (b * s->Tq + i) * s->q_row + h * s->D;
}
static int64_t k_at(const shape *s, int64_t b, int64_t h, int64_t j) {
  return (b * s->Tk + j) * s->k_row + h / (s->H / s->Hkv) * s->D;
}
static int64_t v_at(const shape *s, int64_t b, int64_t h, int64_t j) {
  return (b * s->Tk + j) * s->v_row + h / (s->H / s->Hkv) * s->Dv;
}
static int64_t y_at(const shape *s, int64_t b, int64_t h, int64_t i) {
  return ((b * s->Tq + i) * s->H + h) * s->Dv;
}
static int64_t bias_at(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t head = (s->bias_rank > 3 ? b : 0) * s->bias_heads + (s->bias_heads > 1 ? h : 0);
  return (head * s->Tq + i) * s->Tk + j;
}

static bool sees(const shape *s, int64_t b, int64_t i, int64_t j) {
  int64_t length = s->lengths ? s->lengths[b] : s->Tk;
  length = length < 0 ? 0 : length > s->Tk ? s->Tk : length;
  const int64_t position = s->a->at_end ? i + length - s->Tq : i;
  if (j >= length) return false;
  if (s->a->causal && j > position) return false;
  if (s->a->window && (j <= position - s->a->window || j >= position + s->a->window)) return false;
  if (s->a->skip_padding && (position < 0 || position >= length)) return false;
  if (!s->segments) return true;
  const int32_t own = s->segments[b * s->Tq + i];
  return own >= 0 && own == s->key_segments[b * s->Tk + j];
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; c++) sum += a[c] * b[c];
  return sum;
}

/* t_ij, and in *slope, if it is not NULL, its derivative by the product. */
static double score(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j, double *slope) {
  const double cap = (double)s->a->soft_cap,
               product = dot(s->q + q_at(s, b, h, i), s->k + k_at(s, b, h, j), s->D) *
                         (double)s->a->scale,
               tangent = cap > 0 ? tanh(product / cap) : 0;
  if (slope) *slope = cap > 0 ? 1 - tangent * tangent : 1;
  return (cap > 0 ? cap * tangent : product) + (s->bias ? s->bias[bias_at(s, b, h, i, j)] : 0);
}

static double mask(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!s->run->training || s->a->dropout == 0) return 1;
  const int64_t sample = b / s->a->per_sample, row = b % s->a->per_sample;
  const uint64_t e = (uint64_t)(((row * s->H + h) * s->Tq + i) * s->Tk + j);
  ac_philox_block block =
      ac_philox(s->run->seed, (uint32_t)(e / 8), s->run->sample + (uint32_t)sample, s->run->update,
                s->a->stream);
  double p = floor((double)s->a->dropout * 65536 + 0.5) / 65536;
  uint32_t bits = block.v[e % 8 / 2] >> (e % 2 ? 16 : 0) & 0xffff;
  return bits < p * 65536 ? 0 : 1 / (1 - p);
}

/* What query i sees: its scores t, -inf elsewhere; returns lse. */
static double scores_of(const shape *s, int64_t b, int64_t h, int64_t i, double *t) {
  double largest = -(double)INFINITY, sum = 0;
  for (int64_t j = 0; j < s->Tk; j++) {
    t[j] = sees(s, b, i, j) ? score(s, b, h, i, j, NULL) : -(double)INFINITY;
    largest = t[j] > largest || isnan(t[j]) ? t[j] : largest;
  }
  if (largest == -(double)INFINITY) return (double)AC_ATTENTION_UNSEEN;
  for (int64_t j = 0; j < s->Tk; j++) sum += exp(t[j] - largest);
  return largest + log(sum);
}

static void attention(const ac_op_args *args) {
  shape s = shape_of(args, 0, 3);
  double *y = op_reals(&args->out[0]), *lse = op_reals(&args->out[1]);
  double *t = malloc((size_t)s.Tk * sizeof *t);
  for (int64_t i = 0; i < args->out[0].count; i++) y[i] = 0;
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.H; h++)
      for (int64_t i = 0; i < s.Tq; i++) {
        const double l = lse[(b * s.H + h) * s.Tq + i] = scores_of(&s, b, h, i, t);
        for (int64_t j = 0; j < s.Tk; j++) {
          if (t[j] == -(double)INFINITY) continue;
          const double p = exp(t[j] - l) * mask(&s, b, h, i, j);
          for (int64_t c = 0; c < s.Dv; c++)
            y[y_at(&s, b, h, i) + c] += p * s.v[v_at(&s, b, h, j) + c];
        }
      }
  free(t);
}

/* The largest of an operand, with what is infinite left out. */
static double largest_finite(const ac_operand *x) {
  double most = 1;
  for (int64_t e = 0; e < x->count; e++)
    if (isfinite(op_reals(x)[e])) most = fmax(most, fabs(op_reals(x)[e]));
  return most;
}

/* A score is a sum of D products, perhaps capped, plus a bias; its absolute error becomes the
 * relative one of p, which is rounded where it is a factor, not in the sum that lse is made of. */
static double score_error(const shape *s, const ac_operand *q, const ac_operand *k,
                          const ac_operand *bias) {
  const double products = (double)s->a->scale * op_largest(q) * op_largest(k->count ? k : q);
  double error = op_sum_error(s->D) * products;
  if (s->a->soft_cap > 0) error += OP_MATH_ERROR * (double)s->a->soft_cap;
  if (bias->count) error += largest_finite(bias) + (double)s->D * products / 2;
  return error;
}

static op_tolerance attention_error(const ac_op_args *args, int output) {
  const ac_operand *q = &args->in[0], *v = args->in[2].count ? &args->in[2] : q;
  shape s = shape_of(args, 0, 3);
  double p =
      OP_MATH_ERROR + 2 * score_error(&s, q, &args->in[1], &args->in[3]) + op_sum_error(s.Tk);
  double keep = 1 / (1 - (double)s.a->dropout);
  if (output == 1) return (op_tolerance){4, p};
  return (op_tolerance){1, (p + op_factor_error(v)) * op_largest(v) * keep};
}

const op_reference op_reference_attention = {attention, attention_error, true, false};

/* Where sums go; NULL: they are not asked for. */
typedef struct sums {
  double *q, *k, *v, *bias;
} sums;

static sums sums_of(const ac_op_args *args, const shape *s) {
  const ac_operand *out = args->out;
  for (int j = 0; j < 4; j++)
    for (int64_t e = 0; e < out[j].count; e++) op_reals(&out[j])[e] = 0;
  sums to = {NULL, NULL, NULL, NULL};
  if (out[0].count) to.q = op_reals(&out[0]);
  if (out[1].count) to.k = op_reals(&out[1]);
  if (out[2].count) to.v = op_reals(&out[2]);
  if (out[3].count) to.bias = op_reals(&out[3]);
  if (!args->in[2].count && to.q) {
    to.k = to.q + s->H * s->D;
    to.v = to.k + s->Hkv * s->D;
  }
  return to;
}

/* With D_i = y_i . dy_i:  dv_j = sum_i z_ij p_ij dy_i;  dt_ij = p_ij (z_ij dy_i . v_j - D_i);
 * ds_ij = dt_ij by the cap's slope;  dq_i = scale sum_j ds_ij k_j;  dk_j = scale sum_i ds_ij q_i */
static void pair_gradient(const shape *s, const sums *to, int64_t b, int64_t h, int64_t i,
                          int64_t j, double p, double D, const double *dy) {
  double slope, z = mask(s, b, h, i, j), scale = s->a->scale;
  const double *v = s->v + v_at(s, b, h, j), *q = s->q + q_at(s, b, h, i),
               *k = s->k + k_at(s, b, h, j);
  const double dt = p * (z * dot(dy, v, s->Dv) - D);
  score(s, b, h, i, j, &slope);
  if (to->bias) to->bias[bias_at(s, b, h, i, j)] += dt;
  for (int64_t c = 0; c < s->D && to->q; c++)
    to->q[q_at(s, b, h, i) + c] += scale * slope * dt * k[c];
  for (int64_t c = 0; c < s->D && to->k; c++)
    to->k[k_at(s, b, h, j) + c] += scale * slope * dt * q[c];
  for (int64_t c = 0; c < s->Dv && to->v; c++) to->v[v_at(s, b, h, j) + c] += z * p * dy[c];
}

static void attention_gradient(const ac_op_args *args) {
  shape s = shape_of(args, 1, 6);
  const double *dy = op_reals(&args->in[0]), *y = op_reals(&args->in[4]);
  const double *lse = op_reals(&args->in[5]);
  const sums to = sums_of(args, &s);
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.H; h++)
      for (int64_t i = 0; i < s.Tq; i++) {
        const int64_t at = y_at(&s, b, h, i);
        const double D = dot(y + at, dy + at, s.Dv);
        for (int64_t j = 0; j < s.Tk; j++) {
          if (!sees(&s, b, i, j)) continue;
          const double t = score(&s, b, h, i, j, NULL);
          if (t != -(double)INFINITY)
            pair_gradient(&s, &to, b, h, i, j, exp(t - lse[(b * s.H + h) * s.Tq + i]), D, dy + at);
        }
      }
}

/* The largest sum of p over the queries that one key has. */
static double largest_column(const shape *s, const double *lse) {
  double most = 1, *columns = malloc((size_t)s->Tk * sizeof *columns);
  for (int64_t b = 0; b < s->B; b++)
    for (int64_t h = 0; h < s->H; h++) {
      if (h % (s->H / s->Hkv) == 0)
        for (int64_t j = 0; j < s->Tk; j++) columns[j] = 0;
      for (int64_t i = 0; i < s->Tq; i++)
        for (int64_t j = 0; j < s->Tk; j++)
          if (sees(s, b, i, j))
            columns[j] += exp(score(s, b, h, i, j, NULL) - lse[(b * s->H + h) * s->Tq + i]);
      for (int64_t j = 0; j < s->Tk; j++) most = fmax(most, columns[j]);
    }
  free(columns);
  return most;
}

/* dp and D are sums of Dv products, z dp - D at most about 2 sqrt(Dv) |dy| |v|; ds carries p's
 * relative error on top, and either may be rounded once. Over j the p of a row sum to 1; over i (dk
 * and dv) to the rows' weight on one column. A shared bias has the sum of all that share it. */
static op_tolerance attention_gradient_error(const ac_op_args *args, int output) {
  const ac_operand *q = &args->in[1], *k = args->in[2].count ? &args->in[2] : q,
                   *v = args->in[3].count ? &args->in[3] : q;
  shape s = shape_of(args, 1, 6);
  const double x = fmax(op_largest(q), op_largest(k)), dy = op_largest(&args->in[0]),
               keep = 1 / (1 - (double)s.a->dropout), root = 2 * sqrt((double)s.Dv);
  double p = OP_MATH_ERROR + 2 * score_error(&s, q, k, &args->in[6]) + op_sum_error(s.Tk) +
             op_factor_error(v);
  if (s.a->soft_cap > 0) p += OP_MATH_ERROR; /* of the slope */
  const double dt = (p * root + 2 * op_sum_error(s.Dv)) * dy * op_largest(v);
  if (output == 3) {
    const double heads = s.bias_heads > 1 ? 1 : (double)s.H;
    return (op_tolerance){1, keep * dt * heads * (s.bias_rank > 3 ? 1 : (double)s.B)};
  }
  const double columns = 1 + largest_column(&s, op_reals(&args->in[5]));
  return (op_tolerance){1, keep * columns * (dt * (double)s.a->scale * x + p * dy)};
}

const op_reference op_reference_attention_gradient = {attention_gradient, attention_gradient_error,
                                                      true, false};

/* ---- cases ----------------------------------------------------------------------------------- */

#define OPERANDS_OF_GRADIENT                                                \
  .op = AC_OP_attention_gradient,                                           \
  .in = {OP_DY,        OP_INPUT(0), OP_INPUT(1), OP_INPUT(2), OP_OUTPUT(0), \
         OP_OUTPUT(1), OP_INPUT(3), OP_INPUT(4), OP_INPUT(5), OP_INPUT(6)}

static const op_gradient gradients[] = {
    {OPERANDS_OF_GRADIENT, .of = {0, 1, 2, 3}, .outputs = 4},
};
/* What may be frozen. */
static const op_gradient some_gradients[] = {
    {OPERANDS_OF_GRADIENT, .of = {0, 1, 2, 3}, .outputs = 4, .optional = true},
};

#define ATTENTION(name_, heads_, scale_, dropout_, batch_, T, C, evaluation_)             \
  {                                                                                       \
    .name = name_, .op = AC_OP_attention,                                                 \
    .attributes.attention = {.heads = heads_,                                             \
                             .scale = scale_,                                             \
                             .dropout = dropout_,                                         \
                             .stream = 9,                                                 \
                             .key_heads = heads_,                                         \
                             .causal = 1,                                                 \
                             .per_sample = 1},                                            \
    .batch = batch_, .in = {OP_RANGE(-2, 2, AC_BATCH, T, 3 * (C))},                       \
    .out = {OP_F32(AC_BATCH, T, C), OP_F32(AC_BATCH, heads_, T)}, .gradients = gradients, \
    .gradient_count = 1, .evaluation = evaluation_                                        \
  }

/* Of B samples, with H heads of D and Hkv of keys (and of values, of Dv). The rest are attributes
 * and the operands of masks. */
#define ATTRIBUTES(H, Hkv, ...) \
  .op = AC_OP_attention,        \
  .attributes.attention = {     \
      .heads = H, .scale = 0.4f, .stream = 9, .key_heads = Hkv, .per_sample = 1, __VA_ARGS__}
#define RESULTS(H, Tq, Dv) \
  .out = {OP_F32(AC_BATCH, Tq, (H) * (Dv)), OP_F32(AC_BATCH, H, Tq)}, .gradient_count = 1
#define QUERIES(H, D, Tq) OP_RANGE(-2, 2, AC_BATCH, Tq, (H) * (D))
#define KEYS(Hkv, D, Tk) OP_RANGE(-2, 2, AC_BATCH, Tk, (Hkv) * (D))
#define SEGMENTS(T) \
  { .dtype = AC_I32, .rank = 2, .dim = {AC_BATCH, T}, .low = -1, .high = 3 }
#define NONE \
  { .rank = 0 }
#define HIDING_BIAS(H, Tq, Tk)                                                                  \
  {                                                                                             \
    .dtype = AC_F32, .rank = 3, .dim = {H, Tq, Tk}, .low = -1, .high = 1, .fill = OP_SOMETIMES, \
    .special = -(double)INFINITY                                                                \
  }

/* Few head sizes: an OpenCL kernel is compiled for each. */
static const op_case cases[] = {
    ATTENTION("T 65, heads 3 x 20", 3, 0.2236068f, 0, 2, 65, 60, false),
    ATTENTION("T 65, heads 3 x 20, dropout", 3, 0.2236068f, 0.2f, 2, 65, 60, false),
    ATTENTION("T 1, heads 2 x 3", 2, 0.57735026f, 0, 2, 1, 6, false),
    ATTENTION("T 7, heads 3 x 1", 3, 1, 0, 2, 7, 3, false),
    ATTENTION("T 64, heads 2 x 64", 2, 0.125f, 0, 1, 64, 128, false),
    ATTENTION("T 129, heads 1 x 64, dropout", 1, 0.125f, 0.1f, 1, 129, 64, false),
    ATTENTION("T 7, heads 2 x 3, dropout in evaluation", 2, 0.5f, 0.3f, 2, 7, 6, true),
    ATTENTION("T 65, heads 1 x 3, dropout", 1, 0.5f, 0.3f, 1, 65, 3, false),
    /* Rows of scores from 256 elements on lie further apart
       (src/backend/cpu/attention/attention.c). */
    ATTENTION("T 257, heads 1 x 3", 1, 0.5f, 0, 1, 257, 3, false),
    /* From 1025 positions on keys come in parts. */
    ATTENTION("T 1030, heads 1 x 3, dropout", 1, 0.5f, 0.3f, 1, 1030, 3, false),
    /* A head of a whole vector and one element, small enough for oclgrind in each storage. */
    ATTENTION("T 17, heads 1 x 17, dropout", 1, 0.25f, 0.3f, 1, 17, 17, false),
    ATTENTION("T 5, heads 1 x 17", 1, 0.25f, 0, 1, 5, 17, false),
    /* From 65 elements on OpenCL items have fewer rows. */
    ATTENTION("T 33, heads 1 x 97, dropout", 1, 0.1f, 0.3f, 1, 33, 97, false),
    /* Scores of some heads of a sample at a time, and of some samples, by emulated matrix units. */
    ATTENTION("T 40, heads 7 x 4, dropout", 7, 0.5f, 0.2f, 2, 40, 28, false),
    ATTENTION("T 24, heads 2 x 5", 2, 0.4f, 0, 5, 24, 10, false),
    /* Blocks of queries, of two heads at a time and of two samples' heads. */
    ATTENTION("T 80, heads 5 x 3, dropout", 5, 0.5f, 0.2f, 2, 80, 15, false),
    ATTENTION("T 80, heads 1 x 5", 1, 0.4f, 0, 5, 80, 5, false),
    /* Rows begin at multiples of 16 bytes, or of 8, those of the second head do not. */
    ATTENTION("T 21, heads 2 x 12", 2, 0.3f, 0, 1, 21, 24, false),
    ATTENTION("T 21, heads 2 x 6, dropout", 2, 0.4f, 0.2f, 1, 21, 12, false),
    {.name = "both ways, of one tensor",
     ATTRIBUTES(3, 3, .dropout = 0.2f),
     .batch = 2,
     .in = {QUERIES(9, 20, 65)},
     RESULTS(3, 65, 20),
     .gradients = gradients},
    {.name = "grouped heads, of one tensor",
     ATTRIBUTES(4, 2, .dropout = 0.2f, .causal = 1),
     .batch = 2,
     .in = {QUERIES(8, 5, 70)},
     RESULTS(4, 70, 5),
     .gradients = gradients},
    {.name = "crossed, wider values",
     ATTRIBUTES(2, 2, .dropout = 0.2f),
     .batch = 2,
     .in = {QUERIES(2, 6, 33), KEYS(2, 6, 20), KEYS(2, 17, 20)},
     RESULTS(2, 33, 17),
     .gradients = some_gradients},
    {.name = "crossed, few queries, one head of keys",
     ATTRIBUTES(3, 1, .soft_cap = 1.5f),
     .batch = 3,
     .in = {QUERIES(3, 12, 2), KEYS(1, 12, 40), KEYS(1, 12, 40)},
     RESULTS(3, 2, 12),
     .gradients = gradients},
    /* A single query, as where a text is continued, also over keys in parts. */
    {.name = "one query, keys in parts, lengths",
     ATTRIBUTES(2, 1, .causal = 1, .at_end = 1),
     .batch = 3,
     .in = {QUERIES(2, 5, 1), KEYS(1, 5, 1100), KEYS(1, 5, 1100), NONE, OP_IDS(1101, AC_BATCH)},
     RESULTS(2, 1, 5),
     .gradients = some_gradients},
    {.name = "one query, wider values, a bias, dropout",
     ATTRIBUTES(4, 2, .dropout = 0.2f, .soft_cap = 1.5f),
     .batch = 2,
     .in = {QUERIES(4, 20, 1), KEYS(2, 20, 70), KEYS(2, 33, 70), OP_F32(4, 1, 70)},
     RESULTS(4, 1, 33),
     .gradients = some_gradients},
    {.name = "one query, a window, segments",
     ATTRIBUTES(2, 2, .causal = 1, .at_end = 1, .window = 20),
     .batch = 4,
     .in = {QUERIES(2, 17, 1), KEYS(2, 17, 60), KEYS(2, 17, 60), NONE, OP_IDS(61, AC_BATCH),
            SEGMENTS(1), SEGMENTS(60)},
     RESULTS(2, 1, 17),
     .gradients = some_gradients},
    {.name = "causal, more keys than queries",
     ATTRIBUTES(2, 2, .causal = 1),
     .batch = 2,
     .in = {QUERIES(2, 3, 9), KEYS(2, 3, 40), KEYS(2, 3, 40)},
     RESULTS(2, 9, 3),
     .gradients = gradients},
    {.name = "causal, fewer keys than queries",
     ATTRIBUTES(2, 2, .causal = 1),
     .batch = 1,
     .in = {QUERIES(2, 3, 40), KEYS(2, 3, 9), KEYS(2, 3, 9)},
     RESULTS(2, 40, 3),
     .gradients = gradients},
    {.name = "causal at the end, more keys than queries",
     ATTRIBUTES(2, 1, .causal = 1, .at_end = 1, .dropout = 0.1f),
     .batch = 2,
     .in = {QUERIES(2, 5, 9), KEYS(1, 5, 40), KEYS(1, 5, 40)},
     RESULTS(2, 9, 5),
     .gradients = gradients},
    {.name = "causal at the end, some queries before all keys",
     ATTRIBUTES(1, 1, .causal = 1, .at_end = 1),
     .batch = 2,
     .in = {QUERIES(1, 3, 40), KEYS(1, 3, 9), KEYS(1, 3, 9), NONE, OP_IDS(10, AC_BATCH)},
     RESULTS(1, 40, 3),
     .gradients = gradients},
    {.name = "a window, causal",
     ATTRIBUTES(2, 2, .causal = 1, .window = 6, .dropout = 0.2f),
     .batch = 2,
     .in = {QUERIES(6, 5, 90)},
     RESULTS(2, 90, 5),
     .gradients = gradients},
    {.name = "a window to both sides, with lengths",
     ATTRIBUTES(2, 1, .window = 4, .skip_padding = 1),
     .batch = 3,
     .in = {QUERIES(2, 4, 50), KEYS(1, 4, 50), KEYS(1, 4, 50), NONE, OP_IDS(51, AC_BATCH)},
     RESULTS(2, 50, 4),
     .gradients = gradients},
    {.name = "lengths, some of them 0",
     ATTRIBUTES(2, 2, .dropout = 0.2f),
     .batch = 5,
     .in = {QUERIES(2, 3, 5), KEYS(2, 3, 3), KEYS(2, 3, 3), NONE, OP_IDS(4, AC_BATCH)},
     RESULTS(2, 5, 3),
     .gradients = some_gradients},
    {.name = "lengths of queries as well, causal",
     ATTRIBUTES(2, 2, .causal = 1, .skip_padding = 1),
     .batch = 4,
     .in = {QUERIES(6, 3, 45), NONE, NONE, NONE, OP_IDS(46, AC_BATCH)},
     RESULTS(2, 45, 3),
     .gradients = gradients},
    {.name = "segments, causal",
     ATTRIBUTES(2, 2, .causal = 1, .dropout = 0.2f),
     .batch = 2,
     .in = {QUERIES(6, 3, 45), NONE, NONE, NONE, NONE, SEGMENTS(45)},
     RESULTS(2, 45, 3),
     .gradients = gradients},
    {.name = "segments of queries and of keys, and lengths",
     ATTRIBUTES(4, 2, .soft_cap = 2),
     .batch = 2,
     .in = {QUERIES(4, 5, 9), KEYS(2, 5, 33), KEYS(2, 5, 33), NONE, OP_IDS(34, AC_BATCH),
            SEGMENTS(9), SEGMENTS(33)},
     RESULTS(4, 9, 5),
     .gradients = gradients},
    {.name = "a bias for each head",
     ATTRIBUTES(2, 2, .dropout = 0.2f),
     .batch = 3,
     .in = {QUERIES(2, 5, 20), KEYS(2, 5, 9), KEYS(2, 5, 9), OP_F32(2, 20, 9)},
     RESULTS(2, 20, 5),
     .gradients = some_gradients},
    {.name = "a bias for all heads, causal, of one tensor",
     ATTRIBUTES(3, 3, .causal = 1, .soft_cap = 1.5f),
     .batch = 2,
     .in = {QUERIES(9, 4, 70), NONE, NONE, OP_F32(1, 70, 70)},
     RESULTS(3, 70, 4),
     .gradients = gradients},
    {.name = "a bias for each sample, which hides keys",
     ATTRIBUTES(2, 1, .causal = 0),
     .batch = 2,
     .in = {QUERIES(2, 3, 7),
            KEYS(1, 3, 4),
            KEYS(1, 3, 4),
            {.dtype = AC_F32,
             .rank = 4,
             .dim = {AC_BATCH, 2, 7, 4},
             .low = -1,
             .high = 1,
             .fill = OP_SOMETIMES,
             .special = -(double)INFINITY}},
     RESULTS(2, 7, 3),
     .gradients = gradients},
    {.name = "a bias that hides keys, segments and lengths",
     ATTRIBUTES(4, 2, .window = 30, .dropout = 0.1f),
     .batch = 3,
     .in = {QUERIES(4, 6, 36), KEYS(2, 6, 40), KEYS(2, 6, 40), HIDING_BIAS(4, 36, 40),
            OP_IDS(41, AC_BATCH), SEGMENTS(36), SEGMENTS(40)},
     RESULTS(4, 36, 6),
     .gradients = gradients},
    {.name = "several rows of B for each sample",
     .op = AC_OP_attention,
     .attributes.attention =
         {.heads = 2, .scale = 0.4f, .dropout = 0.3f, .stream = 9, .key_heads = 2, .per_sample = 3},
     .batch = 2,
     .in = {OP_RANGE(-2, 2, AC_BATCH_TIMES(3), 9, 18), NONE, NONE, OP_F32(2, 9, 9),
            OP_IDS(10, AC_BATCH_TIMES(3))},
     .out = {OP_F32(AC_BATCH_TIMES(3), 9, 6), OP_F32(AC_BATCH_TIMES(3), 2, 9)},
     .gradients = gradients,
     .gradient_count = 1},
    {.name = "several rows of B for each sample, causal, of one tensor",
     .op = AC_OP_attention,
     .attributes.attention = {.heads = 2,
                              .scale = 0.4f,
                              .dropout = 0.3f,
                              .stream = 9,
                              .key_heads = 2,
                              .causal = 1,
                              .per_sample = 3},
     .batch = 2,
     .in = {OP_RANGE(-2, 2, AC_BATCH_TIMES(3), 9, 18)},
     .out = {OP_F32(AC_BATCH_TIMES(3), 9, 6), OP_F32(AC_BATCH_TIMES(3), 2, 9)},
     .gradients = gradients,
     .gradient_count = 1},
    /* Keys in parts. Masks leave whole blocks of them out. */
    {.name = "1100 keys, a window and grouped heads",
     ATTRIBUTES(2, 1, .causal = 1, .window = 150),
     .batch = 1,
     .in = {QUERIES(4, 3, 1100)},
     RESULTS(2, 1100, 3),
     .gradients = gradients},
    {.name = "1100 keys both ways, capped",
     ATTRIBUTES(2, 1, .soft_cap = 1),
     .batch = 1,
     .in = {QUERIES(2, 4, 150), KEYS(1, 4, 1100), KEYS(1, 4, 1100)},
     RESULTS(2, 150, 4),
     .gradients = gradients},
    {.name = "1100 keys, lengths, segments and a bias",
     ATTRIBUTES(1, 1, .dropout = 0.2f),
     .batch = 2,
     .in = {QUERIES(1, 3, 40), KEYS(1, 3, 1100), KEYS(1, 3, 1100), OP_F32(1, 40, 1100),
            OP_IDS(1101, AC_BATCH), SEGMENTS(40), SEGMENTS(1100)},
     RESULTS(1, 40, 3),
     .gradients = gradients},
};

static void from_vector(op_case *result, const op_vector *vector) {
  const int32_t heads = (int32_t)op_vector_attribute(vector, "heads", 1);
  result->op = AC_OP_attention;
  result->attributes.attention = (ac_attention_attributes){
      .heads = heads,
      .scale = (float)op_vector_attribute(vector, "scale", 1),
      .key_heads = (int32_t)op_vector_attribute(vector, "key_heads", heads),
      .causal = (int32_t)op_vector_attribute(vector, "causal", 1),
      .at_end = (int32_t)op_vector_attribute(vector, "at_end", 0),
      .window = (int32_t)op_vector_attribute(vector, "window", 0),
      .soft_cap = (float)op_vector_attribute(vector, "soft_cap", 0),
      .per_sample = 1};
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* Scores of thousands overflow exp unless the row's largest is subtracted first. A NaN in
 * a key at position t reaches no earlier position. */
static void extremes(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "large scores, late NaN"};
  op_instance_forward(&y, &cases[3], 2);
  double *x = op_reals(&y.args.in[0]);
  for (int64_t i = 0; i < y.args.in[0].count; i++) x[i] *= i % 9 < 6 ? 64 : 1;
  x[(7 + 5) * 9 + 3] = NAN; /* sample 1, position 5, the first head's key */
  const char *where = op_where(device, &y, &variant);
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result)) {
    const double *r = result.out[0];
    for (int64_t i = 0; i < y.args.out[0].count; i++) {
      int64_t b = i / 21, t = i / 3 % 7, h = i % 3;
      bool reached = b == 1 && t >= 5 && h == 0;
      OP_EXPECT(where, reached == (bool)isnan(r[i]), "sample %d, position %d, head %d: %g", (int)b,
                (int)t, (int)h, r[i]);
      /* The reference also has values for such rows: exponents reach thousands of units of
       * rounding.
       */
      if (!reached)
        OP_EXPECT(where, fabs(r[i] - op_reals(&y.args.out[0])[i]) < 1e-2, "element %d: %g, not %g",
                  (int)i, r[i], op_reals(&y.args.out[0])[i]);
    }
  }
  op_result_free(&result);
  op_instance_free(&y);
}

/* The same with keys in parts: a late NaN, and a row with scores of -inf for a whole part. Such a
 * row does not see the part. */
static void extremes_in_parts(ac_device *device) {
  enum { T = 1030, HIDDEN = 520, ROW = 590, BAD = 600 };
  static const op_case c = ATTENTION("T 1030, heads 1 x 3", 1, 0.5f, 0, 1, T, 3, false);
  op_instance y;
  op_result result;
  op_variant variant = {.name = "a part of -inf, late NaN", .once = true};
  op_instance_forward(&y, &c, 1);
  double *x = op_reals(&y.args.in[0]);
  for (int t = 0; t < T; t++) {
    x[9 * t] = t == ROW ? 0x1p100 : 0; /* query and key */
    x[9 * t + 3] = t < HIDDEN ? -0x1p100 : 0;
  }
  x[9 * BAD + 4] = NAN;
  const char *where = op_where(device, &y, &variant);
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result))
    for (int64_t i = 0; i < y.args.out[0].count; i++) {
      const double got = result.out[0][i], want = op_reals(&y.args.out[0])[i];
      OP_EXPECT(where, i / 3 >= BAD ? isnan(got) : fabs(got - want) < 1e-2,
                "position %d: %g, not %g", (int)(i / 3), got, want);
    }
  op_result_free(&result);
  op_instance_free(&y);
}

/* Copies what belongs to one sample of so many, or all of what no sample has. */
static void copy_sample(const ac_operand *to, const ac_operand *from, int64_t sample) {
  const size_t element = from->dtype == AC_I32 ? sizeof(int32_t) : sizeof(double),
               size = (size_t)to->count * element;
  if (!to->count) return;
  memcpy(to->data, (char *)from->data + (from->count == to->count ? 0 : (size_t)sample * size),
         size);
}

/* A sample has the same bits alone as between others. */
static void compare_alone(ac_device *device, const op_instance *whole, const op_instance *alone,
                          int64_t samples, int64_t sample) {
  op_result all, one;
  op_variant variant = {.name = "a sample alone", .once = true};
  const char *where = op_where(device, whole, &variant);
  bool ran = op_run(device, whole, &variant, &all);
  ran = op_run(device, alone, &variant, &one) && ran;
  for (int j = 0; ran && j < AC_MAX_OUTPUTS; j++) {
    const int64_t count = alone->args.out[j].count;
    if (count == whole->args.out[j].count) continue; /* a sum over samples */
    for (int64_t i = 0; i < count; i++)
      OP_EXPECT(where, one.out[j][i] == all.out[j][sample * count + i],
                "%s, sample %d of %d, element %d of output %d: %g, in the whole %g",
                op_storage_name(whole->storage), (int)sample, (int)samples, (int)i, j,
                one.out[j][i], all.out[j][sample * count + i]);
  }
  op_result_free(&all);
  op_result_free(&one);
}

/* Neither dropout nor the order of sums depends on how the batch is split. */
static void split(ac_device *device, const op_case *c, ac_dtype storage, int64_t sample) {
  const int64_t samples = 3;
  op_instance whole, alone, whole_gradient, alone_gradient;
  op_instance_stored(&whole, c, samples, storage);
  op_instance_stored(&alone, c, 1, storage);
  alone.run.sample += (uint32_t)sample;
  for (int i = 0; i < AC_MAX_INPUTS; i++) copy_sample(&alone.args.in[i], &whole.args.in[i], sample);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    copy_sample(&alone.args.out[j], &whole.args.out[j], sample);
  double *dy = op_random_gradient(&whole);
  op_instance_gradient(&whole_gradient, &whole, &gradients[0], dy);
  op_instance_gradient(&alone_gradient, &alone, &gradients[0],
                       dy + sample * alone.args.out[0].count);
  compare_alone(device, &whole, &alone, samples, sample);
  compare_alone(device, &whole_gradient, &alone_gradient, samples, sample);
  free(dy);
  op_instance_free(&whole);
  op_instance_free(&alone);
  op_instance_free(&whole_gradient);
  op_instance_free(&alone_gradient);
}

/* Other sums of keys' and values' gradients would show in one element of about 30,000, as these are
 * rounded to bf16. Hence many draws of a case with several blocks of queries. */
static void check_split(ac_device *device) {
  enum { DRAWS = 60 };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (cases[k].in[0].dim[1] > 257 || cases[k].in[1].dim[1] > 257) continue;
    split(device, &cases[k], AC_F32, 1);
    split(device, &cases[k], AC_BF16, 1);
  }
  for (int k = 0; k < DRAWS; k++) {
    op_case c = ATTENTION(NULL, 5, 0.5f, 0.2f, 3, 80, 15, false);
    char name[64];
    snprintf(name, sizeof name, "T 80, heads 5 x 3, dropout, draw %d", k);
    c.name = name;
    split(device, &c, AC_BF16, k % 3);
  }
}

/* OpenCL's kernels take heads of up to 256 elements. */
static void check_limits(ac_device *device) {
  enum { HEADS = 3, MOST = 256 };
  static const ac_attention_attributes attributes = {
      .heads = HEADS, .scale = 1, .key_heads = HEADS, .causal = 1, .per_sample = 1};
  if (device->backend->is_host) return;
  for (int64_t head = MOST; head <= MOST + 1; head++) {
    const int64_t C = HEADS * head;
    const ac_operand qkv = {.rank = 3, .dim = {1, 1, 3 * C}, .count = 3 * C};
    const ac_operand y = {.rank = 3, .dim = {1, 1, C}, .count = C};
    const ac_operand lse = {.rank = 3, .dim = {1, HEADS, 1}, .count = HEADS};
    ac_op_args all[] = {
        {.op = AC_OP_attention, .in = {qkv}, .out = {y, lse}},
        {.op = AC_OP_attention_gradient, .in = {y, qkv, {0}, {0}, y, lse}, .out = {qkv}},
    };
    for (int o = 0; o < 2; o++) {
      all[o].attributes = &attributes;
      OP_EXPECT("limits of attention",
                device->backend->supports(device->state, &all[o]) == (head == MOST),
                "%s with heads of %d", ac_op_name(all[o].op), (int)head);
    }
  }
}

/* Masks that fit shapes that are drawn. */
static void draw_masks(op_case *c, op_draw *d, int queries, int keys, bool packed) {
  ac_attention_attributes *a = &c->attributes.attention;
  const int bias_heads = op_draw_one_in(d, 2) ? 1 : a->heads;
  a->causal = op_draw_one_in(d, 2);
  a->window = op_draw_one_in(d, 3) ? op_draw_size(d, keys) : 0;
  a->at_end = (a->causal || a->window) && op_draw_one_in(d, 3);
  a->skip_padding = op_draw_one_in(d, 4);
  a->soft_cap = op_draw_one_in(d, 4) ? 1.5f : 0;
  if (op_draw_one_in(d, 4) && a->heads * queries * keys < 4000)
    c->in[3] = (op_operand_spec)HIDING_BIAS(bias_heads, queries, keys);
  if (op_draw_one_in(d, 3)) c->in[4] = (op_operand_spec)OP_IDS(keys + 1, AC_BATCH);
  if (!op_draw_one_in(d, 3)) return;
  c->in[5] = (op_operand_spec)SEGMENTS(queries);
  if (!packed || op_draw_one_in(d, 2)) c->in[6] = (op_operand_spec)SEGMENTS(keys);
}

/* Heads of sizes that cases have, as an OpenCL kernel is compiled for each; few and many of them,
 * so that those of a sample fit into what is multiplied at a time, or do not. */
static void draw_shape(op_case *c, op_draw *d) {
  static const int sizes[] = {1, 3, 4, 5, 6, 12, 17, 20};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  const int size = sizes[op_draw_below(d, SIZES)], group = op_draw_one_in(d, 2) ? 1 : 2,
            key_heads = op_draw_size(d, op_draw_one_in(d, 4) ? 40 : 6), heads = group * key_heads;
  const bool packed = op_draw_one_in(d, 2);
  const int queries = op_draw_size(d, op_draw_one_in(d, 4) ? 140 : 30),
            keys = packed ? queries : op_draw_size(d, op_draw_one_in(d, 4) ? 140 : 30);
  const int most = 1 + 60000 / (queries * keys * heads * size);
  c->op = AC_OP_attention;
  c->attributes.attention = (ac_attention_attributes){.heads = heads,
                                                      .scale = (float)op_draw_between(d, 0.2, 1),
                                                      .dropout = op_draw_one_in(d, 2) ? 0 : 0.2f,
                                                      .stream = (uint32_t)op_draw_below(d, 9),
                                                      .key_heads = key_heads,
                                                      .causal = 1,
                                                      .per_sample = 1};
  c->evaluation = op_draw_one_in(d, 6);
  c->batch = 1 + op_draw_below(d, most < 6 ? most : 6);
  c->in[0] = (op_operand_spec)QUERIES(heads + (packed ? 2 * key_heads : 0), size, queries);
  if (!packed) c->in[1] = c->in[2] = (op_operand_spec)KEYS(key_heads, size, keys);
  c->out[0] = (op_operand_spec)OP_F32(AC_BATCH, queries, heads * size);
  c->out[1] = (op_operand_spec)OP_F32(AC_BATCH, heads, queries);
  c->gradients = gradients;
  c->gradient_count = 1;
  if (op_draw_one_in(d, 4)) return;
  draw_masks(c, d, queries, keys, packed);
}

static void special(ac_device *device) {
  op_check_drawn(&op_family_attention, device, draw_shape);
  check_limits(device);
  extremes(device);
  if (!op_reduced) extremes_in_parts(device);
  if (!op_reduced) check_split(device);
}

const op_family op_family_attention = {"attention", cases,   sizeof cases / sizeof *cases,
                                       from_vector, special, NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static bool takes(const ac_shape *x) {
  return x->batched && x->rank == 3 && x->dim[0] == 1 && x->dim[1] <= 20;
}

/* x as `width` columns: x itself if it has so many, sometimes. */
static ac_tensor *columns(op_draw *d, ac_tensor *x, int64_t width) {
  const int64_t in = ac_shape_last(&x->shape);
  if (in == width && !op_draw_one_in(d, 3)) return x;
  return ac_linear(x, op_draw_weight(d, in, 2, (int64_t[]){width, in}), NULL, AC_OUT_IN);
}

static ac_tensor *draw_integers(op_draw *d, int64_t length, double low, double high) {
  ac_shape shape = {.rank = length ? 2 : 1, .batched = true, .dim = {1, length}};
  const op_drawn_leaf *leaf = op_draw_input(d, AC_I32, &shape, low, high);
  return leaf ? leaf->tensor : NULL;
}

static ac_tensor *draw_bias(op_draw *d, int64_t heads, int64_t queries, int64_t keys) {
  const int64_t dim[] = {op_draw_one_in(d, 2) ? 1 : heads, queries, keys};
  const ac_shape batched = {.rank = 4, .batched = true, .dim = {1, dim[0], queries, keys}};
  ac_tensor *result = op_draw_one_in(d, 3) ? op_draw_result(d, &batched) : NULL;
  if (result || dim[0] * queries * keys > OP_DRAW_ELEMENTS) return result;
  return op_draw_unbatched(d, -1, 1, 3, dim);
}

static void draw_desc(op_draw *d, ac_attention_desc *desc, int64_t queries, int64_t keys) {
  desc->scale = op_draw_one_in(d, 2) ? 0 : 0.7f;
  desc->dropout = op_draw_one_in(d, 2) ? 0 : 0.2f;
  if (op_draw_one_in(d, 3)) return;
  desc->causal = op_draw_one_in(d, 3);
  desc->window = op_draw_one_in(d, 4) ? op_draw_size(d, (int)keys) : 0;
  desc->at_end = (desc->causal || desc->window) && op_draw_one_in(d, 3);
  desc->skip_padding = op_draw_one_in(d, 6);
  desc->soft_cap = op_draw_one_in(d, 5) ? 2 : 0;
  if (op_draw_one_in(d, 4)) desc->bias = draw_bias(d, desc->heads, queries, keys);
  if (op_draw_one_in(d, 4)) desc->lengths = draw_integers(d, 0, 0, (double)keys + 1);
  if (op_draw_one_in(d, 4)) desc->segments = draw_integers(d, queries, -1, 2);
  if (desc->segments && (queries != keys || op_draw_one_in(d, 2)))
    desc->key_segments = draw_integers(d, keys, -1, 2);
  if (queries != keys && !desc->key_segments) desc->segments = NULL;
}

/* [B, T, heads size] of x, as heads. */
static ac_tensor *draw_heads(op_draw *d, ac_tensor *x, int64_t heads, int64_t size) {
  return ac_reshape(columns(d, x, heads * size), AC_SHAPE(AC_BATCH, x->shape.dim[1], heads, size));
}

/* Keys of x itself, or of an input of another length. */
static ac_tensor *draw_source(op_draw *d, ac_tensor *x) {
  if (op_draw_one_in(d, 2)) return x;
  const ac_shape shape = {
      .rank = 3, .batched = true, .dim = {1, op_draw_size(d, 12), op_draw_size(d, 12)}};
  const op_drawn_leaf *leaf = op_draw_input(d, AC_F32, &shape, -1.5, 1.5);
  return leaf ? leaf->tensor : x;
}

static ac_tensor *back(ac_tensor *y) {
  const ac_shape *s = &y->shape;
  return ac_reshape(y, AC_SHAPE(AC_BATCH, s->dim[1], s->dim[2] * s->dim[3]));
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t key_heads = op_draw_size(d, 3), group = op_draw_size(d, 3),
                heads = key_heads * group, size = op_draw_size(d, 8), length = x->shape.dim[1];
  ac_attention_desc desc = {.heads = (int)heads, .key_heads = (int)key_heads};
  const int kind = op_draw_below(d, 3);
  if (kind == 0) {
    draw_desc(d, &desc, length, length);
    return ac_causal_attention(columns(d, x, (heads + 2 * key_heads) * size), &desc);
  }
  if (kind == 1) {
    draw_desc(d, &desc, length, length);
    return back(ac_attention(draw_heads(d, x, heads + 2 * key_heads, size), NULL, NULL, &desc));
  }
  ac_tensor *source = draw_source(d, x), *q = draw_heads(d, x, heads, size),
            *k = draw_heads(d, source, key_heads, size),
            *v = op_draw_one_in(d, 3)
                     ? k
                     : draw_heads(d, source, key_heads, op_draw_one_in(d, 2) ? size : 5);
  draw_desc(d, &desc, length, source->shape.dim[1]);
  return back(ac_attention(q, k, v, &desc));
}

const op_generator op_generator_attention = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients)};
