/* clip: the formulas of src/ops/clip.h. y may be g.
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

/* What a unit's gradient is multiplied with. */
float clip_factor(float gradient_factor, float limit, float of_p, float of_g) {
  const float norm = fabs(gradient_factor) * sqrt(of_g), most = limit * fmax(sqrt(of_p), 1e-3f);
  return norm < most ? gradient_factor : gradient_factor * (most / fmax(norm, 1e-6f));
}

kernel WORK_GROUP(GROUP, 1) void clip_columns(const global float *g, const global float *p,
                                              global float *y, long rows, long columns,
                                              float gradient_factor, float limit) {
  const size_t j = element_id(), end = rows * columns;
  float of_g = 0, of_p = 0;
  if (j >= columns) return;
  for (size_t i = j; i < end; i += columns) {
    of_g += g[i] * g[i];
    of_p += p[i] * p[i];
  }
  const float factor = clip_factor(gradient_factor, limit, of_p, of_g);
  for (size_t i = j; i < end; i += columns) y[i] = factor * g[i];
}

kernel WORK_GROUP(ROW_GROUP, 1) void clip_rows(const global float *g, const global float *p,
                                               global float *y, long columns, float gradient_factor,
                                               float limit) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * columns;
  float of_g = 0, of_p = 0;
  for (size_t j = row + item; j < row + columns; j += ROW_GROUP) {
    of_g += g[j] * g[j];
    of_p += p[j] * p[j];
  }
  of_g = group_sum(of_g, scratch, item, ROW_GROUP);
  of_p = group_sum(of_p, scratch, item, ROW_GROUP);
  const float factor = clip_factor(gradient_factor, limit, of_p, of_g);
  for (size_t j = row + item; j < row + columns; j += ROW_GROUP) y[j] = factor * g[j];
}
