/* Cases and references of class_hits. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

static bool comes_before(const double *x, int64_t j, int64_t t) {
  return j != t && (x[j] > x[t] || (x[j] == x[t] && j < t));
}

/* sums += {sum of w over hits, sum of w over rows that count, 0} */
static void class_hits(const ac_op_args *args) {
  const ac_class_hits_attributes *a = args->attributes;
  const int64_t rows = ac_rows(&args->in[0]), V = ac_columns(&args->in[0]);
  double *sums = op_reals(&args->out[0]);
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t n = 0; n < rows; n++) {
    const double *x = op_reals(&args->in[0]) + n * V;
    const int32_t t = op_integers(&args->in[1])[n];
    const double w = args->in[2].count ? op_reals(&args->in[2])[n] : 1;
    if (w == 0 || (a->ignore && t == a->ignore_index)) continue;
    int64_t before = 0, p = 0;
    for (int64_t j = 0; j < V; j++) before += comes_before(x, j, t);
    for (int64_t j = 1; j < V; j++) p = x[j] > x[p] ? j : p;
    const bool said = p == a->number, is = t == a->number;
    const bool counts[] = {true, said, is, said || is};
    if (a->kind == AC_HITS_TOP ? before < a->number : said && is) sums[0] += w;
    if (counts[a->kind]) sums[2] += w;
  }
}

/* Weights are added without error but for each pair's rounding. */
static op_tolerance class_hits_error(const ac_op_args *args, int output) {
  (void)output;
  const double w = args->in[2].count ? op_largest(&args->in[2]) : 1;
  return (op_tolerance){1, w * (double)ac_rows(&args->in[0])};
}

const op_reference op_reference_class_hits = {class_hits, class_hits_error, true, false};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define TARGETS(V, ...)                                                                        \
  {                                                                                            \
    .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .fill = OP_SOMETIMES, \
    .high = V, .special = -100                                                                 \
  }
#define HITS(name_, kind_, number_, ignore_, batch_, ...)                                     \
  {                                                                                           \
    .name = name_, .op = AC_OP_class_hits,                                                    \
    .attributes.class_hits = {kind_, number_, -100, ignore_}, .batch = batch_, .out = {SUMS}, \
    .in = {                                                                                   \
      __VA_ARGS__                                                                             \
    }                                                                                         \
  }

static const op_case cases[] = {
    HITS("top 3, 5x13 of 33", AC_HITS_TOP, 3, false, 5, OP_RANGE(-4, 4, AC_BATCH, 13, 33),
         OP_IDS(33, AC_BATCH, 13)),
    HITS("top 1 with weights and ignored, 65 of 7", AC_HITS_TOP, 1, true, 65,
         OP_RANGE(-4, 4, AC_BATCH, 7), TARGETS(7, AC_BATCH), OP_RANGE(0, 2, AC_BATCH)),
    HITS("precision, 65 of 7", AC_HITS_PRECISION, 2, false, 65, OP_RANGE(-4, 4, AC_BATCH, 7),
         OP_IDS(7, AC_BATCH)),
    HITS("recall with weights, 65 of 7", AC_HITS_RECALL, 2, false, 65, OP_RANGE(-4, 4, AC_BATCH, 7),
         OP_IDS(7, AC_BATCH), OP_RANGE(0, 2, AC_BATCH)),
    HITS("union, 9x7 of 3", AC_HITS_UNION, 0, true, 9, OP_RANGE(-4, 4, AC_BATCH, 7, 3),
         TARGETS(3, AC_BATCH, 7)),
    HITS("one class, 7 of 1", AC_HITS_UNION, 0, false, 7, OP_RANGE(-4, 4, AC_BATCH, 1),
         OP_IDS(1, AC_BATCH)),
    HITS("wide, 3 of 5000", AC_HITS_TOP, 700, false, 3, OP_RANGE(-4, 4, AC_BATCH, 5000),
         OP_IDS(5000, AC_BATCH)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_class_hits;
  result->attributes.class_hits.kind = (int32_t)op_vector_attribute(vector, "kind", 0);
  result->attributes.class_hits.number = (int32_t)op_vector_attribute(vector, "number", 1);
  result->out[0].fill = OP_LOSS_SUMS;
}

const op_family op_family_class_hits = {"class_hits", cases, sizeof cases / sizeof *cases,
                                        from_vector,  NULL,  NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

/* Of the largest logit, and of the target among all. */
static void ties(op_ties *t, const ac_op_args *args) {
  const ac_class_hits_attributes *a = args->attributes;
  const int64_t V = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++) {
    const double *x = op_reals(&args->in[0]) + n * V;
    const int32_t target = op_integers(&args->in[1])[n];
    int64_t best = 0, before = 0;
    double largest = 0, apart = INFINITY;
    if (a->ignore && target == a->ignore_index) continue;
    for (int64_t j = 0; j < V; j++) {
      largest = fmax(largest, fabs(x[j]));
      best = x[j] > x[best] ? j : best;
      before += comes_before(x, j, target);
    }
    for (int64_t j = 0; j < V; j++) {
      if (j != target) apart = fmin(apart, fabs(x[j] - x[target]));
      if (j != best) apart = fmin(apart, x[best] - x[j]);
    }
    op_ties_call(t, (op_call){(uint64_t)(best * V + before), 0, apart <= 16 * t->unit * largest,
                              OP_CALL_HIT});
  }
}

/* Nothing is trained on it: a metric of some graphs (tests/random/draw.c). */
const op_generator op_generator_class_hits = {.takes = NULL, .ties = ties};
