/* Hits of a classifier. */
#include "backend/opencl/loss/losses.h"
#include "core/error.h"
#include "ops/loss/class_hits.h"

/* Weight if hit, weight and nothing of each row. */
static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 3 * sizeof(float) * (uint64_t)ac_rows(&args->in[0]);
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_class_hits_attributes *a = args->attributes;
  const int64_t rows = ac_rows(&args->in[0]), width = ac_columns(&args->in[0]);
  AC_TRY(AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"class_hits", "class_hits", ac_cl_row_options(cl, width)}),
      ac_cl_rows(cl, rows, width), AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_BUFFER(args->workspace), AC_CL_LONG(width),
      AC_CL_INT(a->kind), AC_CL_INT(a->number), AC_CL_INT(a->ignore), AC_CL_INT(a->ignore_index)));
  return ac_cl_sum_losses(cl, args->workspace, rows, &args->out[0], args->add[0]);
}

const ac_cl_op ac_cl_op_class_hits = {.run = forward, .workspace = workspace};
