/* concat: one launch for each part, and one for the zeros after them. */
#include "ops/movement/concat.h"

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

static ac_status move_parts(ac_opencl *cl, const ac_op_args *args, int from, int64_t *end) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  *end = a->first * whole.inner;
  for (int i = from; i < AC_MAX_INPUTS && args->in[i].count; i++) {
    const ac_operand *x = &args->in[i];
    const int64_t run = x->dim[a->axis] * whole.inner;
    AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"concat", "move_part", NULL}),
                        ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(x->count), AC_CL_LONG(run),
                        AC_CL_LONG(whole.length * whole.inner), AC_CL_LONG(*end)));
    *end += run;
  }
  return AC_OK;
}

static ac_status concat(ac_opencl *cl, const ac_op_args *args) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  const int64_t row = whole.length * whole.inner;
  int64_t end;
  AC_TRY(move_parts(cl, args, 0, &end));
  if (end == row) return AC_OK;
  const int64_t rest = whole.outer * (row - end);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"concat", "clear_part", NULL}), ac_cl_elements(cl, rest),
                      AC_CL_OPERAND(*y), AC_CL_LONG(rest), AC_CL_LONG(row - end), AC_CL_LONG(row),
                      AC_CL_LONG(end));
}

static ac_status concat_more(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *y = &args->out[0];
  int64_t end;
  AC_TRY(ac_cl_copy(cl, y->data, args->in[0].data,
                    (uint64_t)y->count * (uint64_t)ac_dtype_bytes(y->dtype)));
  return move_parts(cl, args, 1, &end);
}

const ac_cl_op ac_cl_op_concat = {.run = concat};
const ac_cl_op ac_cl_op_concat_more = {.run = concat_more};
