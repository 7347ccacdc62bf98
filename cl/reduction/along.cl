/* Ops along an axis of x [outer, length, inner].
 *
 * argmax: 32 results a work-group of 32 x LANES items; local memory 256 * LANES bytes.
 * cumulative_columns: an item a column, one element after the other, groups of GROUP.
 * cumulative_rows: a work-group of GROUP items a row, GROUP elements at a time; local memory 4 *
 * GROUP bytes.
 * top_k: a work-group of GROUP items a row, which finds the largest element that comes after the
 * last one, k times; local memory 8 * GROUP bytes. top_k_gradient: an item an element of dy.
 *
 * Dtypes: storage. */
#include "common.h"

/* Whether a at place i comes before b at place j: NaNs, then larger ones, then those in front. */
bool is_before(float a, size_t i, float b, size_t j) {
  if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || i < j);
  return a > b || (a == b && i < j);
}

kernel WORK_GROUP(32, LANES) void argmax(const global storage *x, global int *ids, long length,
                                         long inner, long results) {
  local float values[LANES][32];
  local uint places[LANES][32];
  const int tx = get_local_id(0), lane = get_local_id(1);
  const size_t at = get_group_id(0) * (size_t)32 + tx;
  const size_t base = quotient(at, inner) * length * inner + modulo(at, inner);
  float best = -INFINITY;
  uint place = length;
  if (at < results)
    for (size_t i = lane; i < length; i += LANES) {
      const float v = load(x, base + i * inner);
      if (!is_before(v, i, best, place)) continue;
      best = v;
      place = i;
    }
  values[lane][tx] = best;
  places[lane][tx] = place;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size) {
      const float v = values[lane + half_size][tx];
      const uint i = places[lane + half_size][tx];
      if (is_before(v, i, values[lane][tx], places[lane][tx])) {
        values[lane][tx] = v;
        places[lane][tx] = i;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && at < results) ids[at] = places[0][tx];
}

kernel WORK_GROUP(GROUP, 1) void cumulative_columns(const global storage *x, global storage *y,
                                                    long length, long inner, long columns,
                                                    int reversed) {
  const size_t at = element_id();
  if (at >= columns) return;
  const size_t base = quotient(at, inner) * length * inner + modulo(at, inner);
  float sum = 0;
  for (size_t i = 0; i < length; i++) {
    const size_t k = base + (reversed ? length - 1 - i : i) * inner;
    sum += load(x, k);
    store(y, k, sum);
  }
}

kernel WORK_GROUP(GROUP, 1) void cumulative_rows(const global storage *x, global storage *y,
                                                 long length, int reversed) {
  local float scratch[GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0) * (size_t)length;
  float before = 0;
  for (size_t first = 0; first < length; first += GROUP) {
    const size_t i = first + item, k = row + (reversed ? length - 1 - i : i);
    scratch[item] = i < length ? load(x, k) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int distance = 1; distance < GROUP; distance *= 2) {
      const float more = item >= distance ? scratch[item - distance] : 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      scratch[item] += more;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < length) store(y, k, before + scratch[item]);
    before += scratch[GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

kernel WORK_GROUP(GROUP, 1) void top_k(const global storage *x, global storage *y, global int *ids,
                                       long columns, long k) {
  local float values[GROUP];
  local uint places[GROUP];
  const int item = get_local_id(0);
  const size_t row = get_group_id(0);
  const global storage *elements = x + row * columns;
  float last = 0;
  uint last_place = 0;
  for (long m = 0; m < k; m++) {
    float best = -INFINITY;
    uint place = columns;
    for (size_t i = item; i < columns; i += GROUP) {
      const float v = load(elements, i);
      if (m > 0 && !is_before(last, last_place, v, i)) continue;
      if (!is_before(v, i, best, place)) continue;
      best = v;
      place = i;
    }
    values[item] = best;
    places[item] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
      if (item < half_size && is_before(values[item + half_size], places[item + half_size],
                                        values[item], places[item])) {
        values[item] = values[item + half_size];
        places[item] = places[item + half_size];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    last = values[0];
    last_place = places[0];
    if (item == 0) {
      store(y, row * k + m, last);
      ids[row * k + m] = last_place;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

kernel WORK_GROUP(GROUP, 1) void top_k_gradient(const global storage *dy, const global int *ids,
                                                global storage *dx, long n, long k, long columns,
                                                int add) {
  const size_t i = element_id();
  if (i >= n) return;
  const size_t at = quotient(i, k) * columns + ids[i];
  store(dx, at, load(dy, i) + (add ? load(dx, at) : 0));
}
