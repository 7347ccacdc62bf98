/* weight_standardisation of rows of `width`, one for each output: y = (w - mean) r,
 * r = 1 / sqrt(var + epsilon); statistics [O,2] keeps (mean, r).
 * Gradient: dw (+)= r (dy - mean(dy) - y mean(dy y)).
 *
 * A work-group of ROW_GROUP items a row; local memory 4 * ROW_GROUP bytes. Dtypes: storage for y
 * and dy, float for the rest. */
#include "common.h"

ROW_STATISTICS(row_statistics, float, LOAD_FLOAT)

kernel WORK_GROUP(ROW_GROUP, 1) void weight_standardisation(const global float *w,
                                                            global storage *y,
                                                            global float *statistics, long width,
                                                            float epsilon) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float2 s = row_statistics(w, row, width, epsilon, scratch, item, statistics, n);
  for (size_t j = item; j < width; j += ROW_GROUP) store(y, row + j, (w[row + j] - s.x) * s.y);
}

kernel WORK_GROUP(ROW_GROUP, 1) void weight_standardisation_gradient(const global storage *dy,
                                                                     const global float *w,
                                                                     const global float *statistics,
                                                                     global float *dw, long width,
                                                                     int add) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float mean = statistics[2 * n], r = statistics[2 * n + 1];
  float sum = 0, sum_y = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float d = load(dy, row + j);
    sum += d;
    sum_y += d * ((w[row + j] - mean) * r);
  }
  const float mean_dy = group_sum(sum, scratch, item, ROW_GROUP) / width;
  const float mean_y = group_sum(sum_y, scratch, item, ROW_GROUP) / width;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float d = r * (load(dy, row + j) - mean_dy - (w[row + j] - mean) * r * mean_y);
    dw[row + j] = add ? dw[row + j] + d : d;
  }
}
