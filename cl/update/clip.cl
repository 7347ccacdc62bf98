/* clip: the formulas of src/ops/update/clip.h. y may be g.
 *
 * _value: one work-item an element; _columns: one a column of [rows, columns]; groups of GROUP.
 * _rows: a work-group of ROW_GROUP items a row, with local memory of a float an item.
 * Dtypes: float. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void clip_value(const global float *g, global float *y, long n,
                                            float gradient_factor, float limit) {
  const size_t i = element_id();
  if (i < n) y[i] = fmin(fmax(gradient_factor * g[i], -limit), limit);
}

/* The sums of squares of g, times `scale`, and of p. */
float2 clip_squares(const global float *g, const global float *p, size_t begin, size_t end,
                    size_t step, float scale) {
  float of_g = 0, of_p = 0;
  for (size_t i = begin; i < end; i += step) {
    const float v = g[i] * scale;
    of_g += v * v;
    of_p += p[i] * p[i];
  }
  return (float2)(of_g, of_p);
}

/* Whether squares are, or may be, too large or too small for floats. */
bool is_inexact(float squares) {
  return !(squares <= MAXFLOAT) || squares < 0x1p-80f;
}

/* What a unit's gradient is multiplied with, by the norms of parameter and gradient. */
float clip_factor(float gradient_factor, float limit, float of_p, float of_g) {
  const float norm = fabs(gradient_factor) * of_g, most = limit * fmax(of_p, 1e-3f);
  return norm < most ? gradient_factor : gradient_factor * (most / fmax(norm, 1e-6f));
}

kernel WORK_GROUP(GROUP, 1) void clip_columns(const global float *g, const global float *p,
                                              global float *y, long rows, long columns,
                                              float gradient_factor, float limit) {
  const size_t j = element_id(), end = rows * columns;
  if (j >= columns) return;
  float2 sums = clip_squares(g, p, j, end, columns, 1);
  float norm = sqrt(sums.x);
  if (is_inexact(sums.x)) {
    const float scale = sums.x < 1 ? UP : DOWN;
    norm = sqrt(clip_squares(g, p, j, end, columns, scale).x) * (1 / scale);
  }
  const float factor = clip_factor(gradient_factor, limit, sqrt(sums.y), norm);
  for (size_t i = j; i < end; i += columns) y[i] = factor * g[i];
}

kernel WORK_GROUP(ROW_GROUP, 1) void clip_rows(const global float *g, const global float *p,
                                               global float *y, long columns, float gradient_factor,
                                               float limit) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * columns;
  const float2 sums = clip_squares(g, p, row + item, row + columns, ROW_GROUP, 1);
  const float of_g = group_sum(sums.x, scratch, item, ROW_GROUP),
              of_p = group_sum(sums.y, scratch, item, ROW_GROUP);
  float norm = sqrt(of_g);
  if (is_inexact(of_g)) {
    const float scale = of_g < 1 ? UP : DOWN;
    const float own = clip_squares(g, p, row + item, row + columns, ROW_GROUP, scale).x;
    norm = sqrt(group_sum(own, scratch, item, ROW_GROUP)) * (1 / scale);
  }
  const float factor = clip_factor(gradient_factor, limit, sqrt(of_p), norm);
  for (size_t j = row + item; j < row + columns; j += ROW_GROUP) y[j] = factor * g[j];
}
