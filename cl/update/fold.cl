/* fold: the formulas of src/ops/update/fold.h, one work-item an element, groups of GROUP; v may be
 * absent. Dtypes: float. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void fold(const global float *g, global float *m, global float *v,
                                      long n, float gradient_factor, float keep1, float take1,
                                      float keep2, float take2, int is_average) {
  const size_t i = element_id();
  if (i >= n) return;
  const float d = gradient_factor * g[i];
  if (is_average) {
    m[i] += take1 * (d - m[i]);
    if (v) v[i] += take2 * (d * d - v[i]);
    return;
  }
  m[i] = keep1 * m[i] + take1 * d;
  if (v) v[i] = keep2 * v[i] + take2 * (d * d);
}
