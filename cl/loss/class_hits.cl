/* class_hits over rows of V logits with target t and weight w. kind 0: a hit if fewer than `number`
 * logits come before logit t, which are those that are not at most as large, and equal ones with
 * j < t. Otherwise of the class `number`: the first largest logit is p, and rows count that have
 * p = number (1), t = number (2) or either (3); a hit has both. Rows with the ignored index as
 * target weigh nothing.
 *
 * A work-group of ROW_GROUP items a row, local memory 8 * ROW_GROUP bytes; each leaves (weight if
 * hit, weight, 0) in `rows` for losses.cl's sum_losses. Dtypes: storage for logits, float for the
 * rest, int targets. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP,
                  1) void class_hits(const global storage *logits, const global int *targets,
                                     const global float *weights, global float *rows, long width,
                                     int kind, int number, int ignore, int ignore_index) {
  local float scratch[ROW_GROUP];
  local int place[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = n * width;
  const int target = targets[n];
  const float w = ignore && target == ignore_index ? 0 : weights ? weights[n] : 1;
  const float own = kind == 0 && w != 0 ? load(logits, row + target) : 0;
  float largest = -INFINITY;
  int where = INT_MAX, before = 0;
  for (int j = item; j < width; j += ROW_GROUP) {
    const float v = load(logits, row + j);
    if (v > largest) largest = v, where = j;
    if (j != target) before += j < target ? !(v < own) : !(v <= own);
  }
  scratch[item] = largest;
  place[item] = kind ? where : before;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = ROW_GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) {
      const float other = scratch[item + half_size];
      const int there = place[item + half_size];
      if (kind == 0) {
        place[item] += there;
      } else if (other > scratch[item] || (other == scratch[item] && there < place[item])) {
        scratch[item] = other;
        place[item] = there;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item) return;
  const bool said = place[0] == number, is = target == number;
  const bool hit = kind == 0 ? place[0] < number : said && is;
  const bool counts = kind == 0 || (kind == 1 ? said : kind == 2 ? is : said || is);
  rows[3 * n] = hit ? w : 0;
  rows[3 * n + 1] = counts ? w : 0;
  rows[3 * n + 2] = 0;
}
