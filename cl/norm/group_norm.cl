/* group_norm of images [B, C, S] with channels in G groups of neighbours; a row is a sample's group.
 * y = gamma h + beta, h = (x - mean) r, r = 1 / sqrt(var + epsilon) over a row;
 * statistics [B,G,2] keeps (mean, r). gamma and beta may be NULL.
 * Gradient, with g = dy gamma: dx (+)= r (g - mean(g) - h mean(g h)); dx may be dy. The sums of dy
 * and dy h of each channel come from channel_sums.cl, `sums` [2, B, C]; group_norm_means makes of
 * them, in the order of channels, mean(g) and mean(g h) of each row, [B,G,2], which are after them
 * from `first_mean` on.
 *
 * group_norm: a work-group of ROW_GROUP items a row, local memory 4 * ROW_GROUP bytes. The others:
 * one work-item a row or an element, groups of GROUP. Dtypes: storage for x, y, dy, dx; float for
 * the rest. */
#include "common.h"

ROW_STATISTICS(row_statistics, storage, load)

kernel WORK_GROUP(ROW_GROUP, 1) void group_norm(const global storage *x, const global float *gamma,
                                                const global float *beta, global storage *y,
                                                global float *statistics, long groups,
                                                long channels, long positions, float epsilon) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t width = channels * positions, n = get_group_id(0), row = n * width;
  const size_t first = modulo(n, groups) * channels;
  const float2 s = row_statistics(x, row, width, epsilon, scratch, item, statistics, n);
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const size_t channel = first + quotient(j, positions);
    const float h = (load(x, row + j) - s.x) * s.y;
    store(y, row + j, h * (gamma ? gamma[channel] : 1) + (beta ? beta[channel] : 0));
  }
}

kernel WORK_GROUP(GROUP, 1) void group_norm_means(global float *sums, const global float *gamma,
                                                  long rows, long groups, long channels,
                                                  long positions, long first_mean) {
  const size_t n = element_id();
  if (n >= rows) return;
  const size_t first = modulo(n, groups) * channels;
  float g = 0, gh = 0;
  for (size_t k = 0; k < channels; k++) {
    const float weight = gamma ? gamma[first + k] : 1;
    g += weight * sums[n * channels + k];
    gh += weight * sums[(rows + n) * channels + k];
  }
  sums[first_mean + 2 * n] = g / (channels * positions);
  sums[first_mean + 2 * n + 1] = gh / (channels * positions);
}

kernel WORK_GROUP(GROUP, 1) void group_norm_input_gradient(
    const global storage *dy, const global storage *x, const global float *statistics,
    const global float *gamma, const global float *sums, global storage *dx, long n, long groups,
    long channels, long positions, long first_mean, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t plane = quotient(e, positions), row = quotient(plane, channels);
  const size_t channel = modulo(plane, groups * channels);
  const float mean = statistics[2 * row], r = statistics[2 * row + 1];
  const float g = load(dy, e) * (gamma ? gamma[channel] : 1), h = (load(x, e) - mean) * r;
  const float d = r * (g - sums[first_mean + 2 * row] - h * sums[first_mean + 2 * row + 1]);
  store(dx, e, add ? load(dx, e) + d : d);
}
