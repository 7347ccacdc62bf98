/* Results over axes of x. Kept and reduced axes are each given as up to three dimensions, the
 * innermost first: the sizes of two and the strides of all three.
 *
 * reduce_rows: a work-group of GROUP items a result. reduce_columns: 32 results a work-group of 32
 * x LANES items. The elements of a result are cut into slices of `length`; with more than one, the
 * states of slices [slices,results] wait in `parts` for reduce_join, an item a result. Which sum it
 * is, is an argument: all kernels are compiled once. y, and if it is there kept, are [results].
 *
 * reduce_gradient: dx (+)= dy times the derivative by x, an item an element. The axes of dx have
 * strides among the results, the innermost first.
 *
 * Local memory: 12 * GROUP bytes. Dtypes: x is storage, or float with X_FLOAT; dx is storage. */
#include "common.h"

#ifdef X_FLOAT
typedef float element;
#define load_element LOAD_FLOAT
#else
typedef storage element;
#define load_element load
#endif

/* As ac_reduce_kind. */
enum { SUM, ABSOLUTES, SQUARES, POWERS, MOST, LEAST, LARGEST, LOGSUMEXP, VARIANCE };

typedef struct {
  int kind;
  float divisor, power;
  float center; /* of variances: differences from it are added up, which is exact near it */
} how;

typedef struct {
  long n0, n1, s0, s1, s2;
} axes;

size_t offset_of(axes a, size_t i) {
  if (i < a.n0) return i * a.s0;
  const size_t rest = quotient(i, a.n0), last = quotient(rest, a.n1);
  return modulo(i, a.n0) * a.s0 + modulo(rest, a.n1) * a.s1 + last * a.s2;
}

/* A sum; the largest and how often it comes; the largest and the sum of e^(x - largest); the mean's
 * difference from the center, and the sum of squared differences from the mean. */
typedef struct {
  float a, b, n;
} state;

state empty(how h) {
  return (state){h.kind >= MOST && h.kind <= LOGSUMEXP ? -INFINITY : 0, 0, 0};
}

state with(how h, state s, float x) {
  switch (h.kind) {
  case SUM:
    s.a += x;
    break;
  case ABSOLUTES:
    s.a += fabs(x);
    break;
  case SQUARES:
    s.a += x * x;
    break;
  case POWERS:
    s.a += pow(fabs(x), h.power);
    break;
  case LOGSUMEXP:
    if (x > s.a) {
      s.b = s.b * exp(s.a - x) + 1;
      s.a = x;
    } else {
      s.b += x == s.a ? x > -INFINITY : exp(x - s.a);
    }
    break;
  case VARIANCE: {
    const float y = x - h.center, d = y - s.a;
    s.n += 1;
    s.a += d / s.n;
    s.b += d * (y - s.a);
    break;
  }
  default: {
    const float v = h.kind == MOST ? x : h.kind == LEAST ? -x : fabs(x);
    if (v > s.a || isnan(v)) {
      s.a = v;
      s.b = 1;
    } else if (v == s.a) {
      s.b += 1;
    }
  }
  }
  return s;
}

/* Elements of t come after those of s. */
state joined(how h, state s, state t) {
  if (h.kind < MOST) {
    s.a += t.a;
  } else if (h.kind == VARIANCE) {
    const float n = s.n + t.n, d = t.a - s.a;
    if (t.n == 0) return s;
    s.a += d * (t.n / n);
    s.b += t.b + d * d * (s.n * (t.n / n));
    s.n = n;
  } else if (s.a == t.a) {
    s.b += t.b;
  } else if (h.kind == LOGSUMEXP) {
    const bool above = t.a > s.a;
    const float shrink = exp(above ? s.a - t.a : t.a - s.a);
    s.b = above ? s.b * shrink + t.b : s.b + t.b * shrink;
    s.a = above ? t.a : s.a;
  } else if (t.a > s.a || isnan(t.a)) {
    s = t;
  }
  return s;
}

void store_result(how h, state s, global float *y, global float *kept, size_t i, int add) {
  const float result = h.kind == SUM         ? s.a / h.divisor
                       : h.kind == SQUARES   ? sqrt(s.a)
                       : h.kind == POWERS    ? pow(s.a, 1 / h.power)
                       : h.kind == LEAST     ? -s.a
                       : h.kind == LOGSUMEXP ? s.a + log(s.b)
                       : h.kind == VARIANCE  ? s.b / h.divisor
                                             : s.a;
  y[i] = add ? y[i] + result : result;
  if (kept) kept[i] = h.kind == VARIANCE ? h.center + s.a : s.b > 0 ? 1 / s.b : 0;
}

state state_of(how h, const global element *x, size_t base, axes reduced, size_t first, size_t last,
               int step) {
  state s = empty(h);
  for (size_t i = first; i < last; i += step)
    s = with(h, s, load_element(x, base + offset_of(reduced, i)));
  return s;
}

/* The center of a result is its first element. */
how how_of(int kind, float divisor, float power, const global element *x, size_t first) {
  return (how){kind, divisor, power, kind == VARIANCE ? load_element(x, first) : 0};
}

#define PARAMETERS                                                                                \
  int kind, float divisor, float power, global float *y, global float *kept, global float *parts, \
      int add, long results
#define AXES_OF(name) long name##_n0, long name##_n1, long name##_s0, long name##_s1, long name##_s2
#define AXES(name) ((axes){name##_n0, name##_n1, name##_s0, name##_s1, name##_s2})

void store_state(how h, state s, global float *y, global float *kept, global float *parts,
                 size_t at, size_t slice, size_t results, bool whole, int add) {
  if (whole) store_result(h, s, y, kept, at, add);
  else vstore3((float3)(s.a, s.b, s.n), slice * results + at, parts);
}

kernel WORK_GROUP(GROUP, 1) void reduce_rows(PARAMETERS, const global element *x, AXES_OF(outer),
                                             AXES_OF(inner), long elements, long length) {
  local state scratch[GROUP];
  const int item = get_local_id(0);
  const size_t slice = quotient(get_group_id(0), results), at = modulo(get_group_id(0), results);
  const size_t base = offset_of(AXES(outer), at);
  const how h = how_of(kind, divisor, power, x, base);
  const size_t first = slice * length, last = min(first + length, (size_t)elements);
  scratch[item] = state_of(h, x, base, AXES(inner), first + item, last, GROUP);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] = joined(h, scratch[item], scratch[item + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0)
    store_state(h, scratch[0], y, kept, parts, at, slice, results, length >= elements, add);
}

kernel WORK_GROUP(32, LANES) void reduce_columns(PARAMETERS, const global element *x,
                                                 AXES_OF(outer), AXES_OF(inner), long elements,
                                                 long length) {
  local state scratch[LANES][32];
  const int tx = get_local_id(0), lane = get_local_id(1);
  const size_t strips = (results + 31) / 32, slice = quotient(get_group_id(0), strips);
  const size_t at = modulo(get_group_id(0), strips) * 32 + tx;
  const size_t first = slice * length, last = min(first + length, (size_t)elements);
  const size_t base = offset_of(AXES(outer), at < results ? at : 0);
  const how h = how_of(kind, divisor, power, x, base);
  state s = empty(h);
  if (at < results) s = state_of(h, x, base, AXES(inner), first + lane, last, LANES);
  scratch[lane][tx] = s;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size)
      scratch[lane][tx] = joined(h, scratch[lane][tx], scratch[lane + half_size][tx]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && at < results)
    store_state(h, scratch[0][tx], y, kept, parts, at, slice, results, length >= elements, add);
}

kernel WORK_GROUP(GROUP, 1) void reduce_join(PARAMETERS, const global element *x, AXES_OF(outer),
                                             long slices) {
  const size_t at = element_id();
  if (at >= results) return;
  const how h = how_of(kind, divisor, power, x, offset_of(AXES(outer), at));
  state s = empty(h);
  for (size_t i = 0; i < slices; i++) {
    const float3 part = vload3(i * results + at, parts);
    s = joined(h, s, (state){part.x, part.y, part.z});
  }
  store_result(h, s, y, kept, at, add);
}

float signed_one(float x) {
  return (float)(x > 0) - (float)(x < 0);
}

float derived(how h, float x, float dy, float y, float kept) {
  switch (h.kind) {
  case SUM:
    return dy / h.divisor;
  case ABSOLUTES:
    return dy * signed_one(x);
  case SQUARES:
    return y == 0 ? 0 : dy * (x / y);
  case POWERS:
    return y == 0 ? 0 : dy * signed_one(x) * pow(fabs(x) / y, h.power - 1);
  case LARGEST:
    return fabs(x) == y ? dy * kept * signed_one(x) : 0;
  case LOGSUMEXP:
    return y == -INFINITY ? 0 : dy * exp(x - y);
  case VARIANCE:
    return dy * (2 * (x - kept) / h.divisor);
  default:
    return x == y ? dy * kept : 0;
  }
}

kernel WORK_GROUP(GROUP, 1) void reduce_gradient(int kind, float divisor, float power,
                                                 const global float *dy, const global element *x,
                                                 const global float *y, const global float *kept,
                                                 global storage *dx, int add, long n, long n0,
                                                 long n1, long n2, long n3, long n4, long s0,
                                                 long s1, long s2, long s3, long s4, long s5) {
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
  const float value = derived((how){kind, divisor, power, 0}, x ? load_element(x, i) : 0, dy[at],
                              y ? y[at] : 0, kept ? kept[at] : 0);
  store(dx, i, add ? load(dx, i) + value : value);
}
