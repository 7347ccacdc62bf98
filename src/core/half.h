/* The 16-bit storage types, one value at a time: f16 is IEEE 754 binary16, bf16 the upper half of a
 * float. Conversions to them round to nearest even, keep infinities and NaNs (quieted) and make
 * what is too large infinite; those from them are exact. They use plain integer arithmetic, so that
 * every machine gives the same bits. All other conversions must give these bits. */
#ifndef AC_CORE_HALF_H
#define AC_CORE_HALF_H

#include <accrue/base.h>
#include <string.h>

static inline uint32_t ac_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float ac_float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float ac_bf16_to_float(uint16_t half) {
  return ac_float_from_bits((uint32_t)half << 16);
}

static inline uint16_t ac_bf16_from_float(float value) {
  uint32_t bits = ac_float_bits(value), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  bool nan = (int32_t)(bits & 0x7fffffffu) > 0x7f800000; /* as vectors compare */
  return (uint16_t)((nan ? bits | 0x400000u : rounded) >> 16);
}

/* Rounded up as often as it is near the upper neighbour: `bits`, 16 of them, are random. Infinities
 * and NaNs are kept. */
static inline uint16_t ac_bf16_by_chance(float value, uint32_t bits) {
  const uint32_t own = ac_float_bits(value);
  const bool nan = (int32_t)(own & 0x7fffffffu) > 0x7f800000;
  return (uint16_t)((nan ? own | 0x400000u : own + bits) >> 16);
}

static inline float ac_f16_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) { /* infinity, or a NaN, which is quieted as hardware does */
    uint32_t quiet = rest > 0x7c00u ? 0x400000u : 0;
    return ac_float_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | quiet);
  }
  if (rest >= 0x400u) return ac_float_from_bits(sign | ((rest << 13) + (112u << 23)));
  float small = (float)rest * 0x1p-24f; /* zero and subnormals, exactly */
  return ac_float_from_bits(sign | ac_float_bits(small));
}

static inline uint16_t ac_f16_from_float(float value) {
  uint32_t bits = ac_float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on */
  if (rest >= 0x38800000u) {                                  /* normal: from 2^-14 on */
    uint32_t even = rest >> 13 & 1u;
    return (uint16_t)(sign | (rest - (112u << 23) + 0xfffu + even) >> 13);
  }
  if (rest <= 0x33000000u) return (uint16_t)sign; /* up to 2^-25, half of the least subnormal */
  uint32_t shift = 126u - (rest >> 23), mantissa = (rest & 0x7fffffu) | 0x800000u;
  uint32_t half = mantissa >> shift, dropped = mantissa & ((1u << shift) - 1u),
           middle = 1u << (shift - 1u);
  half += dropped > middle || (dropped == middle && (half & 1u));
  return (uint16_t)(sign | half);
}

/* Element i of values of a float type, whatever the compiler holds their memory to be. */
static inline float ac_float_read(ac_dtype dtype, const void *values, int64_t i) {
  const char *from = (const char *)values + (size_t)i * ac_dtype_bytes(dtype);
  float whole;
  uint16_t half;
  if (dtype == AC_F32) return memcpy(&whole, from, sizeof whole), whole;
  memcpy(&half, from, sizeof half);
  return dtype == AC_F16 ? ac_f16_to_float(half) : ac_bf16_to_float(half);
}

static inline void ac_float_write(ac_dtype dtype, void *values, int64_t i, float value) {
  char *to = (char *)values + (size_t)i * ac_dtype_bytes(dtype);
  uint16_t half = dtype == AC_F16 ? ac_f16_from_float(value) : ac_bf16_from_float(value);
  if (dtype == AC_F32) memcpy(to, &value, sizeof value);
  else memcpy(to, &half, sizeof half);
}

/* `count` floats from elements of a float type, and the other way. Both may lie in the same place,
 * if no element is overwritten before it is read. */
void ac_floats_read(float *to, const void *from, ac_dtype dtype, int64_t count);
void ac_floats_write(void *to, ac_dtype dtype, const float *from, int64_t count);

#endif
