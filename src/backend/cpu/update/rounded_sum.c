/* A sum in bf16, rounded by chance: a block of it at a time. */
#include "ops/update/rounded_sum.h"

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/update/rounding.h"

enum { BLOCK = 1024 };

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_rounded_sum_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const random_mask mask = rounding_of(args, a->stream);
  float sum[BLOCK], block[BLOCK];
  for (int64_t at = first; at < last; at += BLOCK) {
    const int64_t count = ac_smaller(BLOCK, last - at);
    void *to = ac_element(y->data, y->dtype, at);
    ac_cpu_widen(x->dtype, ac_element(x->data, x->dtype, at), block, count);
    if (args->add[0]) {
      ac_cpu_widen(y->dtype, to, sum, count);
#pragma omp simd
      for (int64_t i = 0; i < count; i++) block[i] = sum[i] + block[i];
    }
    if (y->dtype == AC_BF16) round_by_chance(&mask, args->run->sample, at, count, block, to);
    else ac_cpu_narrow(y->dtype, false, block, to, count);
  }
}

static void rounded_sum(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->out[0].count, 1, range);
}

const ac_cpu_kernel AC_CPU_KERNEL(rounded_sum) = {.run = rounded_sum};
