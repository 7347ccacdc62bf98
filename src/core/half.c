#include "core/half.h"

void ac_floats_read(float *to, const void *from, ac_dtype dtype, int64_t count) {
  const uint16_t *half = from;
  if (dtype == AC_F32) memmove(to, from, (size_t)count * sizeof *to);
  else if (dtype == AC_F16)
    for (int64_t i = 0; i < count; i++) to[i] = ac_f16_to_float(half[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = ac_bf16_to_float(half[i]);
}

void ac_floats_write(void *to, ac_dtype dtype, const float *from, int64_t count) {
  uint16_t *half = to;
  if (dtype == AC_F32) memmove(to, from, (size_t)count * sizeof *from);
  else if (dtype == AC_F16)
    for (int64_t i = 0; i < count; i++) half[i] = ac_f16_from_float(from[i]);
  else
    for (int64_t i = 0; i < count; i++) half[i] = ac_bf16_from_float(from[i]);
}
