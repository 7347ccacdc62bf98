/* softmax over rows of `width`: y = exp(x - max) / sum; dx = y (dy - sum(dy y)). In place allowed.
 * A work-group of ROW_GROUP items a row; local memory 4 * ROW_GROUP bytes. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(ROW_GROUP, 1) void softmax(const global storage *x, global storage *y,
                                             long width) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * (size_t)width;
  float largest = -INFINITY;
  for (size_t j = item; j < width; j += ROW_GROUP) largest = fmax(largest, load(x, row + j));
  largest = group_max(largest, scratch, item, ROW_GROUP);
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) sum += exp(load(x, row + j) - largest);
  const float share = 1 / group_sum(sum, scratch, item, ROW_GROUP);
  for (size_t j = item; j < width; j += ROW_GROUP)
    store(y, row + j, exp(load(x, row + j) - largest) * share);
}

kernel WORK_GROUP(ROW_GROUP, 1) void softmax_gradient(const global storage *dy,
                                                      const global storage *y, global storage *dx,
                                                      long width) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * (size_t)width;
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) sum += load(dy, row + j) * load(y, row + j);
  const float mean = group_sum(sum, scratch, item, ROW_GROUP);
  for (size_t j = item; j < width; j += ROW_GROUP)
    store(dx, row + j, load(y, row + j) * (load(dy, row + j) - mean));
}
