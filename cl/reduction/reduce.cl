/* Results over axes of x. Kept and reduced axes are each given as up to three dimensions, the
 * innermost first: the sizes of two and the strides of all three.
 *
 * reduce_rows: a work-group of GROUP items a result. reduce_columns: 32 results a work-group of 32
 * x LANES items. The elements of a result are cut into slices of `length`; with more than one, the
 * states of slices [slices,results] wait in `parts` for reduce_join, an item a result.
 *
 * reduce_gradient: dx (+)= what dy gives, an item an element; `results` are the axes of dx with
 * strides among the results, the innermost first.
 *
 * Local memory: 8 * GROUP bytes. Dtypes: x is storage, or float with X_FLOAT; dx is storage. */
#include "common.h"

#ifdef X_FLOAT
typedef float element;
#define load_element LOAD_FLOAT
#else
typedef storage element;
#define load_element load
#endif

typedef struct {
  long n0, n1, s0, s1, s2;
} axes;

size_t offset_of(axes a, size_t i) {
  if (a.n1 == 1 && i < a.n0) return i * a.s0;
  const size_t rest = quotient(i, a.n0), last = quotient(rest, a.n1);
  return modulo(i, a.n0) * a.s0 + modulo(rest, a.n1) * a.s1 + last * a.s2;
}

typedef struct {
  float a, b;
} state;

state state_of(const global element *x, size_t base, axes reduced, size_t first, size_t last,
               int step) {
  state s = {0, 0};
  for (size_t i = first; i < last; i += step) s.a += load_element(x, base + offset_of(reduced, i));
  return s;
}

state joined(state s, state other) {
  s.a += other.a;
  return s;
}

float result_of(state s, float divisor) {
  return s.a / divisor;
}

void store_result(global float *y, size_t i, state s, float divisor, int add) {
  const float result = result_of(s, divisor);
  y[i] = add ? y[i] + result : result;
}

#define AXES_ARGUMENTS(name) \
  long name##_n0, long name##_n1, long name##_s0, long name##_s1, long name##_s2
#define AXES(name) ((axes){name##_n0, name##_n1, name##_s0, name##_s1, name##_s2})

kernel WORK_GROUP(GROUP, 1) void reduce_rows(const global element *x, global float *y,
                                             global float2 *parts, AXES_ARGUMENTS(kept),
                                             AXES_ARGUMENTS(reduced), long results, long elements,
                                             long length, float divisor, int add) {
  local state scratch[GROUP];
  const int item = get_local_id(0);
  const size_t slice = quotient(get_group_id(0), results), at = modulo(get_group_id(0), results);
  const size_t first = slice * length, last = min(first + length, (size_t)elements);
  scratch[item] = state_of(x, offset_of(AXES(kept), at), AXES(reduced), first + item, last, GROUP);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] = joined(scratch[item], scratch[item + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item > 0) return;
  if (length < elements) parts[slice * results + at] = (float2)(scratch[0].a, scratch[0].b);
  else store_result(y, at, scratch[0], divisor, add);
}

kernel WORK_GROUP(32, LANES) void reduce_columns(const global element *x, global float *y,
                                                 global float2 *parts, AXES_ARGUMENTS(kept),
                                                 AXES_ARGUMENTS(reduced), long results,
                                                 long elements, long length, float divisor,
                                                 int add) {
  local state scratch[LANES][32];
  const int tx = get_local_id(0), lane = get_local_id(1);
  const size_t strips = (results + 31) / 32, slice = quotient(get_group_id(0), strips);
  const size_t at = modulo(get_group_id(0), strips) * 32 + tx;
  const size_t first = slice * length, last = min(first + length, (size_t)elements);
  state s = {0, 0};
  if (at < results)
    s = state_of(x, offset_of(AXES(kept), at), AXES(reduced), first + lane, last, LANES);
  scratch[lane][tx] = s;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size)
      scratch[lane][tx] = joined(scratch[lane][tx], scratch[lane + half_size][tx]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane > 0 || at >= results) return;
  s = scratch[0][tx];
  if (length < elements) parts[slice * results + at] = (float2)(s.a, s.b);
  else store_result(y, at, s, divisor, add);
}

kernel WORK_GROUP(GROUP, 1) void reduce_join(const global float2 *parts, global float *y,
                                             long results, long slices, float divisor, int add) {
  const size_t at = element_id();
  if (at >= results) return;
  state s = {parts[at].x, parts[at].y};
  for (size_t i = 1; i < slices; i++) {
    const float2 part = parts[i * results + at];
    s = joined(s, (state){part.x, part.y});
  }
  store_result(y, at, s, divisor, add);
}

kernel WORK_GROUP(GROUP, 1) void reduce_gradient(const global float *dy, global storage *dx, long n,
                                                 long n0, long n1, long n2, long n3, long n4,
                                                 long s0, long s1, long s2, long s3, long s4,
                                                 long s5, float divisor, int add) {
  const size_t i = element_id();
  if (i >= n) return;
  const long dim[] = {n0, n1, n2, n3, n4}, stride[] = {s0, s1, s2, s3, s4};
  size_t at = 0, rest = i;
  for (int k = 0; k < 5; k++) {
    if (rest == 0) break;
    at += modulo(rest, dim[k]) * stride[k];
    rest = quotient(rest, dim[k]);
  }
  at += rest * s5;
  const float value = dy[at] / divisor;
  store(dx, i, add ? load(dx, i) + value : value);
}
