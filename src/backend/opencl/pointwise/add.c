/* add, and its gradient sum_leading. */
#include "backend/opencl/shared/sums.h"
#include "core/error.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *a = &args->in[0], *b = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"add", "add", NULL}), ac_cl_elements(cl, a->count),
                      AC_CL_OPERAND(*a), AC_CL_OPERAND(*b), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(a->count), AC_CL_LONG(b->count));
}

static uint64_t sum_leading_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const int64_t n = args->out[0].count;
  return ac_cl_column_sums_workspace(args->in[0].count / n, n);
}

static ac_status sum_leading(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  return ac_cl_column_sums(cl, x->data, x->count / y->count, y->count, y->data, args->add[0],
                           args->workspace);
}

const ac_cl_op ac_cl_op_add = {.run = forward};
const ac_cl_op ac_cl_op_sum_leading = {.run = sum_leading, .workspace = sum_leading_workspace};
