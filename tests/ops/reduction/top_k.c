/* Cases and references of top_k. */
#include <accrue/pointwise.h>
#include <accrue/reduction.h>

#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* Whether x comes before an earlier element y. */
static bool is_before(double x, double y) {
  return x > y || (isnan(x) && !isnan(y));
}

/* One after the other, the first of the largest that have not been taken. */
static void top_k(const ac_op_args *args) {
  const int64_t C = ac_columns(&args->in[0]), k = ac_columns(&args->out[0]);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++) {
    const double *x = op_reals(&args->in[0]) + n * C;
    double *y = op_reals(&args->out[0]) + n * k, *ids = op_reals(&args->out[1]) + n * k;
    for (int64_t m = 0; m < k; m++) {
      int64_t best = -1;
      for (int64_t c = 0; c < C; c++) {
        bool taken = false;
        for (int64_t i = 0; i < m; i++) taken |= ids[i] == (double)c;
        if (!taken && (best < 0 || is_before(x[c], x[best]))) best = c;
      }
      y[m] = x[best];
      ids[m] = (double)best;
    }
  }
}

static op_tolerance exact(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_top_k = {top_k, exact, false, false};

/* dx[n, ids[n, m]] = dy[n, m], 0 elsewhere */
static void top_k_gradient(const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const int64_t C = ac_columns(dx), k = ac_columns(dy);
  for (int64_t i = 0; i < dx->count; i++) op_reals(dx)[i] = 0;
  for (int64_t i = 0; i < dy->count; i++)
    op_reals(dx)[i / k * C + op_integers(&args->in[1])[i]] = op_reals(dy)[i];
}

const op_reference op_reference_top_k_gradient = {top_k_gradient, exact, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_top_k_gradient,
     .in = {OP_DY, OP_OUTPUT(1)},
     .of = {0},
     .outputs = 1,
     .exact = true},
};

#define IDS(...) \
  { .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .high = 9 }
#define TOP_K(name_, k_, batch_, rows_, columns_)                                                 \
  {                                                                                               \
    .name = name_, .op = AC_OP_top_k, .batch = batch_, .in = {OP_F32(AC_BATCH, rows_, columns_)}, \
    .out = {OP_F32(AC_BATCH, rows_, k_), IDS(AC_BATCH, rows_, k_)}, .gradients = gradients,       \
    .gradient_count = 1                                                                           \
  }

static const op_case cases[] = {
    TOP_K("5 of 129", 5, 3, 7, 129),  TOP_K("1 of 5", 1, 3, 7, 5),
    TOP_K("all of 33", 33, 3, 2, 33), TOP_K("1 of 1", 1, 3, 2, 1),
    TOP_K("5 of 700", 5, 2, 2, 700),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_top_k;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* NaNs come first, and what is equal has an order. */
static void special(ac_device *device) {
  const double values[] = {NAN, -(double)INFINITY, (double)INFINITY, 0.5};
  for (int v = 0; v < 4; v++)
    for (int every = 1; every <= 3; every++) {
      op_instance y;
      op_result result = {0};
      const op_variant variant = {.name = "special values"};
      op_instance_forward(&y, &cases[0], 2);
      for (int64_t i = 0; i < y.args.in[0].count; i += every)
        op_reals(&y.args.in[0])[i] = values[v];
      op_instance_compute(&y);
      if (op_run(device, &y, &variant, &result))
        op_compare(op_where(device, &y, &variant), &y, &variant, &result, 1);
      op_result_free(&result);
      op_instance_free(&y);
    }
}

const op_family op_family_top_k = {"top_k",     cases,   sizeof cases / sizeof *cases,
                                   from_vector, special, NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static bool takes(const ac_shape *x) {
  return op_takes_rows(x) && x->rank < AC_MAX_RANK;
}

/* Half of the time times a factor for each id. Few, as more would nearly always be close to ties.
 */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t C = ac_shape_last(&x->shape);
  ac_tensor *ids, *y = ac_top_k(x, 1 + op_draw_below(d, C < 3 ? (int)C : 3), &ids);
  if (!y || op_draw_one_in(d, 2)) return y;
  ac_tensor *table = op_draw_parameter(d, 0.5, 1.5, 2, (int64_t[]){C, 1});
  return ac_multiply(y, op_draw_view(ac_embedding(table, ids), &y->shape));
}

static void ties(op_ties *t, const ac_op_args *args) {
  const int64_t C = ac_columns(&args->in[0]), k = ac_columns(&args->out[0]);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++)
    for (int64_t m = 0; m < k; m++) op_ties_find(t, op_reals(&args->in[0]) + n * C, C, 1, m);
}

const op_generator op_generator_top_k = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients), .ties = ties};
