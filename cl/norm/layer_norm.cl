/* layer_norm over rows of C: y = gamma h + beta, h = (x - mean) r, r = 1 / sqrt(var + epsilon);
 * statistics [n,2] keeps (mean, r).
 * Input gradient, with g = dy gamma: dx (+)= r (g - mean(g) - h mean(g h)); dx may be dy.
 * Parameter gradient: dgamma (+)= sum over rows of dy h, dbeta (+)= sum over rows of dy.
 *
 * A work-group of ROW_GROUP items a row; local memory 4 * ROW_GROUP bytes. layer_norm_columns sums
 * chunks of rows into partial sums [chunks,C] for each of dgamma and dbeta, which add.cl's
 * sum_columns then sums: work-group 32 x LANES, local memory 256 * LANES bytes. Dtypes: storage for
 * x, y, dy, dx; float for the rest. */
#include "common.h"

ROW_STATISTICS(row_statistics, storage, load)

kernel WORK_GROUP(ROW_GROUP, 1) void layer_norm(const global storage *x, const global float *gamma,
                                                const global float *beta, global storage *y,
                                                global float *statistics, long width,
                                                float epsilon) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float2 s = row_statistics(x, row, width, epsilon, scratch, item, statistics, n);
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float h = (load(x, row + j) - s.x) * s.y;
    store(y, row + j, h * (gamma ? gamma[j] : 1) + (beta ? beta[j] : 0));
  }
}

kernel WORK_GROUP(ROW_GROUP, 1) void layer_norm_input_gradient(
    const global storage *dy, const global storage *x, const global float *statistics,
    const global float *gamma, global storage *dx, long width, int add) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const float mean = statistics[2 * n], r = statistics[2 * n + 1];
  float sum_g = 0, sum_gh = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float g = load(dy, row + j) * (gamma ? gamma[j] : 1);
    sum_g += g;
    sum_gh += g * ((load(x, row + j) - mean) * r);
  }
  const float mean_g = group_sum(sum_g, scratch, item, ROW_GROUP) / width;
  const float mean_gh = group_sum(sum_gh, scratch, item, ROW_GROUP) / width;
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float g = load(dy, row + j) * (gamma ? gamma[j] : 1), h = (load(x, row + j) - mean) * r;
    const float d = r * (g - mean_g - h * mean_gh);
    store(dx, row + j, add ? load(dx, row + j) + d : d);
  }
}

kernel WORK_GROUP(32, LANES) void layer_norm_columns(const global storage *dy,
                                                     const global storage *x,
                                                     const global float *statistics,
                                                     global float *partial, long m, long n,
                                                     long rows_per_chunk, long chunks) {
  local float sum_gamma[LANES][32], sum_beta[LANES][32];
  const int lane = get_local_id(1);
  const strip s = find_strip(m, n, rows_per_chunk);
  float for_gamma = 0, for_beta = 0;
  if (s.column < n)
    for (size_t i = s.begin + lane; i < s.end; i += LANES) {
      const float d = load(dy, i * n + s.column);
      for_gamma += d * ((load(x, i * n + s.column) - statistics[2 * i]) * statistics[2 * i + 1]);
      for_beta += d;
    }
  for_gamma = lane_sum(for_gamma, sum_gamma);
  for_beta = lane_sum(for_beta, sum_beta);
  if (lane == 0 && s.column < n) {
    partial[s.chunk * n + s.column] = for_gamma;
    partial[(chunks + s.chunk) * n + s.column] = for_beta;
  }
}
