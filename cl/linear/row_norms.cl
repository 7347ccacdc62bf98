/* Of the rows of W and of V = W + s B A, with A [rank,in] and B [out,rank]: ratio = |W| / |V| - 1
 * and inverse = 1 / |V|, [out] each, or zeros where V is zero. Element i of W's output o is at
 * o * row + i * step.
 *
 * A work-group of ROW_GROUP items an output; local memory 4 * ROW_GROUP bytes. Dtypes: storage for
 * W, A and B; float for the rest. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP, 1) void row_norms(const global storage *w, const global storage *a,
                                               const global storage *b, global float *ratio,
                                               global float *inverse, long in, long rank, long row,
                                               long step, float scale) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t o = get_group_id(0);
  float before = 0, after = 0;
  for (long i = item; i < in; i += ROW_GROUP) {
    const float weight = load(w, o * row + i * step);
    float sum = 0;
    for (long r = 0; r < rank; r++) sum += load(b, o * rank + r) * load(a, r * in + i);
    const float v = weight + scale * sum;
    before += weight * weight;
    after += v * v;
  }
  before = group_sum(before, scratch, item, ROW_GROUP);
  after = group_sum(after, scratch, item, ROW_GROUP);
  if (item == 0) {
    ratio[o] = after == 0 ? 0 : sqrt(before / after) - 1;
    inverse[o] = after == 0 ? 0 : 1 / sqrt(after);
  }
}
