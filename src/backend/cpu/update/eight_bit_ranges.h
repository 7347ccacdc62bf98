/* What vectors of codes of 8 bits (eight_bit.h) share. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_RANGES_H
#define AC_BACKEND_CPU_EIGHT_BIT_RANGES_H

#include "core/eight_bit.h"

/* The ranges of magnitudes are: what becomes zero (signed only), seven decades, and what becomes
 * one. */
enum { EIGHT_BIT_RANGES = 9, EIGHT_BIT_ONE = EIGHT_BIT_RANGES - 1 };

/* Where a range ends. */
static inline float eight_bit_border(int range, bool is_signed) {
  const float half = is_signed ? 1 : 2;
  if (range == 0) return 1e-6f * 0.275f; /* half of the first value */
  if (range == EIGHT_BIT_ONE - 1) return 1 - 0.225f / (64 * half);
  return powf(10, (float)(range - 6)) * (0.1f + 0.18f / ((float)(1 << range) * half));
}

/* What is larger than the largest scale is cut to it, to be stored as one. */
static inline void eight_bit_cut(float most, float values[AC_EIGHT_BIT_BLOCK]) {
  const float scale = ac_eight_bit_scale(most);
  if (most > scale)
    for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++)
      values[i] = values[i] > scale ? scale : values[i] < -scale ? -scale : values[i];
}

#endif
