/* adafactor: the formulas of src/ops/update/adafactor.h, of a matrix rows x columns; without r, v
 * is c. `space` holds sums of squares by row [rows], then two factors, then sums of squares by
 * chunk of rows [chunks, columns].
 *
 * _rows and _size: a work-group of ROW_GROUP items a row. _columns: 32 x LANES for 32 columns of a
 * chunk. _factors and _limit: one group of GROUP items; local memory a float an item. The rest: one
 * work-item an element, groups of GROUP. Dtypes: storage for w, float for the rest; with ROUNDED p
 * is bf16, rounded by chance with key, from and update, and with GRADIENT_BF16 g is bf16. */
#include "update/parameter.h"

/* Squares of the parameter, and the moments of the gradient. */
kernel WORK_GROUP(ROW_GROUP, 1) void adafactor_rows(const global gradient_t *g,
                                                    const global rounded_t *p, global float *r,
                                                    global float *space, long columns,
                                                    float gradient_factor, float blend) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t i = get_group_id(0), row = i * columns;
  float gradient = 0, weight = 0;
  for (size_t j = item; j < columns; j += ROW_GROUP) {
    const float d = gradient_factor * gradient_load(g, row + j), v = rounded_load(p, row + j);
    gradient += d * d;
    weight += v * v;
  }
  gradient = group_sum(gradient, scratch, item, ROW_GROUP);
  weight = group_sum(weight, scratch, item, ROW_GROUP);
  if (item > 0) return;
  space[i] = weight;
  if (r) r[i] += blend * (gradient / columns - r[i]);
}

kernel WORK_GROUP(32, LANES) void adafactor_columns(const global gradient_t *g,
                                                    global float *space, long rows, long columns,
                                                    long rows_per_chunk, float gradient_factor) {
  local float scratch[LANES][32];
  const int lane = get_local_id(1);
  const strip s = find_strip(rows, columns, rows_per_chunk);
  float sum = 0;
  if (s.column < columns)
    for (size_t i = s.begin + lane; i < s.end; i += LANES) {
      const float d = gradient_factor * gradient_load(g, i * columns + s.column);
      sum += d * d;
    }
  sum = lane_sum(sum, scratch);
  if (lane == 0 && s.column < columns) space[rows + 2 + s.chunk * columns + s.column] = sum;
}

kernel WORK_GROUP(GROUP, 1) void adafactor_column_moments(const global float *space,
                                                          global float *c, long rows, long columns,
                                                          long chunks, float blend) {
  const size_t j = element_id();
  if (j >= columns) return;
  float sum = 0;
  for (size_t k = 0; k < chunks; k++) sum += space[rows + 2 + k * columns + j];
  c[j] += blend * (sum / rows - c[j]);
}

float sum_rows(const global float *x, long rows, local float *scratch) {
  const int item = get_local_id(0);
  float sum = 0;
  for (size_t i = item; i < rows; i += GROUP) sum += x[i];
  return group_sum(sum, scratch, item, GROUP);
}

/* What r is multiplied by in v, and the step before its limit. */
kernel WORK_GROUP(GROUP, 1) void adafactor_factors(global float *space, const global float *r,
                                                   long rows, long columns, float epsilon1,
                                                   float epsilon2, float relative) {
  local float scratch[GROUP];
  const float mean = r ? sum_rows(r, rows, scratch) / rows : 1;
  const float weight = sum_rows(space, rows, scratch) / rows / columns;
  if (get_local_id(0) > 0) return;
  space[rows] = 1 / fmax(mean, epsilon1);
  space[rows + 1] = fmax(epsilon2, sqrt(weight)) * relative;
}

/* Squares of the update. */
kernel WORK_GROUP(ROW_GROUP, 1)
void adafactor_size(const global gradient_t *g, const global float *r, const global float *c,
                    global float *space, long rows, long columns, float gradient_factor,
                    float least) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t i = get_group_id(0), row = i * columns;
  const float factor = r ? r[i] * space[rows] : 1;
  float sum = 0;
  for (size_t j = item; j < columns; j += ROW_GROUP) {
    const float d = gradient_factor * gradient_load(g, row + j);
    const float u = d / sqrt(fmax(factor * c[j], least));
    sum += u * u;
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item == 0) space[i] = sum;
}

kernel WORK_GROUP(GROUP, 1) void adafactor_limit(global float *space, long rows, long columns,
                                                 float threshold) {
  local float scratch[GROUP];
  const float size = sqrt(sum_rows(space, rows, scratch) / rows / columns);
  if (get_local_id(0) == 0) space[rows + 1] /= fmax(1.0f, size / threshold);
}

kernel WORK_GROUP(GROUP, 1) void adafactor(const global gradient_t *g, global rounded_t *p,
                                           const global float *r, const global float *c,
                                           global storage *w, const global float *space, long rows,
                                           long columns, uint2 key, uint from, uint update,
                                           float gradient_factor, float decay, float least) {
  const size_t n = element_id();
  if (n >= rows * columns) return;
  const size_t i = quotient(n, columns), j = n - i * columns;
  const float factor = r ? r[i] * space[rows] : 1;
  const float u = gradient_factor * gradient_load(g, n) / sqrt(fmax(factor * c[j], least));
  const float before = rounded_load(p, n), result = before - decay * before - space[rows + 1] * u;
  rounded_store(p, n, result, key, WEIGHT_STREAM(from, update));
  if (w) store(w, n, result);
}
