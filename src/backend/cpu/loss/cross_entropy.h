/* Softmax cross-entropy of one row, for the ops that have logits and those that make them. A row of
 * V logits is read twice for its loss, for its maximum and for the sum of exponentials, the second
 * time from the cache:
 *   log_sum = log sum e^(x - max),  loss = weight (log_sum + (max - x[target])),
 *   dx = weight scale (e^(x - max - log_sum) - onehot)
 * max and log_sum are never added: if the logits are large, the sum would lose log_sum. With
 * smoothing s, (1 - s) onehot + s / V replaces onehot, and the loss reads the row a third time, for
 * the mean of max - x. A row is classified right if its target is the first index of the
 * maximum. */
#ifndef AC_BACKEND_CPU_CROSS_ENTROPY_H
#define AC_BACKEND_CPU_CROSS_ENTROPY_H

#include "backend/cpu/loss/loss.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"
#include "ops/loss/cross_entropy.h"

#include <math.h>
#include <string.h>

/* What the rows' targets and weights are; weights may be NULL. */
typedef struct loss_rows {
  const ac_cross_entropy_attributes *attributes;
  const int32_t *targets;
  const float *weights;
  float smoothing;
} loss_rows;

typedef struct row_result {
  float loss, right;
} row_result;

/* What a row keeps for its gradient: its log-sum-exp is the sum of the two. */
typedef struct row_extent {
  float max, log_sum;
} row_extent;

static inline float row_weight(const loss_rows *rows, int64_t row) {
  if (rows->attributes->ignore && rows->targets[row] == rows->attributes->ignore_index) return 0.0f;
  return rows->weights ? rows->weights[row] : 1.0f;
}

static inline float exponential_sum(const float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
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

/* The sum of max - x. */
static inline float row_distance_sum(const float *x, float max, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += max - x[j + l];
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += max - x[j];
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

static inline bool first_maximum(const float *x, float max, int64_t index) {
  if (!(x[index] == max)) return false;
  for (int64_t j = 0; j < index; j++)
    if (x[j] == max) return false;
  return true;
}

/* The loss of the row's logits x, and whether it is right, go to *result. */
static inline row_extent row_loss(const loss_rows *rows, int64_t row, const float *x,
                                  int64_t columns, row_result *result) {
  float max = row_max(x, columns), log_sum = logf(exponential_sum(x, max, columns));
  *result = (row_result){0, 0};
  if (row_weight(rows, row) != 0.0f) {
    int32_t target = rows->targets[row];
    result->loss = log_sum + (max - x[target]);
    float smoothing = rows->smoothing;
    if (smoothing > 0.0f) {
      float mean = row_distance_sum(x, max, columns) / (float)columns;
      result->loss = (1.0f - smoothing) * result->loss + smoothing * (log_sum + mean);
    }
    result->right = first_maximum(x, max, target) ? 1.0f : 0.0f;
  }
  return (row_extent){max, log_sum};
}

/* dx may be x. */
static inline void row_gradient(const loss_rows *rows, int64_t row, const float *x, int64_t columns,
                                row_extent extent, float loss_scale, float *dx) {
  float weight = row_weight(rows, row), factor = weight * loss_scale;
  float smoothing = rows->smoothing, share = factor * smoothing / (float)columns;
  if (weight == 0.0f) {
    memset(dx, 0, (size_t)columns * sizeof *dx);
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < columns; j++)
    dx[j] = factor * exponential((x[j] - extent.max) - extent.log_sum) - share;
  dx[rows->targets[row]] -= factor * (1.0f - smoothing);
}

/* A row of logits, in place: l = cap tanh(x / cap). */
static inline void cap_row(float *x, int64_t columns, float cap) {
  const float factor = 1.0f / cap;
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) x[j] = cap * hyperbolic_tangent(factor * x[j]);
}

/* row_gradient for logits before cap_row, of those after it; in place. */
static inline void capped_row_gradient(const loss_rows *rows, int64_t row, float *x,
                                       int64_t columns, row_extent extent, float loss_scale,
                                       float cap) {
  const float weight = row_weight(rows, row), factor = weight * loss_scale;
  const float smoothing = rows->smoothing, share = factor * smoothing / (float)columns;
  if (weight == 0.0f) {
    memset(x, 0, (size_t)columns * sizeof *x);
    return;
  }
  const float own = x[rows->targets[row]] / cap, inverse_cap = 1.0f / cap;
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) {
    const float part = x[j] * inverse_cap;
    x[j] =
        (factor * exponential((x[j] - extent.max) - extent.log_sum) - share) * (1.0f - part * part);
  }
  x[rows->targets[row]] -= factor * (1.0f - smoothing) * (1.0f - own * own);
}

/* Adds up in double, in the order of rows. */
static inline void sum_rows(const loss_rows *rows, int64_t count, const row_result *results,
                            float *sums, bool add) {
  double loss = 0, weight = 0, right = 0;
  for (int64_t i = 0; i < count; i++) {
    double w = (double)row_weight(rows, i);
    loss += w * (double)results[i].loss;
    right += w * (double)results[i].right;
    weight += w;
  }
  store_loss_sums(sums, add, loss, weight, right);
}

#endif
