/* c = a + b with b repeated along leading dimensions, and its gradient: sums over leading
 * dimensions. */
#include "backend/cpu/pointwise/repeat.h"

static inline void add_run(const ac_op_args *args, const float *a, const float *b, float *c,
                           int64_t count) {
  (void)args;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) c[i] = a[i] + b[i];
}

static void add_range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_cpu_for_runs(args, first, last, add_run);
}

static void add(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, add_range);
}

static void sum_leading_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                             int team) {
  (void)context;
  int64_t columns = args->out[0].count;
  ac_cpu_column_sums(args->in[0].count / columns, columns, args->in[0].data, args->in[0].dtype,
                     args->out[0].data, args->add[0], thread, team);
}

static void sum_leading(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, sum_leading_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(add) = {.run = add};
const ac_cpu_kernel AC_CPU_KERNEL(sum_leading) = {.run = sum_leading};
