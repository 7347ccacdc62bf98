/* rounded_sum: a sum in bf16, rounded by chance. */
#include "ops/update/rounded_sum.h"

#include "backend/opencl/update/update.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_rounded_sum_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  cl->storage = x->dtype;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"rounded_sum", "rounded_sum", y->dtype == AC_BF16 ? "-DROUNDED" : NULL}),
      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count),
      AC_CL_INT(args->add[0]), AC_CL_ROUNDING(args), AC_CL_UINT(args->run->sample),
      AC_CL_UINT(a->stream));
}

const ac_cl_op ac_cl_op_rounded_sum = {.run = run};
