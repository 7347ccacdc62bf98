/* How operands are stored on a device: values in double to and from their bytes. */
#include "driver.h"

#include "core/half.h"
#include "core/random.h"

#include <float.h>
#include <math.h>
#include <string.h>

void op_encode(ac_dtype dtype, double value, void *to) {
  float single = (float)value;
  int32_t integer = dtype == AC_I32 || dtype == AC_U8 ? (int32_t)value : 0;
  if (dtype == AC_I32) memcpy(to, &integer, sizeof integer);
  else if (dtype == AC_U8) *(uint8_t *)to = (uint8_t)integer;
  else ac_float_write(dtype, to, 0, single);
}

double op_decode(ac_dtype dtype, const void *from) {
  int32_t integer;
  if (dtype == AC_U8) return (double)*(const uint8_t *)from;
  if (dtype == AC_I32) return memcpy(&integer, from, sizeof integer), (double)integer;
  return (double)ac_float_read(dtype, from, 0);
}

double op_round(ac_dtype dtype, double value) {
  unsigned char bytes[4];
  op_encode(dtype, value, bytes);
  return op_decode(dtype, bytes);
}

double op_chance(uint64_t key, uint32_t sample, uint32_t update, uint32_t stream, int64_t e) {
  const ac_philox_block words = ac_philox(key, (uint32_t)(e / 8), sample, update, stream);
  return (double)(words.v[e % 8 / 2] >> 16 * (e % 2) & 0xffffu) / 65536;
}

double op_round_by_chance(double value, double chance) {
  int exponent;
  frexp(value, &exponent);
  const double unit = ldexp(1, exponent - 8);
  return copysign(floor(fabs(value) / unit + chance) * unit, value);
}

/* Half a unit in the last place of 11 or 8 bits, or of a subnormal. A float's own rounding is part
 * of each op's tolerance. */
double op_storage_error(ac_dtype dtype, double value) {
  if (dtype == AC_F16) return fmax(ldexp(fabs(value), -11), 0x1p-25);
  if (dtype == AC_BF16) return ldexp(fabs(value), -8);
  return 0;
}

const char *op_storage_name(ac_dtype dtype) {
  return dtype == AC_F16 ? "f16" : dtype == AC_BF16 ? "bf16" : "f32";
}

bool op_has_storage(const op_case *c) {
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (c->in[i].rank && c->in[i].dtype != AC_I32 &&
        ac_op_input_kind_of(c->op, &c->attributes, i) == 's')
      return true;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (c->out[j].rank && c->out[j].dtype != AC_I32 &&
        ac_op_output_kind_of(c->op, &c->attributes, j) == 's')
      return true;
  return false;
}
