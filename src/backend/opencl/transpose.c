/* transpose: swaps two dimensions. */
#include "ops/transpose.h"

#include "backend/opencl/opencl.h"

static int64_t product(const ac_operand *x, int first, int end) {
  int64_t n = 1;
  for (int i = first; i < end; i++) n *= x->dim[i];
  return n;
}

static ac_status transpose(ac_opencl *cl, const ac_op_args *args) {
  const ac_transpose_attributes *t = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const int64_t outer = product(x, 0, t->axis_a), a = x->dim[t->axis_a], b = x->dim[t->axis_b];
  const int64_t middle = product(x, t->axis_a + 1, t->axis_b);
  const int64_t run = product(x, t->axis_b + 1, x->rank);
  if (run > 1)
    return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"transpose", "transpose_runs", NULL}),
                        ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(x->count), AC_CL_LONG(a), AC_CL_LONG(middle), AC_CL_LONG(b),
                        AC_CL_LONG(run));
  const int64_t tiles = (a + 31) / 32 * ((b + 31) / 32) * outer * middle;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"transpose", "transpose_tile", NULL}),
                      ac_cl_groups(tiles, 32, ac_cl_lanes(cl)), AC_CL_OPERAND(*x),
                      AC_CL_OPERAND(*y), AC_CL_LONG(a), AC_CL_LONG(middle), AC_CL_LONG(b));
}

const ac_cl_op ac_cl_op_transpose = {.run = transpose};
