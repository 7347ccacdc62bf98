/* Floats kept in 8 bits, in blocks of 256 with a scale of their own: block-wise dynamic
 * quantisation (Dettmers et al., arXiv 2110.02861). A block is 256 codes, followed by its scale:
 * the largest magnitude, as a float in the host's byte order. The values of its codes are
 * multiplied with it. The last block of a tensor is whole. cl/update/eight_bit.h and
 * backend/cpu/update/eight_bit.h find the same codes by tables.
 *
 * Codes are denser near zero. With e = floor(log2 y) and N = 2^e, a position y has the value
 *
 *   unit(y) (0.1 + 0.9 (y - N + 1/2) / N)       unit: 10^(e - 6) signed, 10^(e - 7) unsigned
 *
 *   signed    position 0 to 128; 0 is zero and 128 is one. Code 127 + position, or 127 - position
 *             of a negative value, for which there is no 128
 *   unsigned  position 1 to 256; 1 is zero and 256 is one. Code position - 1
 *
 * so values are the middles of N equal parts of each decade, as in the paper. A value is rounded to
 * the nearest one. Unsigned values are denominators, so they become zero only if they are zero when
 * divided by the scale: if a second moment were lost, the next update would be too large.
 *
 * Loops over these functions vectorise: nothing in them branches. */
#ifndef AC_CORE_EIGHT_BIT_H
#define AC_CORE_EIGHT_BIT_H

#include "core/half.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { AC_EIGHT_BIT_BLOCK = 256, AC_EIGHT_BIT_BYTES = AC_EIGHT_BIT_BLOCK + sizeof(float) };

static inline int64_t ac_eight_bit_blocks(int64_t count) {
  return (count + AC_EIGHT_BIT_BLOCK - 1) / AC_EIGHT_BIT_BLOCK;
}

/* The code of zero. */
static inline uint8_t ac_eight_bit_zero(bool is_signed) {
  return is_signed ? 127 : 0;
}

/* The unit of a position of a signed code, or of half that position of an unsigned one. */
static inline float ac_eight_bit_unit(float position) {
  float unit = 1e-6f;
  unit = position >= 2 ? 1e-5f : unit;
  unit = position >= 4 ? 1e-4f : unit;
  unit = position >= 8 ? 1e-3f : unit;
  unit = position >= 16 ? 1e-2f : unit;
  unit = position >= 32 ? 1e-1f : unit;
  return position >= 64 ? 1 : unit;
}

/* The value of a position in (0, `one`); position `one` has the value one. */
static inline float ac_eight_bit_value(float position, float one) {
  const uint32_t parts = ac_float_bits(position) & 0x7f800000u; /* N, a power of two */
  const float reciprocal = ac_float_from_bits(0x7f000000u - parts);
  const float unit = ac_eight_bit_unit(position * (128 / one));
  const float value =
      unit * (0.1f + 0.9f * ((position - ac_float_from_bits(parts) + 0.5f) * reciprocal));
  return position >= one ? 1 : value;
}

static inline float ac_eight_bit_decode(uint8_t code, bool is_signed) {
  if (is_signed) {
    const float position = (float)code - 127;
    const float value = ac_eight_bit_value(fabsf(position), 128);
    return position == 0 ? 0 : copysignf(value, position);
  }
  const float position = (float)code + 1;
  return position == 1 ? 0 : ac_eight_bit_value(position, 256);
}

static inline float ac_eight_bit_min(float a, float b) {
  return a < b ? a : b;
}

static inline float ac_eight_bit_max(float a, float b) {
  return a > b ? a : b;
}

/* The position of a magnitude. Decades meet half-way between their outermost values:
 * unit (0.1 + 0.18 / N) from the one above. `half` is 1 for signed codes, 2 for unsigned. Selects
 * are of bits and the last step, to one, is a sum: compilers make branches of these otherwise. */
static inline float ac_eight_bit_position(float x, float half) {
  uint32_t parts = ac_float_bits(half), slope;
#define AC_EIGHT_BIT_SLOPE(n, unit) ac_float_bits((n)*half / (0.9f * (unit)))
  slope = AC_EIGHT_BIT_SLOPE(1.0f, 1e-6f);
#define AC_EIGHT_BIT_DECADE(n, unit, unit_before)                                              \
  {                                                                                            \
    const uint32_t above = 0u - (uint32_t)(x >= (unit) * (0.1f + 0.18f / ((n)*half)));         \
    parts += above & 1u << 23;                                                                 \
    slope ^= above & (AC_EIGHT_BIT_SLOPE(n, unit) ^ AC_EIGHT_BIT_SLOPE((n) / 2, unit_before)); \
  }
  AC_EIGHT_BIT_DECADE(2.0f, 1e-5f, 1e-6f)
  AC_EIGHT_BIT_DECADE(4.0f, 1e-4f, 1e-5f)
  AC_EIGHT_BIT_DECADE(8.0f, 1e-3f, 1e-4f)
  AC_EIGHT_BIT_DECADE(16.0f, 1e-2f, 1e-3f)
  AC_EIGHT_BIT_DECADE(32.0f, 1e-1f, 1e-2f)
  AC_EIGHT_BIT_DECADE(64.0f, 1.0f, 1e-1f)
#undef AC_EIGHT_BIT_DECADE
#undef AC_EIGHT_BIT_SLOPE
  const float whole = ac_float_from_bits(parts);
  const float part = x * ac_float_from_bits(slope) - whole * (1 / 9.0f);
  const float least = ac_eight_bit_max(part, 0), most = ac_eight_bit_min(least, whole - 1);
  return whole + (float)((int32_t)most + (x >= 1 - 0.225f / (64 * half)));
}

/* The code of a value in [-1, 1], or in [0, 1] without signs. A value outside counts as the nearest
 * end. */
static inline uint8_t ac_eight_bit_encode(float x, bool is_signed) {
  const float magnitude = fabsf(x), half = is_signed ? 1 : 2;
  const bool some = is_signed ? magnitude >= 1e-6f * 0.275f : ac_float_bits(magnitude) != 0;
  const float position = ac_eight_bit_position(magnitude, half) * (float)(int32_t)some;
  if (!is_signed) return (uint8_t)((int32_t)ac_eight_bit_max(position, 1) - 1);
  const float most = 127.5f + copysignf(0.5f, x);
  return (uint8_t)((int32_t)copysignf(ac_eight_bit_min(position, most), x) + 127);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static inline void ac_eight_bit_load(const uint8_t *block, bool is_signed,
                                     float values[AC_EIGHT_BIT_BLOCK]) {
  float scale;
  memcpy(&scale, block + AC_EIGHT_BIT_BLOCK, sizeof scale);
#pragma omp simd
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++)
    values[i] = ac_eight_bit_decode(block[i], is_signed) * scale;
}

/* Scales are such that they and their reciprocals are normal: what is larger becomes 2^126, and a
 * block of less than 2^-126 zero. */
static inline float ac_eight_bit_scale(float largest) {
  return largest > 0x1p126f ? 0x1p126f : largest < 0x1p-126f ? 0 : largest;
}

static inline void ac_eight_bit_store(uint8_t *block, bool is_signed,
                                      const float values[AC_EIGHT_BIT_BLOCK]) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++)
    largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
  largest = ac_eight_bit_scale(largest);
  const float inverse = largest > 0 ? 1 / largest : 0;
#pragma omp simd
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++) {
    block[i] = ac_eight_bit_encode(values[i] * inverse, is_signed);
  }
  memcpy(block + AC_EIGHT_BIT_BLOCK, &largest, sizeof largest);
}

#endif
