/* rms_norm over rows of C: y = gamma h, h = x r, r = 1 / sqrt(mean(x^2) + epsilon); statistics [n]
 * keeps r.
 * Input gradient, with g = dy gamma: dx (+)= r (g - h mean(g h)); dx may be dy.
 * Parameter gradient: dgamma (+)= sum over rows of dy h.
 *
 * A work-group of ROW_GROUP items a row; local memory 4 * ROW_GROUP bytes. rms_norm_columns sums
 * chunks of rows into partial sums [chunks,C], which add.cl's sum_columns then sums: work-group
 * 32 x LANES, local memory 128 * LANES bytes. Dtypes: storage for x, y, dy, dx; float for the
 * rest. */
#include "common.h"

float row_squares(const global storage *x, size_t row, size_t width, float scale,
                  local float *scratch, int item) {
  float squares = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float v = load(x, row + j) * scale;
    squares += v * v;
  }
  return group_sum(squares, scratch, item, ROW_GROUP);
}

kernel WORK_GROUP(ROW_GROUP, 1) void rms_norm(const global storage *x, const global float *gamma,
                                              global storage *y, global float *statistics,
                                              long width, float epsilon) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float squares = row_squares(x, row, width, 1, scratch, item);
  float r = 1 / sqrt(squares / width + epsilon);
  if (!(squares <= MAXFLOAT))
    r = DOWN / sqrt(row_squares(x, row, width, DOWN, scratch, item) / width);
  for (size_t j = item; j < width; j += ROW_GROUP)
    store(y, row + j, load(x, row + j) * r * (gamma ? gamma[j] : 1));
  if (item == 0) statistics[n] = r;
}

kernel WORK_GROUP(ROW_GROUP,
                  1) void rms_norm_input_gradient(const global storage *dy, const global storage *x,
                                                  const global float *statistics,
                                                  const global float *gamma, global storage *dx,
                                                  long width, int add) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float r = statistics[n];
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP)
    sum += load(dy, row + j) * (gamma ? gamma[j] : 1) * (load(x, row + j) * r);
  const float mean = group_sum(sum, scratch, item, ROW_GROUP) / width;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float d = r * (load(dy, row + j) * (gamma ? gamma[j] : 1) - load(x, row + j) * r * mean);
    store(dx, row + j, add ? load(dx, row + j) + d : d);
  }
}

kernel WORK_GROUP(32, LANES) void rms_norm_columns(const global storage *dy,
                                                   const global storage *x,
                                                   const global float *statistics,
                                                   global float *partial, long m, long n,
                                                   long rows_per_chunk) {
  local float scratch[LANES][32];
  const int lane = get_local_id(1);
  const strip s = find_strip(m, n, rows_per_chunk);
  float sum = 0;
  if (s.column < n)
    for (size_t i = s.begin + lane; i < s.end; i += LANES)
      sum += load(dy, i * n + s.column) * (load(x, i * n + s.column) * statistics[i]);
  sum = lane_sum(sum, scratch);
  if (lane == 0 && s.column < n) partial[s.chunk * n + s.column] = sum;
}
