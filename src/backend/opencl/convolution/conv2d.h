/* Convolutions on OpenCL devices: the shapes that all ways to compute them share, and the way by
 * matrix units. */
#ifndef AC_OPENCL_CONV2D_H
#define AC_OPENCL_CONV2D_H

#include "backend/opencl/shared/opencl.h"
#include "ops/convolution/conv2d.h"

/* The convolution that it is, or is a gradient of: x [images, in], y [images, out], W. */
typedef struct ac_cl_conv2d {
  const ac_conv2d_attributes *attributes;
  const ac_operand *x, *y;
  int64_t images, in, out, kh, kw; /* in, out: channels of a group */
} ac_cl_conv2d;

/* The last arguments of the kernels: an image of `in` channels a group that taps are taken from,
 * one of `out` that positions are counted in. */
#define AC_CL_GEOMETRY(s, from, in, to, out)                                                    \
  AC_CL_INT((s)->attributes->groups), AC_CL_INT(in), AC_CL_INT(out), AC_CL_INT((from)->dim[2]), \
      AC_CL_INT((from)->dim[3]), AC_CL_INT((to)->dim[2]), AC_CL_INT((to)->dim[3]),              \
      AC_CL_INT((s)->kh), AC_CL_INT((s)->kw), AC_CL_INT((s)->attributes->stride[0]),            \
      AC_CL_INT((s)->attributes->stride[1]), AC_CL_INT((s)->attributes->padding[0]),            \
      AC_CL_INT((s)->attributes->padding[1]), AC_CL_INT((s)->attributes->dilation[0]),          \
      AC_CL_INT((s)->attributes->dilation[1])

/* ---- conv2d_columns.c ------------------------------------------------------------------------ */

/* Whether the device's matrix unit computes y, dx or dW of this convolution, in `storage`: found
 * out at any time, because the workspace depends on it. */
ac_status ac_cl_columns_take(ac_opencl *cl, const ac_cl_conv2d *s, ac_op op, ac_dtype storage,
                             bool *take);
uint64_t ac_cl_columns_workspace(const ac_opencl *cl, const ac_cl_conv2d *s, ac_op op);

/* These compute it, for args of conv2d, the transposed one, and the weight's gradient (but not the
 * bias's).
 */
ac_status ac_cl_columns_forward(ac_opencl *cl, const ac_cl_conv2d *s, const ac_op_args *args);
ac_status ac_cl_columns_transposed(ac_opencl *cl, const ac_cl_conv2d *s, const ac_op_args *args);
ac_status ac_cl_columns_weight_gradient(ac_opencl *cl, const ac_cl_conv2d *s,
                                        const ac_op_args *args);

#endif
