/* Counts of values that are not finite and of marked zeros, by the bits. */
#include "backend/cpu/kernels.h"

static int32_t added(int32_t count, int64_t more) {
  return (int32_t)ac_min(INT32_MAX, count + more);
}

static void numerics(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const ac_operand *x = &args->in[0];
  int64_t overflowed = 0, flushed = 0;
  if (x->dtype == AC_F32) {
    const uint32_t *bits = x->data;
    for (int64_t i = 0; i < x->count; i++) overflowed += (bits[i] & 0x7f800000u) == 0x7f800000u;
  } else {
    const uint16_t *bits = x->data;
    unsigned exponent = x->dtype == AC_F16 ? 0x7c00u : 0x7f80u;
    for (int64_t i = 0; i < x->count; i++) {
      overflowed += (bits[i] & exponent) == exponent;
      flushed += x->dtype == AC_F16 && bits[i] == 0x8000u;
    }
  }
  int32_t *counts = args->out[0].data;
  counts[0] = added(args->add[0] ? counts[0] : 0, overflowed);
  counts[1] = added(args->add[0] ? counts[1] : 0, flushed);
}

const ac_cpu_kernel AC_CPU_KERNEL(numerics) = {numerics, NULL};
