/* Hits of a classifier. A row of V logits is read once, for its first largest or for what comes
 * before its target. Row results go to the workspace, before the scratch that blocks need there,
 * and are added up in order. */
#include "backend/cpu/loss/loss.h"
#include "core/align.h"
#include "ops/loss/class_hits.h"

#include <math.h>

typedef struct row_hit {
  float hit, weight;
} row_hit;

/* Logits that come before the one of the target. */
static int64_t before(const float *x, int64_t count, int64_t target) {
  const float own = x[target];
  int64_t larger = 0;
#pragma omp simd reduction(+ : larger)
  for (int64_t j = 0; j < target; j++) larger += !(x[j] < own);
#pragma omp simd reduction(+ : larger)
  for (int64_t j = target + 1; j < count; j++) larger += !(x[j] <= own);
  return larger;
}

/* -1: no logit is larger than minus infinity. */
static int64_t first_largest(const float *x, int64_t count) {
  float largest = -INFINITY;
  int64_t where = -1;
  for (int64_t j = 0; j < count; j++)
    if (x[j] > largest) largest = x[j], where = j;
  return where;
}

static row_hit judge(const ac_class_hits_attributes *a, const float *x, int64_t count,
                     int32_t target, float weight) {
  if (a->ignore && target == a->ignore_index) weight = 0.0f;
  if (weight == 0.0f) return (row_hit){0.0f, 0.0f};
  if (a->kind == AC_HITS_TOP)
    return (row_hit){before(x, count, target) < a->number ? weight : 0.0f, weight};
  const bool said = first_largest(x, count) == a->number, is = target == a->number;
  const bool counts = a->kind == AC_HITS_PRECISION ? said
                      : a->kind == AC_HITS_RECALL  ? is
                                                   : said || is;
  return (row_hit){said && is ? weight : 0.0f, counts ? weight : 0.0f};
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const int64_t columns = ac_columns(&args->in[0]);
  const int32_t *targets = args->in[1].data;
  const float *weights = ac_cpu_data(&args->in[2]);
  row_hit *results = args->workspace;
  for (int64_t i = first; i < last; i++)
    results[i] = judge(args->attributes, (const float *)args->in[0].data + i * columns, columns,
                       targets[i], weights ? weights[i] : 1.0f);
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  const int64_t count = ac_rows(&args->in[0]);
  const row_hit *results = args->workspace;
  double hits = 0, weight = 0;
  ac_cpu_for_rows(context, args, forward_range);
  for (int64_t i = 0; i < count; i++) {
    hits += (double)results[i].hit;
    weight += (double)results[i].weight;
  }
  store_loss_sums(args->out[0].data, args->add[0], hits, weight, 0);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  const uint64_t results = (uint64_t)ac_rows(&args->in[0]) * sizeof(row_hit);
  return ac_align(results, AC_LINE_BYTES) + ac_cpu_row_scratch(context, args);
}

const ac_cpu_kernel AC_CPU_KERNEL(class_hits) = {.run = forward, .workspace = workspace};
