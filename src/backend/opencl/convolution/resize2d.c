/* Resized images and their gradient. */
#include "ops/convolution/resize2d.h"

#include "backend/opencl/shared/opencl.h"

/* The last arguments of the kernels: x and y are the image and the result, or their gradients. */
#define GEOMETRY(a, x, y)                                                          \
  AC_CL_INT((a)->kind), AC_CL_INT((a)->align_corners), AC_CL_FLOAT((a)->scale[0]), \
      AC_CL_FLOAT((a)->scale[1]), AC_CL_INT((x)->dim[2]), AC_CL_INT((x)->dim[3]),  \
      AC_CL_INT((y)->dim[2]), AC_CL_INT((y)->dim[3])

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_resize2d_attributes *a = args->attributes;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"resize2d", "resize2d", NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), GEOMETRY(a, x, y));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const ac_resize2d_attributes *a = args->attributes;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"resize2d", "resize2d_gradient", NULL}),
                      ac_cl_elements(cl, dx->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*dx),
                      AC_CL_LONG(dx->count), GEOMETRY(a, dx, dy), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_resize2d = {.run = forward};
const ac_cl_op ac_cl_op_resize2d_gradient = {.run = gradient};
