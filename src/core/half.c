#include "core/half.h"

void ac_floats_read(float *to, const void *from, ac_dtype dtype, int64_t count) {
  for (int64_t i = 0; i < count; i++) ac_float_write(AC_F32, to, i, ac_float_read(dtype, from, i));
}

void ac_floats_write(void *to, ac_dtype dtype, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i++) ac_float_write(dtype, to, i, ac_float_read(AC_F32, from, i));
}
