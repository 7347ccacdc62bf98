/* Adam-mini's step. The workspace, where blocks are columns: partial sums of squares [chunks, C].
 */
#include "ops/update/adam_mini.h"

#include "backend/opencl/shared/sums.h"
#include "backend/opencl/update/update.h"
#include "core/error.h"

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  return m.by_column ? sizeof(float) * (uint64_t)(ac_cl_most_chunks(m.rows) * m.columns) : 0;
}

static ac_cl_kernel kernel(const ac_opencl *cl, const ac_op_args *args, const char *name,
                           int64_t columns) {
  return ac_cl_row_update_kernel(cl, args, "adam_mini", name, columns);
}

static ac_status step_rows(ac_opencl *cl, const ac_op_args *args, const ac_adam_mini_matrix *m) {
  const ac_adam_mini_attributes *a = args->attributes;
  return AC_CL_LAUNCH(
      cl, kernel(cl, args, "adam_mini_rows", m->columns), ac_cl_rows(cl, m->rows, m->columns),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
      AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]), AC_CL_LONG(m->columns),
      AC_CL_ROUNDING(args), AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->rate * a->weight_decay),
      AC_CL_FLOAT(a->take1), AC_CL_FLOAT(a->take2), AC_CL_FLOAT(a->rate / a->correction1),
      AC_CL_FLOAT(a->sqrt_correction2), AC_CL_FLOAT(a->epsilon));
}

static ac_status step_columns(ac_opencl *cl, const ac_op_args *args, const ac_adam_mini_matrix *m) {
  const ac_adam_mini_attributes *a = args->attributes;
  const ac_cl_chunks chunks = ac_cl_row_chunks(m->rows);
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adam_mini_columns", m->columns),
                      ac_cl_groups((m->columns + 31) / 32 * chunks.count, 32, ac_cl_lanes(cl)),
                      AC_CL_OPERAND(args->in[0]), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(m->rows), AC_CL_LONG(m->columns), AC_CL_LONG(chunks.rows),
                      AC_CL_FLOAT(a->gradient_factor)));
  AC_TRY(AC_CL_LAUNCH(cl, kernel(cl, args, "adam_mini_moments", m->columns),
                      ac_cl_elements(cl, m->columns), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[2]), AC_CL_LONG(m->rows), AC_CL_LONG(m->columns),
                      AC_CL_LONG(chunks.count), AC_CL_FLOAT(a->take2)));
  return AC_CL_LAUNCH(cl, kernel(cl, args, "adam_mini", m->columns),
                      ac_cl_elements(cl, args->in[0].count), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]),
                      AC_CL_LONG(args->in[0].count), AC_CL_LONG(m->columns), AC_CL_ROUNDING(args),
                      AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->rate * a->weight_decay),
                      AC_CL_FLOAT(a->take1), AC_CL_FLOAT(a->rate / a->correction1),
                      AC_CL_FLOAT(a->sqrt_correction2), AC_CL_FLOAT(a->epsilon));
}

static ac_status adam_mini(ac_opencl *cl, const ac_op_args *args) {
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  return m.by_column ? step_columns(cl, args, &m) : step_rows(cl, args, &m);
}

const ac_cl_op ac_cl_op_adam_mini = {.run = adam_mini, .workspace = workspace};
