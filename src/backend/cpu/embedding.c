/* Rows of a table by id. In the gradient several positions may hold one id: each thread owns
 * columns of the table, adds every position's row in order, and so needs neither atomics nor a
 * fixed thread count. */
#include "backend/cpu/kernels.h"

#include <string.h>

static void gather_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *table = args->in[0].data;
  const int32_t *ids = args->in[1].data;
  float *y = args->out[0].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++)
    memcpy(y + i * columns, table + ids[i] * columns, (size_t)columns * sizeof *y);
}

static void gather(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[1].count, ac_columns(&args->in[0]), gather_range);
}

static void scatter_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  (void)context;
  const int32_t *ids = args->in[0].data;
  const float *dy = args->in[1].data;
  float *dtable = args->out[0].data;
  int64_t count = args->in[0].count, columns = ac_columns(&args->out[0]), first, last;
  if (!args->add[0]) {
    ac_cpu_share(args->out[0].count, 64, thread, team, &first, &last);
    memset(dtable + first, 0, (size_t)(last - first) * sizeof *dtable);
    ac_cpu_barrier(team);
  }
  ac_cpu_share(columns, 16, thread, team, &first, &last);
  for (int64_t i = 0; i < count && first < last; i++) {
    float *row = dtable + ids[i] * columns;
    const float *gradient = dy + i * columns;
#pragma omp simd
    for (int64_t j = first; j < last; j++) row[j] += gradient[j];
  }
}

static void scatter(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, scatter_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(embedding) = {gather, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(embedding_gradient) = {scatter, NULL};
