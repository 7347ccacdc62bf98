/* binary_cross_entropy over samples of m logits z with targets t: loss = w mean of
 * max(z, 0) - z t + log(1 + exp(-|z|)); dz = w loss_scale / m (1 / (1 + exp(-z)) - t), which may be
 * written over z. A sample counts as right if z >= 0 just where t >= 1/2.
 *
 * A work-group of ROW_GROUP items a sample, local memory 4 * ROW_GROUP bytes; each leaves (loss,
 * weight, weight if right) in `rows` for losses.cl's sum_losses. The gradient is one work-item an
 * element, groups of GROUP. Dtypes: storage for z and dz, float for the rest. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP, 1) void binary_cross_entropy(const global storage *logits,
                                                          const global float *targets,
                                                          const global float *weights,
                                                          global float *rows, long m) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * m;
  float sum = 0, wrong = 0;
  for (size_t j = item; j < m; j += ROW_GROUP) {
    const float z = load(logits, row + j), t = targets[row + j];
    sum += (z > 0 ? z : 0) - z * t + log1p(exp(-fabs(z)));
    if ((z >= 0) != (t >= 0.5f)) wrong = 1;
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  wrong = group_max(wrong, scratch, item, ROW_GROUP);
  if (item) return;
  const float w = weights ? weights[n] : 1;
  rows[3 * n] = w == 0 ? 0 : w * (sum / m);
  rows[3 * n + 1] = w;
  rows[3 * n + 2] = wrong == 0 ? w : 0;
}

kernel WORK_GROUP(GROUP, 1) void binary_cross_entropy_gradient(const global storage *logits,
                                                               const global float *targets,
                                                               const global float *weights,
                                                               global storage *dlogits, long n,
                                                               long m, float factor) {
  const size_t e = element_id();
  if (e >= n) return;
  const float w = weights ? weights[quotient(e, m)] : 1;
  const float d = 1 / (1 + exp(-load(logits, e))) - targets[e];
  store(dlogits, e, w == 0 ? 0 : w * factor * d);
}
