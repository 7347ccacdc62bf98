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
  int64_t images, in, out, kd, kh, kw; /* in, out: channels of a group */
} ac_cl_conv2d;

/* Whether it is of volumes, for which kernels are compiled with VOLUME. */
static inline bool ac_cl_conv_is_of_volumes(const ac_cl_conv2d *s) {
  return s->x->rank == 5;
}

/* Positions of an image or a volume; its depth, 1 for images; its height (0) or width (1). */
static inline int64_t ac_cl_conv_pixels(const ac_operand *x) {
  return x->count / x->dim[0] / x->dim[1];
}
static inline int64_t ac_cl_conv_depth(const ac_operand *x) {
  return x->rank == 5 ? x->dim[2] : 1;
}
static inline int64_t ac_cl_conv_side(const ac_operand *x, int axis) {
  return x->dim[x->rank - 2 + axis];
}

/* The last arguments of the kernels: an image of `in` channels a group that taps are taken from,
 * one of `out` that positions are counted in. */
#define AC_CL_GEOMETRY(s, from, in, to, out)                                                    \
  AC_CL_INT((s)->attributes->groups), AC_CL_INT(in), AC_CL_INT(out),                            \
      AC_CL_INT(ac_cl_conv_side(from, 0)), AC_CL_INT(ac_cl_conv_side(from, 1)),                 \
      AC_CL_INT(ac_cl_conv_side(to, 0)), AC_CL_INT(ac_cl_conv_side(to, 1)), AC_CL_INT((s)->kh), \
      AC_CL_INT((s)->kw), AC_CL_INT((s)->attributes->stride[0]),                                \
      AC_CL_INT((s)->attributes->stride[1]), AC_CL_INT((s)->attributes->padding[0]),            \
      AC_CL_INT((s)->attributes->padding[1]), AC_CL_INT((s)->attributes->dilation[0]),          \
      AC_CL_INT((s)->attributes->dilation[1]), AC_CL_INT(ac_cl_conv_depth(from)),               \
      AC_CL_INT(ac_cl_conv_depth(to)), AC_CL_INT((s)->kd),                                      \
      AC_CL_INT((s)->attributes->depth_stride), AC_CL_INT((s)->attributes->depth_padding),      \
      AC_CL_INT((s)->attributes->depth_dilation)

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
