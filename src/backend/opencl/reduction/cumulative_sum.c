/* cumulative_sum. Its kernels are in along.cl. */
#include "backend/opencl/shared/opencl.h"
#include "ops/reduction/along.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_cumulative_sum_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_along a = ac_along_axis(x, attributes->axis);
  const int64_t columns = a.outer * a.inner;
  if (a.inner == 1)
    return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"along", "cumulative_rows", NULL}),
                        ac_cl_groups(a.outer, cl->group, 1), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(a.length), AC_CL_INT(attributes->reversed));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"along", "cumulative_columns", NULL}),
                      ac_cl_elements(cl, columns), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                      AC_CL_LONG(a.length), AC_CL_LONG(a.inner), AC_CL_LONG(columns),
                      AC_CL_INT(attributes->reversed));
}

const ac_cl_op ac_cl_op_cumulative_sum = {.run = run};
