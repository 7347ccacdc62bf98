/* Conversions between the float types, element by element. */
#include "backend/cpu/kernels.h"
#include "core/half.h"

static float read(const ac_operand *x, int64_t i) {
  if (x->dtype == AC_F32) return ((const float *)x->data)[i];
  uint16_t half = ((const uint16_t *)x->data)[i];
  return x->dtype == AC_F16 ? ac_f16_to_float(half) : ac_bf16_to_float(half);
}

static void write(const ac_operand *y, int64_t i, float value) {
  if (y->dtype == AC_F32) ((float *)y->data)[i] = value;
  else if (y->dtype == AC_F16) ((uint16_t *)y->data)[i] = ac_f16_from_float(value);
  else ((uint16_t *)y->data)[i] = ac_bf16_from_float(value);
}

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  for (int64_t i = first; i < last; i++)
    write(y, i, args->add[0] ? read(y, i) + read(x, i) : read(x, i));
}

static void cast(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->out[0].count, 1, range);
}

const ac_cpu_kernel AC_CPU_KERNEL(cast) = {cast, NULL};
