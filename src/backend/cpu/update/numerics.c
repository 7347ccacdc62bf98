/* Counts of values that are not finite and of marked zeros, by the bits, in parts that all threads
 * share out. */
#include "backend/cpu/shared/kernels.h"

enum { PARTS = 256 };

typedef struct counts {
  int64_t overflowed, flushed;
} counts;

static counts count_floats(const uint32_t *bits, int64_t count) {
  int64_t overflowed = 0;
#pragma omp simd reduction(+ : overflowed)
  for (int64_t i = 0; i < count; i++) overflowed += (bits[i] & 0x7f800000u) == 0x7f800000u;
  return (counts){overflowed, 0};
}

static counts count_halves(const uint16_t *bits, int64_t count) {
  int64_t overflowed = 0, flushed = 0;
#pragma omp simd reduction(+ : overflowed, flushed)
  for (int64_t i = 0; i < count; i++) {
    overflowed += (bits[i] & 0x7c00u) == 0x7c00u;
    flushed += bits[i] == 0x8000u;
  }
  return (counts){overflowed, flushed};
}

static counts count_bf16(const uint16_t *bits, int64_t count) {
  int64_t overflowed = 0;
#pragma omp simd reduction(+ : overflowed)
  for (int64_t i = 0; i < count; i++) overflowed += (bits[i] & 0x7f80u) == 0x7f80u;
  return (counts){overflowed, 0};
}

static void count_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0];
  counts *results = args->workspace;
  for (int64_t part = first; part < last; part++) {
    int64_t begin, end;
    ac_cpu_share(x->count, 1, (int)part, PARTS, &begin, &end);
    const void *bits = ac_element(x->data, x->dtype, begin);
    results[part] = x->dtype == AC_F32   ? count_floats(bits, end - begin)
                    : x->dtype == AC_F16 ? count_halves(bits, end - begin)
                                         : count_bf16(bits, end - begin);
  }
}

static int32_t added(int32_t count, int64_t more) {
  return (int32_t)ac_smaller(INT32_MAX, count + more);
}

static void numerics(const ac_cpu_context *context, const ac_op_args *args) {
  counts results[PARTS], total = {0, 0};
  ac_op_args shared = *args;
  shared.workspace = results;
  ac_cpu_for(context, &shared, PARTS, ac_ceil_div(args->in[0].count, PARTS), count_range);
  for (int i = 0; i < PARTS; i++) {
    total.overflowed += results[i].overflowed;
    total.flushed += results[i].flushed;
  }
  int32_t *out = args->out[0].data;
  out[0] = added(args->add[0] ? out[0] : 0, total.overflowed);
  out[1] = added(args->add[0] ? out[1] : 0, total.flushed);
}

const ac_cpu_kernel AC_CPU_KERNEL(numerics) = {.run = numerics};
