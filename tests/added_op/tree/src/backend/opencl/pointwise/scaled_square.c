/* scaled_square, and its gradient in two launches, with a workspace between them. */
#include "ops/pointwise/scaled_square.h"

#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

static float factor_of(const ac_op_args *args) {
  return ((const ac_scaled_square_attributes *)args->attributes)->factor;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"scaled_square", "scaled_square", NULL}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]),
                      AC_CL_FLOAT(factor_of(args)), AC_CL_INT(x->count));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *x = &args->in[1];
  const ac_cl_argument slopes = AC_CL_BUFFER(args->workspace);
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"scaled_square", "scaled_square_slopes", NULL}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), slopes,
                      AC_CL_FLOAT(factor_of(args)), AC_CL_INT(x->count)));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"scaled_square", "scaled_square_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), slopes,
                      AC_CL_OPERAND(args->out[0]), AC_CL_INT(dy->count));
}

/* A slope for each element. */
static uint64_t gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return sizeof(float) * (uint64_t)args->in[0].count;
}

/* Elements are counted in 32 bits. */
static bool fits(const ac_op_args *args) {
  return args->in[0].count <= INT32_MAX;
}

const ac_cl_op ac_cl_op_scaled_square = {.run = forward, .fits = fits};
const ac_cl_op ac_cl_op_scaled_square_gradient = {
    .run = gradient, .workspace = gradient_workspace, .fits = fits};
