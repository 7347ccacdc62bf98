/* Cases and references of matmul. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* c[l,m,n] = sum_k op(a)[l,m,k] op(b)[l,k,n] over equal leading dimensions l. */
static void matmul(const ac_op_args *args) {
  const ac_matmul_attributes *t = args->attributes;
  const ac_operand *a = &args->in[0], *b = &args->in[1], *c = &args->out[0];
  int64_t M = c->dim[c->rank - 2], N = c->dim[c->rank - 1];
  int64_t K = t->transpose_a ? a->dim[a->rank - 2] : a->dim[a->rank - 1];
  for (int64_t l = 0; l < c->count / (M * N); l++)
    for (int64_t m = 0; m < M; m++)
      for (int64_t n = 0; n < N; n++) {
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
          sum += op_reals(a)[l * M * K + (t->transpose_a ? k * M + m : m * K + k)] *
                 op_reals(b)[l * K * N + (t->transpose_b ? n * K + k : k * N + n)];
        op_reals(c)[(l * M + m) * N + n] = sum;
      }
}

static op_tolerance matmul_error(const ac_op_args *args, int output) {
  (void)output;
  const ac_matmul_attributes *t = args->attributes;
  const ac_operand *a = &args->in[0];
  int64_t K = t->transpose_a ? a->dim[a->rank - 2] : a->dim[a->rank - 1];
  return (op_tolerance){1, op_sum_error(K) * op_largest(a) * op_largest(&args->in[1])};
}

const op_reference op_reference_matmul = {matmul, matmul_error, true, false};

/* da and db are products again; which operand is transposed follows from the forward flags. */
#define FLAGS(a, b) (&(const op_attributes){.matmul = {a, b}})
#define PRODUCT(flags, first, second, target) \
  { .op = AC_OP_matmul, .attributes = flags, .in = {first, second}, .of = {target}, .outputs = 1 }
#define OP_A OP_INPUT(0)
#define OP_B OP_INPUT(1)
static const op_gradient gradients[2][2][2] = {
    {{PRODUCT(FLAGS(false, true), OP_DY, OP_B, 0), PRODUCT(FLAGS(true, false), OP_A, OP_DY, 1)},
     {PRODUCT(FLAGS(false, false), OP_DY, OP_B, 0), PRODUCT(FLAGS(true, false), OP_DY, OP_A, 1)}},
    {{PRODUCT(FLAGS(false, true), OP_B, OP_DY, 0), PRODUCT(FLAGS(false, false), OP_A, OP_DY, 1)},
     {PRODUCT(FLAGS(true, true), OP_B, OP_DY, 0), PRODUCT(FLAGS(true, true), OP_DY, OP_A, 1)}},
};

#define MATMUL(name_, a, b, batch_, ...)                                             \
  {                                                                                  \
    .name = name_, .op = AC_OP_matmul, .attributes.matmul = {a, b}, .batch = batch_, \
    .gradients = gradients[a][b], .gradient_count = 2, __VA_ARGS__                   \
  }

static const op_case cases[] = {
    MATMUL("2x3x[65x7 7x33]", 0, 0, 2,
           .in = {OP_F32(AC_BATCH, 3, 65, 7), OP_F32(AC_BATCH, 3, 7, 33)},
           .out = {OP_F32(AC_BATCH, 3, 65, 33)}),
    MATMUL("2x3x[65x7 (33x7)']", 0, 1, 2,
           .in = {OP_F32(AC_BATCH, 3, 65, 7), OP_F32(AC_BATCH, 3, 33, 7)},
           .out = {OP_F32(AC_BATCH, 3, 65, 33)}),
    MATMUL("2x3x[(7x65)' 7x33]", 1, 0, 2,
           .in = {OP_F32(AC_BATCH, 3, 7, 65), OP_F32(AC_BATCH, 3, 7, 33)},
           .out = {OP_F32(AC_BATCH, 3, 65, 33)}),
    MATMUL("2x3x[(7x65)' (33x7)']", 1, 1, 2,
           .in = {OP_F32(AC_BATCH, 3, 7, 65), OP_F32(AC_BATCH, 3, 33, 7)},
           .out = {OP_F32(AC_BATCH, 3, 65, 33)}),
    MATMUL("rank 2, [3x129 129x65]", 0, 0, 3, .in = {OP_F32(AC_BATCH, 129), OP_F32(129, 65)},
           .out = {OP_F32(AC_BATCH, 65)}),
    MATMUL("3x[1x1 1x1]", 0, 0, 3, .in = {OP_F32(AC_BATCH, 1, 1), OP_F32(AC_BATCH, 1, 1)},
           .out = {OP_F32(AC_BATCH, 1, 1)}),
    MATMUL("3x[1x65 (1x65)']", 0, 1, 3, .in = {OP_F32(AC_BATCH, 1, 65), OP_F32(AC_BATCH, 1, 65)},
           .out = {OP_F32(AC_BATCH, 1, 1)}),
    /* More rows than a block of a product has, in one thread. */
    MATMUL("2x[781x5 5x24]", 0, 0, 2, .in = {OP_F32(AC_BATCH, 781, 5), OP_F32(AC_BATCH, 5, 24)},
           .out = {OP_F32(AC_BATCH, 781, 24)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  bool a = op_vector_attribute(vector, "transpose_a", 0) != 0;
  bool b = op_vector_attribute(vector, "transpose_b", 0) != 0;
  result->op = AC_OP_matmul;
  result->attributes.matmul = (ac_matmul_attributes){a, b};
  result->gradients = gradients[a][b];
  result->gradient_count = 2;
}

/* ---- sums in float ----------------------------------------------------------------------------
 */

static double norm(const double *x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

static double distance(const double *x, const double *y, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return sqrt(sum);
}

/* The product of a rank 2 instance with the sum rounded to f16 after every term. */
static double half_error(const op_instance *s, int64_t M, int64_t N, int64_t K) {
  const double *a = op_reals(&s->args.in[0]), *b = op_reals(&s->args.in[1]);
  double *c = calloc((size_t)(M * N), sizeof *c);
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++)
      for (int64_t k = 0; k < K; k++)
        c[m * N + n] = op_round(AC_F16, c[m * N + n] + a[m * K + k] * b[k * N + n]);
  double error = distance(c, op_reals(&s->args.out[0]), M * N);
  free(c);
  return error;
}

/* Products of any depth are summed in float: the error against double stays below 2^-10 |A| |B|
 * (Frobenius), plus in bf16 the rounding of the result, where sums in half do not. Factors of one
 * sign let the sum grow, which is where sums in half lose most. */
static void check_depth(ac_device *device, ac_dtype storage, int64_t K) {
  enum { M = 7, N = 33 };
  op_case c = {.name = "depth",
               .op = AC_OP_matmul,
               .batch = M,
               .in = {OP_RANGE(0, 1, AC_BATCH, K), OP_RANGE(0, 1, K, N)},
               .out = {OP_F32(AC_BATCH, N)}};
  op_instance s;
  op_result result;
  op_variant variant = {.name = "error of the sum", .once = true};
  op_instance_stored(&s, &c, M, storage);
  const double *want = op_reals(&s.args.out[0]);
  double scale = norm(op_reals(&s.args.in[0]), M * K) * norm(op_reals(&s.args.in[1]), K * N);
  double stored = storage == AC_BF16 ? ldexp(norm(want, M * N), -8) : 0;
  const char *where = op_where(device, &s, &variant);
  if (op_run(device, &s, &variant, &result)) {
    double error = distance(result.out[0], want, M * N);
    OP_EXPECT(where, error <= ldexp(scale, -10) + stored, "K %lld: off by %.3g |A| |B|",
              (long long)K, error / scale);
    if (storage == AC_F16 && K >= 4096)
      OP_EXPECT(where, half_error(&s, M, N, K) > ldexp(scale, -10),
                "K %lld: sums in half would pass", (long long)K);
  }
  op_result_free(&result);
  op_instance_free(&s);
}

static void special(ac_device *device) {
  static const int64_t depths[] = {1, 2, 3, 17, 64, 100, 1000, 4096, 16384};
  for (int i = 0; i < (op_reduced ? 4 : 9); i++) {
    check_depth(device, AC_F16, depths[i]);
    check_depth(device, AC_BF16, depths[i]);
  }
}

const op_family op_family_matmul = {"matmul",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

static bool takes(const ac_shape *x) {
  int64_t M = x->dim[x->rank - 2], K = x->dim[x->rank - 1];
  return x->batched && x->rank >= 3 && x->dim[x->rank - 1] > 0 &&
         ac_shape_count(x) / K / M * (M > K ? M * M : K * K) <= OP_DRAW_ELEMENTS;
}

/* A right operand that is computed from x: [M, N] if x is transposed, else [K, N]; or transposed.
 */
static ac_tensor *right_of(op_draw *d, ac_tensor *x, bool ta, bool tb, int64_t N) {
  int rank = x->shape.rank;
  ac_tensor *rows = ta ? x : ac_transpose(x, rank - 2, rank - 1);
  int64_t terms = x->shape.dim[ta ? rank - 1 : rank - 2];
  ac_tensor *weight = op_draw_weight(d, terms, 2, (int64_t[]){N, terms});
  rows = ac_linear(rows, weight, NULL, AC_OUT_IN);
  return tb ? ac_transpose(rows, rank - 2, rank - 1) : rows;
}

/* With another result that can be seen as a matrix of as many rows, with one of its own, or with
 * itself. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int rank = x->shape.rank;
  bool ta = op_draw_one_in(d, 2), tb = op_draw_one_in(d, 2);
  ac_shape other = x->shape;
  int64_t K = x->shape.dim[ta ? rank - 2 : rank - 1], N = op_draw_size(d, 5);
  double scale = 1 / sqrt((double)K);
  other.dim[rank - 2] = tb ? N : K;
  other.dim[rank - 1] = tb ? K : N;
  ac_tensor *b = op_draw_one_in(d, 2) ? NULL : op_draw_result(d, &other);
  if (!b && op_draw_one_in(d, 4)) return ac_scale(ac_matmul(x, x, ta, !ta), (float)scale);
  return ac_scale(ac_matmul(x, b ? b : right_of(d, x, ta, tb, N), ta, tb), (float)scale);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_matmul_attributes *flags = forward->attributes;
  (void)attributes;
  for (int i = 0; i < 2; i++) list[i] = gradients[flags->transpose_a][flags->transpose_b][i];
  return 2;
}

const op_generator op_generator_matmul = {.takes = takes, .build = grow, .choose = choose};
