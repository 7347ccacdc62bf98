/* numerics: counts[0] += elements that are not finite, counts[1] += elements that are -0, which is
 * how stores to f16 mark what they flushed to zero; counts stop at INT_MAX. Some work-groups of
 * GROUP items go over x; local memory 16 * GROUP bytes. Dtypes: storage; counts int. */
#include "common.h"

#if defined(STORAGE_F16)
#define BITS ushort
#define EXPONENT 0x7c00u
#define MARK 0x8000u
#elif defined(STORAGE_BF16)
#define BITS ushort
#define EXPONENT 0x7f80u
#else
#define BITS uint
#define EXPONENT 0x7f800000u
#endif

/* Whole numbers, so that the order in which groups add theirs changes nothing. */
void add_count(volatile global int *count, long found) {
  if (found == 0) return;
  for (int before = 0, seen;; before = seen) { /* a guess at first, as only atomics may read it */
    seen = atomic_cmpxchg(count, before, (int)min(before + found, (long)INT_MAX));
    if (seen == before) return;
  }
}

kernel WORK_GROUP(GROUP, 1) void numerics(const global BITS *x, global int *counts, long n) {
  local long overflowed[GROUP], flushed[GROUP];
  const int item = get_local_id(0);
  long bad = 0, marked = 0;
  for (size_t i = element_id(); i < n; i += get_global_size(0)) {
    const uint bits = x[i];
    bad += (bits & EXPONENT) == EXPONENT;
#if defined(MARK)
    marked += bits == MARK;
#endif
  }
  overflowed[item] = bad;
  flushed[item] = marked;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) {
      overflowed[item] += overflowed[item + half_size];
      flushed[item] += flushed[item + half_size];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) {
    add_count(&counts[0], overflowed[0]);
    add_count(&counts[1], flushed[0]);
  }
}
