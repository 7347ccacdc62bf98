/* numerics: counts[0] (+)= elements that are not finite, counts[1] (+)= elements that are -0, which
 * is how stores to f16 mark what they flushed to zero; counts stop at INT_MAX. One work-group of
 * GROUP items goes over all of x; local memory 16 * GROUP bytes. It is for looking, not for speed.
 * Dtypes: storage; counts int. */
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

kernel WORK_GROUP(GROUP, 1) void numerics(const global BITS *x, global int *counts, long n,
                                          int add) {
  local long overflowed[GROUP], flushed[GROUP];
  const int item = get_local_id(0);
  long bad = 0, marked = 0;
  for (size_t i = item; i < n; i += GROUP) {
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
    counts[0] = (int)min(overflowed[0] + (add ? counts[0] : 0), (long)INT_MAX);
    counts[1] = (int)min(flushed[0] + (add ? counts[1] : 0), (long)INT_MAX);
  }
}
