/* Rows of a table by id. In the gradient several positions may hold one id: each thread owns
 * columns of the table, adds every position's row in order, and so needs neither atomics nor a
 * fixed thread count. */
#include "backend/cpu/shared/convert.h"

#include <string.h>

/* Gathers from a table in f32 into results in 16 bits. */
static void gather_rounded(const ac_op_args *args, int64_t first, int64_t last) {
  const float *table = args->in[0].data;
  const int32_t *ids = args->in[1].data;
  const ac_operand *y = &args->out[0];
  const int64_t columns = ac_columns(y);
  for (int64_t i = first; i < last; i++)
    ac_cpu_narrow(y->dtype, args->run->mark_flushed, table + ids[i] * columns,
                  ac_element(y->data, y->dtype, i * columns), columns);
}

static void gather_range(const ac_op_args *args, int64_t first, int64_t last) {
  const char *table = args->in[0].data;
  const int32_t *ids = args->in[1].data;
  char *y = args->out[0].data;
  int64_t bytes = ac_columns(&args->in[0]) * (int64_t)ac_element_bytes(args->in[0].dtype);
  for (int64_t i = first; i < last; i++)
    memcpy(y + i * bytes, table + ids[i] * bytes, (size_t)bytes);
}

static void gather(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[1].count, ac_columns(&args->in[0]),
             args->in[0].dtype == args->out[0].dtype ? gather_range : gather_rounded);
}

static void add_row(const float *gradient, float *row, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) row[j] += gradient[j];
}

/* The same of a gradient in 16 bits. */
static void add_stored_row(const void *gradient, ac_dtype dtype, float *row, int64_t count) {
  float block[256];
  int64_t most = sizeof block / sizeof *block;
  for (int64_t j = 0; j < count; j += most) {
    int64_t width = ac_smaller(most, count - j);
    ac_cpu_widen(dtype, ac_element(gradient, dtype, j), block, width);
    add_row(block, row + j, width);
  }
}

static void scatter_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  (void)context;
  const int32_t *ids = args->in[0].data;
  const ac_operand *dy = &args->in[1];
  float *dtable = args->out[0].data;
  int64_t count = args->in[0].count, columns = ac_columns(&args->out[0]), first, last;
  if (!args->add[0]) {
    ac_cpu_share(args->out[0].count, 64, thread, team, &first, &last);
    memset(dtable + first, 0, (size_t)(last - first) * sizeof *dtable);
    ac_cpu_barrier(team);
  }
  ac_cpu_share(columns, 16, thread, team, &first, &last);
  for (int64_t i = 0; i < count && first < last; i++) {
    float *row = dtable + ids[i] * columns + first;
    const void *gradient = ac_element(dy->data, dy->dtype, i * columns + first);
    if (dy->dtype == AC_F32) add_row(gradient, row, last - first);
    else add_stored_row(gradient, dy->dtype, row, last - first);
  }
}

static void scatter(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel(context, args, scatter_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(embedding) = {.run = gather, .rounds = 1u << 0};
const ac_cpu_kernel AC_CPU_KERNEL(embedding_gradient) = {.run = scatter};
