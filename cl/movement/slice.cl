/* slice: y[i, j, ...] = x[first[0] + i step[0], first[1] + j step[1], ...], also beyond the ends of
 * x: there is `value` (`stored`, as bits), or x reflected, or its last element, as `outside` says
 * (ops/movement/slice.h). One work-item an element of y. Elements are moved as they are stored
 * unless they are added.
 *
 * slice_gradient: dx[j] (+)= the sum of dy[i] over all i that were taken from j, for each axis in
 * the order of i. One work-item an element of dx.
 *
 * Axes come with the last one first, before them those of `inner` elements that are taken together.
 * Groups of GROUP. Dtypes: storage; for slice also integers in its place. */
#include "movement/bits.h"

enum { VALUE, REFLECTED, EDGE };

/* The index in x of an index of y; -1: outside. */
long index_of(long i, long whole, long first, long step, int outside) {
  const long at = first + i * step;
  if (at >= 0 && at < whole) return at;
  if (outside == VALUE) return -1;
  if (outside == EDGE) return at < 0 ? 0 : whole - 1;
  return at < 0 ? -at : 2 * (whole - 1) - at;
}

#define AXIS(k)                                                                                    \
  if (rank > k) {                                                                                  \
    const size_t next = quotient(rest, part.s##k);                                                 \
    const long at = index_of(rest - next * part.s##k, whole.s##k, first.s##k, step.s##k, outside); \
    within = within && at >= 0;                                                                    \
    from += at * stride;                                                                           \
    stride *= whole.s##k;                                                                          \
    rest = next;                                                                                   \
  }

kernel WORK_GROUP(GROUP, 1) void slice(const global storage *x, global storage *y, long n,
                                       long inner, int rank, long8 whole, long8 part, long8 first,
                                       long8 step, int outside, float value, uint stored, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  size_t rest = quotient(e, inner);
  long from = e - rest * inner, stride = inner;
  bool within = true;
  AXIS(0)
  AXIS(1)
  AXIS(2)
  AXIS(3)
  AXIS(4)
  AXIS(5)
  if (add) store(y, e, load(y, e) + (within ? load(x, from) : value));
  else ((global bits *)y)[e] = within ? ((const global bits *)x)[from] : (bits)stored;
}

/* The next index of the part, from i on, that was taken from index j; the part's length: none. */
long next_taken(long j, long i, long whole, long part, long first, long step, int outside) {
  if (step != 1) {
    const long at = (j - first) / step;
    return at >= i && at < part && first + at * step == j ? at : part;
  }
  for (; i < part; i++) {
    const long at = first + i;
    if (at < 0 || at >= whole) {
      if (index_of(i, whole, first, step, outside) == j) return i;
    } else if (j >= at) {
      return min(part, j - first);
    } else {
      i = whole - first - 1;
    }
  }
  return part;
}

/* Index of dx along an axis, and a loop over what was taken from it. */
#define INDEX(k)                                    \
  long j##k = 0;                                    \
  if (rank > k) {                                   \
    const size_t next = quotient(rest, whole.s##k); \
    j##k = rest - next * whole.s##k;                \
    rest = next;                                    \
  }
#define TAKEN(k, i) next_taken(j##k, i, whole.s##k, part.s##k, first.s##k, step.s##k, outside)
#define EACH(k) for (long i##k = TAKEN(k, 0); i##k < part.s##k; i##k = TAKEN(k, i##k + 1))

kernel WORK_GROUP(GROUP, 1) void slice_gradient(const global storage *dy, global storage *dx,
                                                long n, long inner, int rank, long8 whole,
                                                long8 part, long8 first, long8 step, int outside,
                                                int add) {
  const size_t e = element_id();
  if (e >= n) return;
  size_t rest = quotient(e, inner);
  const long c = e - rest * inner;
  INDEX(0)
  INDEX(1)
  INDEX(2)
  INDEX(3)
  INDEX(4)
  INDEX(5)
  float sum = 0;
  EACH(5)
  EACH(4)
  EACH(3)
  EACH(2)
  EACH(1)
  EACH(0)
  sum += load(
      dy, ((((((i5 * part.s4 + i4) * part.s3 + i3) * part.s2 + i2) * part.s1 + i1) * part.s0 + i0) *
               inner +
           c));
  store(dx, e, add ? load(dx, e) + sum : sum);
}
