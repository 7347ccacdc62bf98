/* mean_squared_error over samples of m elements: loss = w mean (prediction - target)^2;
 * dprediction = w loss_scale 2 / m (prediction - target), which may be written over prediction.
 *
 * A work-group of ROW_GROUP items a sample, local memory 4 * ROW_GROUP bytes; each leaves (loss,
 * weight, 0) in `rows` for losses.cl's sum_losses. The gradient is one work-item an element, groups
 * of GROUP. Dtypes: storage for prediction and dprediction, float for the rest. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP, 1) void mean_squared_error(const global storage *prediction,
                                                        const global float *target,
                                                        const global float *weights,
                                                        global float *rows, long m) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * m;
  float sum = 0;
  for (size_t j = item; j < m; j += ROW_GROUP) {
    const float d = load(prediction, row + j) - target[row + j];
    sum += d * d;
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item) return;
  const float w = weights ? weights[n] : 1;
  rows[3 * n] = w == 0 ? 0 : w * (sum / m);
  rows[3 * n + 1] = w;
  rows[3 * n + 2] = 0;
}

kernel WORK_GROUP(GROUP, 1) void mean_squared_error_gradient(const global storage *prediction,
                                                             const global float *target,
                                                             const global float *weights,
                                                             global storage *dprediction, long n,
                                                             long m, float factor) {
  const size_t e = element_id();
  if (e >= n) return;
  const float w = weights ? weights[quotient(e, m)] : 1;
  store(dprediction, e, w == 0 ? 0 : w * factor * (load(prediction, e) - target[e]));
}
