/* softmax and its logarithm over an axis, and their gradients. */
#include "ops/attention/softmax.h"

#include "backend/opencl/shared/opencl.h"

/* Both kernels take the inputs, the output, the length and, over columns, the distance. */
static ac_status run(ac_opencl *cl, const ac_op_args *args, const char *rows, const char *columns) {
  const ac_softmax_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  const int64_t length = x->dim[a->axis];
  int64_t inner = 1;
  for (int d = a->axis + 1; d < x->rank; d++) inner *= x->dim[d];
  ac_cl_argument arguments[6];
  int count = 0;
  arguments[count++] = AC_CL_OPERAND(*x);
  if (args->in[1].count) arguments[count++] = AC_CL_OPERAND(args->in[1]);
  arguments[count++] = AC_CL_OPERAND(args->out[0]);
  arguments[count++] = AC_CL_LONG(length);
  if (inner > 1) arguments[count++] = AC_CL_LONG(inner);
  arguments[count++] = AC_CL_INT(a->logarithm);
  const int64_t outer = x->count / (length * inner);
  if (inner == 1)
    return ac_cl_launch(cl, (ac_cl_kernel){"softmax", rows, ac_cl_row_options(cl, length)},
                        ac_cl_rows(cl, outer, length), arguments, count);
  return ac_cl_launch(cl, (ac_cl_kernel){"softmax", columns, NULL},
                      ac_cl_groups(outer * ac_ceil_div(inner, 32), 32, ac_cl_lanes(cl)), arguments,
                      count);
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return run(cl, args, "softmax", "softmax_columns");
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return run(cl, args, "softmax_gradient", "softmax_columns_gradient");
}

const ac_cl_op ac_cl_op_softmax = {.run = forward};
const ac_cl_op ac_cl_op_softmax_gradient = {.run = gradient};
