/* Softmax cross-entropy (cross_entropy.h). Row results go to the workspace, before the
 * scratch that blocks need there. */
#include "backend/cpu/loss/cross_entropy.h"

#include "core/align.h"

static loss_rows rows_of(const ac_op_args *args) {
  return (loss_rows){args->attributes, args->in[1].data, ac_cpu_data(&args->in[2]),
                     ac_cross_entropy_smoothing(args->attributes, args->run)};
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  loss_rows rows = rows_of(args);
  row_result *results = args->workspace;
  row_extent *extents = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    extents[i] = row_loss(&rows, i, x, columns, &results[i]);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t count = ac_rows(&args->in[0]);
  loss_rows rows = rows_of(args);
  ac_cpu_for_rows(context, args, forward_range);
  if (args->out[0].count) sum_rows(&rows, count, args->workspace, args->out[0].data, args->add[0]);
}

static uint64_t forward_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  uint64_t results = (uint64_t)ac_rows(&args->in[0]) * sizeof(row_result);
  return ac_align(results, AC_LINE_BYTES) + ac_cpu_row_scratch(context, args);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  loss_rows rows = rows_of(args);
  const row_extent *extents = args->in[3].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    row_gradient(&rows, i, x, columns, extents[i], ac_loss_scale(args), dx);
  }
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(cross_entropy) = {.run = forward, .workspace = forward_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(cross_entropy_gradient) = {.run = gradient,
                                                             .workspace = ac_cpu_row_scratch};
