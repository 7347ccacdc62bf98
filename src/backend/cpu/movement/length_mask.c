/* Rows of ones, as many as an integer says, and then zeros; or of a one where it says, and else
 * zeros. */
#include "backend/cpu/shared/kernels.h"

#define RANGE(name, is_one)                                                                    \
  static void name(const ac_op_args *args, int64_t first, int64_t last) {                      \
    const int32_t *integers = args->in[0].data;                                                \
    const int64_t columns = ac_columns(&args->out[0]);                                         \
    float *y = args->out[0].data;                                                              \
    for (int64_t i = first; i < last; i++) {                                                   \
      const int32_t at = integers[i];                                                          \
      float *row = y + i * columns;                                                            \
      _Pragma("omp simd") for (int64_t t = 0; t < columns; t++) row[t] = is_one ? 1.0f : 0.0f; \
    }                                                                                          \
  }
RANGE(mask_range, t < at)
RANGE(one_hot_range, t == at)

static void length_mask(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[0].count, ac_columns(&args->out[0]), mask_range);
}

static void one_hot(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[0].count, ac_columns(&args->out[0]), one_hot_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(length_mask) = {.run = length_mask};
const ac_cpu_kernel AC_CPU_KERNEL(one_hot) = {.run = one_hot};
