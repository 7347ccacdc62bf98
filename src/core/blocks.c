/* Products and sums are rounded one by one (the build compiles this file without contracting them),
 * as the references do. */
#include "core/blocks.h"

#include "core/half.h"

#include <math.h>
#include <string.h>

static float half_at(const unsigned char *at) {
  return ac_f16_to_float((uint16_t)(at[0] | at[1] << 8));
}

static void put_half(unsigned char *at, float value) {
  const uint16_t half = ac_f16_from_float(value);
  at[0] = (unsigned char)(half & 255);
  at[1] = (unsigned char)(half >> 8);
}

static bool all_finite(const float *x, int count) {
  bool finite = true;
  for (int i = 0; i < count; i++) finite &= isfinite(x[i]) != 0;
  return finite;
}

/* 0 of what is so small that all becomes zero. */
static float inverse(float d) {
  return d != 0 && isfinite(1 / d) ? 1 / d : 0;
}

/* ---- Q8_0 ------------------------------------------------------------------------------------ */

static void decode_q8_0(const unsigned char *block, float *to) {
  const float d = half_at(block);
  for (int i = 0; i < 32; i++) to[i] = d * (float)(int8_t)block[2 + i];
}

static float largest_magnitude(const float *x, int count) {
  float largest = 0;
  for (int i = 0; i < count; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
  return largest;
}

static void encode_q8_0(const float *x, unsigned char *block) {
  const bool finite = all_finite(x, 32);
  const float d = finite ? largest_magnitude(x, 32) / 127 : NAN, id = finite ? inverse(d) : 0;
  put_half(block, d);
  for (int i = 0; i < 32; i++) block[2 + i] = finite ? (unsigned char)(int8_t)roundf(x[i] * id) : 0;
}

/* ---- Q4_0, Q4_1 ------------------------------------------------------------------------------ */

static void decode_q4_0(const unsigned char *block, float *to) {
  const float d = half_at(block);
  const unsigned char *q = block + 2;
  for (int i = 0; i < 16; i++) {
    to[i] = d * (float)((q[i] & 15) - 8);
    to[i + 16] = d * (float)((q[i] >> 4) - 8);
  }
}

static void decode_q4_1(const unsigned char *block, float *to) {
  const float d = half_at(block), m = half_at(block + 2);
  const unsigned char *q = block + 4;
  for (int i = 0; i < 16; i++) {
    to[i] = d * (float)(q[i] & 15) + m;
    to[i + 16] = d * (float)(q[i] >> 4) + m;
  }
}

static int four_bits(double code) {
  return code < 15 ? (int)code : 15;
}

/* The element of the largest magnitude, the first of several, is -8. */
static void encode_q4_0(const float *x, unsigned char *block) {
  float largest = 0, value = 0;
  for (int i = 0; i < 32; i++)
    if (fabsf(x[i]) > largest) largest = fabsf(x[i]), value = x[i];
  const bool finite = all_finite(x, 32);
  const float d = value / -8;
  put_half(block, finite ? d : NAN);
  const float id = finite ? inverse(d) : 0;
  /* The reference's compiler contracts product and sum: they are rounded once. */
  for (int i = 0; i < 16; i++)
    block[2 + i] = finite ? (unsigned char)(four_bits((double)x[i] * (double)id + 8.5) |
                                            four_bits((double)x[i + 16] * (double)id + 8.5) << 4)
                          : 0;
}

static void encode_q4_1(const float *x, unsigned char *block) {
  float least = x[0], most = x[0];
  for (int i = 1; i < 32; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  const float d = (most - least) / 15;
  const bool finite = all_finite(x, 32) && isfinite(d);
  put_half(block, finite ? d : NAN);
  put_half(block + 2, finite ? least : NAN);
  const float id = finite ? inverse(d) : 0;
  for (int i = 0; i < 16; i++)
    block[4 + i] = finite
                       ? (unsigned char)(four_bits((double)((x[i] - least) * id + 0.5f)) |
                                         four_bits((double)((x[i + 16] - least) * id + 0.5f)) << 4)
                       : 0;
}

/* ---- NF4 ------------------------------------------------------------------------------------- */

const float ac_nf4_values[16] = {-1,
                                 -0.6961928009986877f,
                                 -0.5250730514526367f,
                                 -0.39491748809814453f,
                                 -0.28444138169288635f,
                                 -0.18477343022823334f,
                                 -0.09105003625154495f,
                                 0,
                                 0.07958029955625534f,
                                 0.16093020141124725f,
                                 0.24611230194568634f,
                                 0.33791524171829224f,
                                 0.44070982933044434f,
                                 0.5626170039176941f,
                                 0.7229568362236023f,
                                 1};

/* Code k + 1 is taken above limit k. */
static int nf4_code(float x) {
  static const float limits[15] = {
      -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
      -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
      0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
      0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};
  int code = 0;
  for (int k = 0; k < 15; k++) code += x > limits[k];
  return code;
}

static void decode_nf4(const unsigned char *block, float *to) {
  float d;
  memcpy(&d, block, sizeof d);
  const unsigned char *q = block + 4;
  for (int i = 0; i < 32; i++) {
    to[i] = d * ac_nf4_values[q[i] & 15];
    to[i + 32] = d * ac_nf4_values[q[i] >> 4];
  }
}

static void encode_nf4(const float *x, unsigned char *block) {
  const float d = all_finite(x, 64) ? largest_magnitude(x, 64) : NAN, id = inverse(d);
  memcpy(block, &d, sizeof d);
  for (int i = 0; i < 32; i++)
    block[4 + i] = (unsigned char)(nf4_code(x[i] * id) | nf4_code(x[i + 32] * id) << 4);
}

/* ---- all of them ----------------------------------------------------------------------------- */

const ac_block_format *ac_blocks_format(ac_blocks blocks) {
  static const ac_block_format formats[] = {
      [AC_BLOCKS_Q8_0] = {"Q8_0", 32, 34, decode_q8_0, encode_q8_0},
      [AC_BLOCKS_Q4_0] = {"Q4_0", 32, 18, decode_q4_0, encode_q4_0},
      [AC_BLOCKS_Q4_1] = {"Q4_1", 32, 20, decode_q4_1, encode_q4_1},
      [AC_BLOCKS_NF4] = {"NF4", 64, 36, decode_nf4, encode_nf4},
  };
  const bool known = blocks > AC_BLOCKS_NONE && blocks <= AC_BLOCKS_NF4;
  return known ? &formats[blocks] : NULL;
}

void ac_blocks_encode(ac_blocks blocks, const float *from, int64_t count, void *to) {
  const ac_block_format *format = ac_blocks_format(blocks);
  unsigned char *block = to;
  for (int64_t i = 0; i < count; i += format->elements, block += format->bytes)
    format->encode(from + i, block);
}

void ac_blocks_decode(ac_blocks blocks, const void *from, int64_t count, float *to) {
  const ac_block_format *format = ac_blocks_format(blocks);
  const unsigned char *block = from;
  for (int64_t i = 0; i < count; i += format->elements, block += format->bytes)
    format->decode(block, to + i);
}

const char *ac_blocks_name(ac_blocks blocks) {
  static const char *const names[] = {"none", "q8_0", "q4_0", "q4_1", "nf4"};
  return (unsigned)blocks <= AC_BLOCKS_NF4 ? names[blocks] : "unknown";
}

int ac_blocks_elements(ac_blocks blocks) {
  const ac_block_format *format = ac_blocks_format(blocks);
  return format ? format->elements : 0;
}

int64_t ac_blocks_bytes(ac_blocks blocks, int64_t count) {
  const ac_block_format *format = ac_blocks_format(blocks);
  return format && count > 0 && count % format->elements == 0
             ? count / format->elements * format->bytes
             : 0;
}
