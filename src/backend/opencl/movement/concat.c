/* concat, one launch for each part, slice and its gradient. */
#include "ops/movement/concat.h"

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

/* Rows of `run` elements, from `first_x` of a row of x to `first_y` of one of y. */
static ac_status move_part(ac_opencl *cl, const ac_operand *x, int64_t row_x, int64_t first_x,
                           const ac_operand *y, int64_t row_y, int64_t first_y, int64_t count,
                           int64_t run, bool add) {
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"concat", "move_part", NULL}), ac_cl_elements(cl, count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(count), AC_CL_LONG(run),
                      AC_CL_LONG(row_x), AC_CL_LONG(first_x), AC_CL_LONG(row_y),
                      AC_CL_LONG(first_y), AC_CL_INT(add));
}

static ac_status concat(ac_opencl *cl, const ac_op_args *args) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  int64_t first = 0;
  for (int i = 0; i < AC_MAX_INPUTS && args->in[i].count; i++) {
    const ac_operand *x = &args->in[i];
    const int64_t run = x->dim[a->axis] * whole.inner;
    AC_TRY(move_part(cl, x, run, 0, y, whole.length * whole.inner, first, x->count, run, false));
    first += run;
  }
  return AC_OK;
}

static ac_status slice(ac_opencl *cl, const ac_op_args *args) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(x, a->axis);
  const int64_t run = y->dim[a->axis] * whole.inner;
  return move_part(cl, x, whole.length * whole.inner, a->first * whole.inner, y, run, 0, y->count,
                   run, args->add[0]);
}

static ac_status slice_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(dx, a->axis);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"concat", "slice_gradient", NULL}),
                      ac_cl_elements(cl, dx->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*dx),
                      AC_CL_LONG(dx->count), AC_CL_LONG(dy->dim[a->axis] * whole.inner),
                      AC_CL_LONG(whole.length * whole.inner), AC_CL_LONG(a->first * whole.inner),
                      AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_concat = {.run = concat};
const ac_cl_op ac_cl_op_slice = {.run = slice};
const ac_cl_op ac_cl_op_slice_gradient = {.run = slice_gradient};
