/* Floats kept in 8 bits, in blocks of 256 with a scale of their own: block-wise dynamic
 * quantisation (Dettmers et al., arXiv 2110.02861). A block is 256 codes and behind them its
 * largest magnitude as a float, which the values of its codes are multiplied with; the last block
 * of a tensor is whole. cl/eight_bit.h holds the same functions for OpenCL.
 *
 * Codes are denser near zero. With e = floor(log2 y) and N = 2^e, a position y has the value
 *
 *   unit(y) (0.1 + 0.9 (y - N + 1/2) / N)       unit: 10^(e - 6) signed, 10^(e - 7) unsigned
 *
 *   signed    position 0 to 128; 0 is zero and 128 is one. Code 127 + position, or 127 - position
 *             of a negative value, for which there is no 128
 *   unsigned  position 1 to 256; 1 is zero and 256 is one. Code position - 1
 *
 * so values are the middles of N equal parts of each decade, as there. A value is rounded to the
 * nearest one, but unsigned ones, which are denominators, to no zero unless they are zero: from a
 * second moment that was lost the next step would be too large.
 *
 * Loops over these functions vectorise: nothing in them branches. */
#ifndef AC_CORE_EIGHT_BIT_H
#define AC_CORE_EIGHT_BIT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { AC_EIGHT_BIT_BLOCK = 256, AC_EIGHT_BIT_BYTES = AC_EIGHT_BIT_BLOCK + sizeof(float) };

static inline int64_t ac_eight_bit_blocks(int64_t count) {
  return (count + AC_EIGHT_BIT_BLOCK - 1) / AC_EIGHT_BIT_BLOCK;
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

/* Of a position in (0, `one`), where the value is one. */
static inline float ac_eight_bit_value(float position, float one) {
  uint32_t bits;
  float parts; /* N */
  memcpy(&bits, &position, sizeof bits);
  bits &= 0x7f800000u;
  memcpy(&parts, &bits, sizeof parts);
  const float unit = ac_eight_bit_unit(position * (128 / one));
  const float value = unit * (0.1f + 0.9f * ((position - parts + 0.5f) / parts));
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

/* The position of a magnitude in [0, 1]. Decades meet half-way between their outermost values:
 * unit (0.1 + 0.18 / N) from the one above. `half` is 1 for signed codes, 2 for unsigned. */
static inline float ac_eight_bit_position(float x, float half) {
  float parts = half, slope = half * (1e6f / 0.9f);
#define AC_EIGHT_BIT_DECADE(n, unit)                            \
  {                                                             \
    const bool above = x >= unit * (0.1f + 0.18f / (n * half)); \
    parts = above ? n * half : parts;                           \
    slope = above ? n * half / (0.9f * unit) : slope;           \
  }
  AC_EIGHT_BIT_DECADE(2, 1e-5f)
  AC_EIGHT_BIT_DECADE(4, 1e-4f)
  AC_EIGHT_BIT_DECADE(8, 1e-3f)
  AC_EIGHT_BIT_DECADE(16, 1e-2f)
  AC_EIGHT_BIT_DECADE(32, 1e-1f)
  AC_EIGHT_BIT_DECADE(64, 1.0f)
#undef AC_EIGHT_BIT_DECADE
  const float part = x * slope - parts / 9;
  const float whole = (float)(int32_t)(part < 0 ? 0 : part > parts - 1 ? parts - 1 : part);
  return x >= 1 - 0.225f / (64 * half) ? 128 * half : parts + whole;
}

static inline uint8_t ac_eight_bit_encode(float x, bool is_signed) {
  if (is_signed) {
    const float magnitude = fabsf(x);
    float position = ac_eight_bit_position(magnitude, 1);
    position = magnitude < 1e-6f * 0.275f ? 0 : position;
    position = x < 0 ? -fminf(position, 127) : position;
    return (uint8_t)(int32_t)(position + 127);
  }
  const float position = x > 0 ? ac_eight_bit_position(x, 2) : 1;
  return (uint8_t)(int32_t)(position - 1);
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
static inline void ac_eight_bit_store(uint8_t *block, bool is_signed,
                                      const float values[AC_EIGHT_BIT_BLOCK]) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++)
    largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
  largest = largest > 0x1p126f ? 0x1p126f : largest < 0x1p-126f ? 0 : largest;
  const float inverse = largest > 0 ? 1 / largest : 0;
#pragma omp simd
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i++) {
    const float x = values[i] * inverse;
    block[i] = ac_eight_bit_encode(x > 1 ? 1 : x < -1 ? -1 : x, is_signed);
  }
  memcpy(block + AC_EIGHT_BIT_BLOCK, &largest, sizeof largest);
}

#endif
