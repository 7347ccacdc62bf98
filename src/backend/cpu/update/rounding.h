/* Runs of floats into bf16, rounded by chance (core/half.h) with the numbers of core/random.h. */
#ifndef AC_BACKEND_CPU_ROUNDING_H
#define AC_BACKEND_CPU_ROUNDING_H

#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/random_bits.h"
#include "core/half.h"

/* The numbers that one run of an op draws. */
static inline random_mask rounding_of(const ac_op_args *args, uint32_t stream) {
  return random_mask_of(args->run->seed ^ args->name_hash, args->run->update, stream);
}

/* Elements [first, first + count); x and y point to the first of them. */
static inline void round_by_chance(const random_mask *mask, uint32_t sample, int64_t first,
                                   int64_t count, const float *x, uint16_t *y) {
  uint16_t bits[AC_CPU_RANDOM_HALVES];
  const int64_t end = first + count;
  for (int64_t base = first & ~(int64_t)7; base < end; base += AC_CPU_RANDOM_HALVES) {
    const int64_t from = ac_larger(first, base), to = ac_smaller(end, base + AC_CPU_RANDOM_HALVES);
    random_bits(bits, mask, sample, (uint32_t)(base / 8));
#pragma omp simd
    for (int64_t i = from; i < to; i++)
      y[i - first] = ac_bf16_by_chance(x[i - first], bits[i - base]);
  }
}

#endif
