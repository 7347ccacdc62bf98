/* Products and sums are rounded one by one (the build compiles this file without contracting them),
 * as the reference does. */
#include "io/blocks.h"

#include "core/half.h"

#include <string.h>

static float half_at(const unsigned char *at) {
  return ac_f16_to_float((uint16_t)(at[0] | at[1] << 8));
}

static uint32_t word_at(const unsigned char *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* ---- blocks of 32: the low half of a byte is element i, the high half element i + 16 ------------
 */

/* The fifth bit of element i is bit i of a word. */
static int five_bits(uint32_t high, const unsigned char *q, int i) {
  const int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
  return low | (int)(high >> i & 1) << 4;
}

/* d, a word, and 16 bytes. */
static void decode_q5_0(const unsigned char *block, float *to) {
  const float d = half_at(block);
  const uint32_t high = word_at(block + 2);
  for (int i = 0; i < 32; i++) to[i] = d * (float)(five_bits(high, block + 6, i) - 16);
}

/* d, m, a word, and 16 bytes. */
static void decode_q5_1(const unsigned char *block, float *to) {
  const float d = half_at(block), m = half_at(block + 2);
  const uint32_t high = word_at(block + 4);
  for (int i = 0; i < 32; i++) to[i] = d * (float)five_bits(high, block + 8, i) + m;
}

/* ---- blocks of 256 -----------------------------------------------------------------------------
 */

/* Scale and minimum of the 32 elements of part `part` of 8: 6 bits each, in 12 bytes. */
static void scale_of(const unsigned char *scales, int part, int *scale, int *minimum) {
  if (part < 4) {
    *scale = scales[part] & 63;
    *minimum = scales[part + 4] & 63;
  } else {
    *scale = (scales[part + 4] & 15) | (scales[part - 4] >> 6) << 4;
    *minimum = scales[part + 4] >> 4 | (scales[part] >> 6) << 4;
  }
}

/* d, dmin, scales, and for each 64 elements 32 bytes: low halves first, then high ones. `high`,
 * where it is not NULL, has for each of the 32 places a bit for each part. */
static void decode_parts(const unsigned char *block, const unsigned char *high,
                         const unsigned char *q, float *to) {
  const float d = half_at(block), least = half_at(block + 2);
  for (int part = 0; part < 8; part++, to += 32) {
    int scale, minimum;
    scale_of(block + 4, part, &scale, &minimum);
    const float own = d * (float)scale, below = least * (float)minimum;
    const unsigned char *bytes = q + part / 2 * 32;
    for (int i = 0; i < 32; i++) {
      const int low = part % 2 ? bytes[i] >> 4 : bytes[i] & 15;
      const int fifth = high ? (high[i] >> part & 1) << 4 : 0;
      to[i] = own * (float)(low + fifth) - below;
    }
  }
}

static void decode_q4_k(const unsigned char *block, float *to) {
  decode_parts(block, NULL, block + 16, to);
}

static void decode_q5_k(const unsigned char *block, float *to) {
  decode_parts(block, block + 16, block + 48, to);
}

/* 128 bytes of low halves, 64 of two high bits, 16 scales with a sign, each of 16 elements, and d.
 * Each 128 elements have 64 and 32 of the bytes. */
static void decode_q6_k(const unsigned char *block, float *to) {
  const unsigned char *scales = block + 192;
  const float d = half_at(block + 208);
  for (int i = 0; i < 256; i++) {
    const int half = i / 128, quarter = i % 128 / 32, place = i % 32;
    const unsigned char low = block[half * 64 + quarter % 2 * 32 + place],
                        high = block[128 + half * 32 + place];
    const int bits = (quarter < 2 ? low & 15 : low >> 4) | (high >> 2 * quarter & 3) << 4;
    to[i] = d * (float)(int8_t)scales[i / 16] * (float)(bits - 32);
  }
}

/* ggml's number of a type that parameters can have; AC_BLOCKS_NONE: it is not one. */
static ac_blocks own_blocks(uint32_t type) {
  return type == 2   ? AC_BLOCKS_Q4_0
         : type == 3 ? AC_BLOCKS_Q4_1
         : type == 8 ? AC_BLOCKS_Q8_0
                     : AC_BLOCKS_NONE;
}

const ac_block_format *ac_block_format_of(uint32_t type) {
  static const struct {
    uint32_t type;
    ac_block_format format;
  } formats[] = {
      {6, {"Q5_0", 32, 22, decode_q5_0, NULL}},    {7, {"Q5_1", 32, 24, decode_q5_1, NULL}},
      {12, {"Q4_K", 256, 144, decode_q4_k, NULL}}, {13, {"Q5_K", 256, 176, decode_q5_k, NULL}},
      {14, {"Q6_K", 256, 210, decode_q6_k, NULL}},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].type == type) return &formats[i].format;
  return ac_blocks_format(own_blocks(type));
}
