/* Elements of what callers hand over, whatever their type is. */
#ifndef AC_CORE_ELEMENTS_H
#define AC_CORE_ELEMENTS_H

#include "core/half.h"

static inline bool ac_is_integer(ac_dtype dtype) {
  return dtype == AC_I32 || dtype == AC_I64;
}

/* Element i of integers. */
static inline int64_t ac_integer_at(ac_dtype dtype, const void *data, int64_t i) {
  int32_t narrow;
  int64_t wide;
  if (dtype == AC_I64) return memcpy(&wide, (const int64_t *)data + i, sizeof wide), wide;
  memcpy(&narrow, (const int32_t *)data + i, sizeof narrow);
  return narrow;
}

/* Element i of floats or bytes. */
static inline float ac_number_at(ac_dtype dtype, const void *data, int64_t i) {
  return dtype == AC_U8 ? (float)((const uint8_t *)data)[i] : ac_float_read(dtype, data, i);
}

#endif
