/* Softmax cross-entropy. A row of V logits is read twice, for its maximum and for the sum of
 * exponentials, the second time from the cache: lse = max + log sum e^(x - max),  loss = weight
 * (lse - x[target]),  dx = weight scale (e^(x - lse) - onehot) A row is classified right if its
 * target is the first index of the maximum. Row results go to the workspace and are added up in
 * double, in the order of rows. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/loss.h"
#include "backend/cpu/vector_math.h"
#include "backend/cpu/reduce.h"
#include "ops/cross_entropy.h"

#include <math.h>
#include <string.h>

typedef struct row_result {
  float loss, right;
} row_result;

static float row_weight(const ac_op_args *args, int64_t row) {
  const ac_cross_entropy_attributes *attributes = args->attributes;
  const int32_t *targets = args->in[1].data;
  const float *weights = args->in[2].data;
  if (attributes && attributes->ignore && targets[row] == attributes->ignore_index) return 0.0f;
  return args->in[2].count ? weights[row] : 1.0f;
}

static float exponential_sum(const float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_min(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += exponential(x[j + l] - max);
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += exponential(x[j] - max);
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

static bool first_maximum(const float *x, float max, int64_t index) {
  if (!(x[index] == max)) return false;
  for (int64_t j = 0; j < index; j++)
    if (x[j] == max) return false;
  return true;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const int32_t *targets = args->in[1].data;
  row_result *results = args->workspace;
  float *lse = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float max = row_max(x, columns), log_sum = logf(exponential_sum(x, max, columns));
    lse[i] = max + log_sum;
    results[i] = (row_result){0, 0};
    if (row_weight(args, i) == 0.0f) continue;
    results[i].loss = log_sum + (max - x[targets[i]]);
    results[i].right = first_maximum(x, max, targets[i]) ? 1.0f : 0.0f;
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]);
  ac_cpu_for(context, args, rows, ac_columns(&args->in[0]), forward_range);
  const row_result *results = args->workspace;
  double loss = 0, weight = 0, right = 0;
  for (int64_t i = 0; i < rows; i++) {
    double w = (double)row_weight(args, i);
    loss += w * (double)results[i].loss;
    right += w * (double)results[i].right;
    weight += w;
  }
  store_loss_sums(args->out[0].data, args->add[0], loss, weight, right);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)ac_rows(&args->in[0]) * sizeof(row_result);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const int32_t *targets = args->in[1].data;
  const float *lse = args->in[3].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    float weight = row_weight(args, i), factor = weight * args->run->loss_scale, row = lse[i];
    if (weight == 0.0f) {
      memset(dx, 0, (size_t)columns * sizeof *dx);
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) dx[j] = factor * exponential(x[j] - row);
    dx[targets[i]] -= factor;
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(cross_entropy) = {forward, forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(cross_entropy_gradient) = {gradient, NULL};
