/* softmax over rows of `width`: y = exp(x - max) / sum; dx = y (dy - sum(dy y)); or its logarithm:
 * y = x - max - log(sum); dx = dy - exp(y) sum(dy). In place allowed. A work-group of ROW_GROUP
 * items a row; local memory 4 * ROW_GROUP bytes. _columns: the same over the rows of matrices
 * [length, inner], 32 columns a work-group of 32 x LANES; local memory 128 * LANES bytes. Dtypes:
 * storage. */
#include "common.h"

#ifdef ROW_GROUP
kernel WORK_GROUP(ROW_GROUP, 1) void softmax(const global storage *x, global storage *y, long width,
                                             int logarithm) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * (size_t)width;
  float largest = -INFINITY;
  for (size_t j = item; j < width; j += ROW_GROUP) largest = fmax(largest, load(x, row + j));
  largest = group_max(largest, scratch, item, ROW_GROUP);
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP) sum += exp(load(x, row + j) - largest);
  const float all = group_sum(sum, scratch, item, ROW_GROUP), share = 1 / all, shift = log(all);
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float below = load(x, row + j) - largest;
    store(y, row + j, logarithm ? below - shift : exp(below) * share);
  }
}

kernel WORK_GROUP(ROW_GROUP, 1) void softmax_gradient(const global storage *dy,
                                                      const global storage *y, global storage *dx,
                                                      long width, int logarithm) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * (size_t)width;
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP)
    sum += load(dy, row + j) * (logarithm ? 1 : load(y, row + j));
  const float mean = group_sum(sum, scratch, item, ROW_GROUP);
  for (size_t j = item; j < width; j += ROW_GROUP) {
    const float v = load(y, row + j), g = load(dy, row + j);
    store(dx, row + j, logarithm ? g - exp(v) * mean : v * (g - mean));
  }
}
#else
/* The largest over the lanes of a column; like lane_sum. */
float lane_max(float v, local float (*scratch)[32]) {
  const int tx = get_local_id(0), lane = get_local_id(1);
  scratch[lane][tx] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size)
      scratch[lane][tx] = fmax(scratch[lane][tx], scratch[lane + half_size][tx]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  v = scratch[0][tx];
  barrier(CLK_LOCAL_MEM_FENCE);
  return v;
}

/* The column of an item, and where it begins. */
typedef struct {
  size_t begin, end;
  bool is;
} column;

column find_column(long length, long inner) {
  const size_t across = (inner + 31) / 32, group = get_group_id(0);
  const size_t at = modulo(group, across) * 32 + get_local_id(0);
  const size_t begin = quotient(group, across) * length * inner + at;
  return (column){begin, begin + length * inner, at < inner};
}

kernel WORK_GROUP(32, LANES) void softmax_columns(const global storage *x, global storage *y,
                                                  long length, long inner, int logarithm) {
  local float scratch[LANES][32];
  const column c = find_column(length, inner);
  const size_t first = c.is ? c.begin + get_local_id(1) * inner : c.end, step = LANES * inner;
  float largest = -INFINITY, sum = 0;
  for (size_t i = first; i < c.end; i += step) largest = fmax(largest, load(x, i));
  largest = lane_max(largest, scratch);
  for (size_t i = first; i < c.end; i += step) sum += exp(load(x, i) - largest);
  const float all = lane_sum(sum, scratch), share = 1 / all, shift = log(all);
  for (size_t i = first; i < c.end; i += step) {
    const float below = load(x, i) - largest;
    store(y, i, logarithm ? below - shift : exp(below) * share);
  }
}

kernel WORK_GROUP(32, LANES) void softmax_columns_gradient(const global storage *dy,
                                                           const global storage *y,
                                                           global storage *dx, long length,
                                                           long inner, int logarithm) {
  local float scratch[LANES][32];
  const column c = find_column(length, inner);
  const size_t first = c.is ? c.begin + get_local_id(1) * inner : c.end, step = LANES * inner;
  float sum = 0;
  for (size_t i = first; i < c.end; i += step) sum += load(dy, i) * (logarithm ? 1 : load(y, i));
  const float mean = lane_sum(sum, scratch);
  for (size_t i = first; i < c.end; i += step) {
    const float v = load(y, i), g = load(dy, i);
    store(dx, i, logarithm ? g - exp(v) * mean : v * (g - mean));
  }
}
#endif
