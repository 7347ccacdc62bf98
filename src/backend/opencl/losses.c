/* The sums that losses are kept in. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_sum_losses(ac_opencl *cl, const void *rows, int64_t n, const ac_operand *sums,
                           bool add) {
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"losses", "sum_losses", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(rows), AC_CL_OPERAND(*sums),
                      AC_CL_LONG(n), AC_CL_INT(add));
}
