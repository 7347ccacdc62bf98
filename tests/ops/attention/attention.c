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

/* For head h of C / heads = d columns, with q, k, v side by side in qkv:
 *   s_ij = scale q_i . k_j for j <= i;  lse_i = log sum_j exp(s_ij);  p_ij = exp(s_ij - lse_i)
 *   y_i = sum_j z_ij p_ij v_j,  z_ij = 0 where dropped, else 1 / (1 - dropout) */
typedef struct shape {
  const ac_attention_attributes *a;
  const ac_run_state *run;
  const double *qkv;
  int64_t B, T, C, d;
} shape;

static shape shape_of(const ac_op_args *args, const ac_operand *qkv) {
  const ac_attention_attributes *a = args->attributes;
  int64_t C = qkv->dim[2] / 3;
  return (shape){a, args->run, op_reals(qkv), qkv->dim[0], qkv->dim[1], C, C / a->heads};
}

/* Row t of part 0 (queries), 1 (keys) or 2 (values) of a head. */
static int64_t row(const shape *s, int part, int64_t b, int64_t h, int64_t t) {
  return ((b * s->T + t) * 3 + part) * s->C + h * s->d;
}

static double score(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < s->d; c++)
    sum += s->qkv[row(s, 0, b, h, i) + c] * s->qkv[row(s, 1, b, h, j) + c];
  return sum * (double)s->a->scale;
}

static double mask(const shape *s, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!s->run->training || s->a->dropout == 0) return 1;
  uint32_t e = (uint32_t)((h * s->T + i) * s->T + j);
  ac_philox_block block =
      ac_philox(s->run->seed, e / 8, s->run->sample + (uint32_t)b, s->run->update, s->a->stream);
  double p = floor((double)s->a->dropout * 65536 + 0.5) / 65536;
  uint32_t bits = block.v[e % 8 / 2] >> (e % 2 ? 16 : 0) & 0xffff;
  return bits < p * 65536 ? 0 : 1 / (1 - p);
}

static void attention(const ac_op_args *args) {
  shape s = shape_of(args, &args->in[0]);
  double *y = op_reals(&args->out[0]), *lse = op_reals(&args->out[1]);
  for (int64_t i = 0; i < args->out[0].count; i++) y[i] = 0;
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.a->heads; h++)
      for (int64_t i = 0; i < s.T; i++) {
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j <= i; j++) largest = fmax(largest, score(&s, b, h, i, j));
        for (int64_t j = 0; j <= i; j++) sum += exp(score(&s, b, h, i, j) - largest);
        double l = lse[(b * s.a->heads + h) * s.T + i] = largest + log(sum);
        for (int64_t j = 0; j <= i; j++) {
          double p = exp(score(&s, b, h, i, j) - l) * mask(&s, b, h, i, j);
          for (int64_t c = 0; c < s.d; c++)
            y[(b * s.T + i) * s.C + h * s.d + c] += p * s.qkv[row(&s, 2, b, h, j) + c];
        }
      }
}

/* A score is a sum of d products; its absolute error becomes the relative one of p, which is
 * rounded where it is a factor, not in the sum that lse is made of. */
static double score_error(const shape *s, const ac_operand *qkv) {
  double largest = op_largest(qkv);
  return op_sum_error(s->d) * (double)s->a->scale * largest * largest;
}

static op_tolerance attention_error(const ac_op_args *args, int output) {
  const ac_operand *qkv = &args->in[0];
  shape s = shape_of(args, qkv);
  double p = OP_MATH_ERROR + 2 * score_error(&s, qkv) + op_sum_error(s.T);
  double keep = 1 / (1 - (double)s.a->dropout);
  if (output == 1) return (op_tolerance){4, p};
  return (op_tolerance){1, (p + op_factor_error(qkv)) * op_largest(qkv) * keep};
}

const op_reference op_reference_attention = {attention, attention_error, true, false};

/* With D_i = y_i . dy_i:  dv_j = sum_i z_ij p_ij dy_i;  ds_ij = p_ij (z_ij dy_i . v_j - D_i);
 * dq_i = scale sum_j ds_ij k_j;  dk_j = scale sum_i ds_ij q_i */
static void attention_gradient(const ac_op_args *args) {
  shape s = shape_of(args, &args->in[1]);
  const double *dy = op_reals(&args->in[0]), *y = op_reals(&args->in[4]);
  const double *lse = op_reals(&args->in[5]);
  double *dqkv = op_reals(&args->out[0]), scale = s.a->scale;
  for (int64_t i = 0; i < args->out[0].count; i++) dqkv[i] = 0;
  for (int64_t b = 0; b < s.B; b++)
    for (int64_t h = 0; h < s.a->heads; h++)
      for (int64_t i = 0; i < s.T; i++) {
        int64_t at = (b * s.T + i) * s.C + h * s.d;
        double D = 0;
        for (int64_t c = 0; c < s.d; c++) D += y[at + c] * dy[at + c];
        for (int64_t j = 0; j <= i; j++) {
          double p = exp(score(&s, b, h, i, j) - lse[(b * s.a->heads + h) * s.T + i]);
          double z = mask(&s, b, h, i, j), dp = 0;
          for (int64_t c = 0; c < s.d; c++) dp += dy[at + c] * s.qkv[row(&s, 2, b, h, j) + c];
          double ds = p * (z * dp - D);
          for (int64_t c = 0; c < s.d; c++) {
            dqkv[row(&s, 0, b, h, i) + c] += scale * ds * s.qkv[row(&s, 1, b, h, j) + c];
            dqkv[row(&s, 1, b, h, j) + c] += scale * ds * s.qkv[row(&s, 0, b, h, i) + c];
            dqkv[row(&s, 2, b, h, j) + c] += z * p * dy[at + c];
          }
        }
      }
}

/* dp and D are sums of d products, z dp - D at most about 2 sqrt(d) |dy| |v|; ds carries p's
 * relative error on top, and either may be rounded once. Over j the p of a row sum to 1; over i (dk
 * and dv) to the T rows' weight on one column, about log T. */
static op_tolerance attention_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  const ac_operand *qkv = &args->in[1];
  shape s = shape_of(args, qkv);
  double x = op_largest(qkv), dy = op_largest(&args->in[0]);
  double keep = 1 / (1 - (double)s.a->dropout);
  double p = OP_MATH_ERROR + 2 * score_error(&s, qkv) + op_sum_error(s.T) + op_factor_error(qkv);
  double ds = (p * 2 * sqrt((double)s.d) + 2 * op_sum_error(s.d)) * dy * x;
  return (op_tolerance){1, keep * (1 + log((double)s.T)) * (ds * (double)s.a->scale * x + p * dy)};
}

const op_reference op_reference_attention_gradient = {attention_gradient, attention_gradient_error,
                                                      true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_attention_gradient,
     .in = {OP_DY, OP_INPUT(0), {0}, {0}, OP_OUTPUT(0), OP_OUTPUT(1)},
     .of = {0},
     .outputs = 1},
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
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_attention;
  const int32_t heads = (int32_t)op_vector_attribute(vector, "heads", 1);
  result->attributes.attention =
      (ac_attention_attributes){.heads = heads,
                                .scale = (float)op_vector_attribute(vector, "scale", 1),
                                .key_heads = heads,
                                .causal = 1,
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

/* What belongs to one sample of an array of so many. */
static double *of_sample(const ac_operand *x, int64_t samples, int64_t sample) {
  return op_reals(x) + sample * (x->count / samples);
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
  for (int k = 0; k < 3; k++) {
    const ac_operand *x = k ? &whole.args.out[k - 1] : &whole.args.in[0],
                     *y = k ? &alone.args.out[k - 1] : &alone.args.in[0];
    memcpy(y->data, of_sample(x, samples, sample), (size_t)y->count * sizeof(double));
  }
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
    if (cases[k].in[0].dim[1] > 257) continue;
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

/* Heads of sizes that cases have, as an OpenCL kernel is compiled for each; few and many of them,
 * so that those of a sample fit into what is multiplied at a time, or do not. */
static void draw_shape(op_case *c, op_draw *d) {
  static const int sizes[] = {1, 3, 4, 5, 6, 12, 17, 20};
  const int size = sizes[op_draw_below(d, sizeof sizes / sizeof *sizes)];
  const int heads = op_draw_size(d, op_draw_one_in(d, 4) ? 40 : 6), width = heads * size;
  const int positions = op_draw_size(d, op_draw_one_in(d, 4) ? 140 : 30);
  const int most = 1 + 60000 / (positions * positions * width);
  c->op = AC_OP_attention;
  c->attributes.attention = (ac_attention_attributes){.heads = heads,
                                                      .scale = (float)op_draw_between(d, 0.2, 1),
                                                      .dropout = op_draw_one_in(d, 2) ? 0 : 0.2f,
                                                      .stream = (uint32_t)op_draw_below(d, 9),
                                                      .key_heads = heads,
                                                      .causal = 1,
                                                      .per_sample = 1};
  c->evaluation = op_draw_one_in(d, 6);
  c->batch = 1 + op_draw_below(d, most < 6 ? most : 6);
  c->in[0] = (op_operand_spec)OP_RANGE(-2, 2, AC_BATCH, positions, 3 * width);
  c->out[0] = (op_operand_spec)OP_F32(AC_BATCH, positions, width);
  c->out[1] = (op_operand_spec)OP_F32(AC_BATCH, heads, positions);
  c->gradients = gradients;
  c->gradient_count = 1;
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

static bool takes(const ac_shape *x) {
  return x->batched && x->rank == 3 && x->dim[0] == 1 && x->dim[1] <= 20;
}

/* Of x itself where it is as wide as queries, keys and values are. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t width = ac_shape_last(&x->shape), C = width / 3;
  if (width % 3 || op_draw_one_in(d, 3)) {
    C = op_draw_size(d, 32);
    x = ac_linear(x, op_draw_weight(d, width, 2, (int64_t[]){3 * C, width}), NULL, AC_OUT_IN);
  }
  ac_attention_desc desc = {.heads = op_draw_divisor(d, C),
                            .scale = op_draw_one_in(d, 2) ? 0 : 0.7f,
                            .dropout = op_draw_one_in(d, 2) ? 0 : 0.2f};
  return ac_causal_attention(x, &desc);
}

const op_generator op_generator_attention = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients)};
