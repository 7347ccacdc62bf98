/* Pooling and its gradients. */
#include "ops/convolution/pool2d.h"

#include "backend/opencl/shared/opencl.h"

/* The last arguments of the kernels. */
#define GEOMETRY(a, x, y)                                                                         \
  AC_CL_INT((x)->dim[2]), AC_CL_INT((x)->dim[3]), AC_CL_INT((y)->dim[2]), AC_CL_INT((y)->dim[3]), \
      AC_CL_INT((a)->kernel[0]), AC_CL_INT((a)->kernel[1]), AC_CL_INT((a)->stride[0]),            \
      AC_CL_INT((a)->stride[1]), AC_CL_INT((a)->padding[0]), AC_CL_INT((a)->padding[1])

/* In addition those of averages, if not all patches have as many elements that count. */
#define COUNTED(a, x, y)                                                                       \
  AC_CL_INT(ac_pool2d_is_uneven(a, x, y)), AC_CL_INT((a)->after[0]), AC_CL_INT((a)->after[1]), \
      AC_CL_INT((a)->skip_padding)

/* All kernels of the file are compiled together, so all with a row group. */
static ac_cl_kernel kernel_of(const ac_opencl *cl, const char *name) {
  return (ac_cl_kernel){"pool2d", name, ac_cl_row_options(cl, 1)};
}

/* Patches of a whole plane each, by a work-group a plane. */
static ac_cl_kernel kernel_of_planes(const ac_opencl *cl, const char *name, int64_t size) {
  return (ac_cl_kernel){"pool2d", name, ac_cl_row_options(cl, size)};
}

static ac_status max(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_pool2d_attributes *a = args->attributes;
  const int64_t size = x->dim[2] * x->dim[3];
  if (ac_pool2d_is_of_planes(a, x, y))
    return AC_CL_LAUNCH(cl, kernel_of_planes(cl, "max_planes", size),
                        ac_cl_rows(cl, y->count, size), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(size));
  return AC_CL_LAUNCH(cl, kernel_of(cl, "max_pool2d"), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count),
                      GEOMETRY(a, x, y));
}

static ac_status average(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const ac_pool2d_attributes *a = args->attributes;
  const int64_t size = x->dim[2] * x->dim[3];
  if (ac_pool2d_is_of_planes(a, x, y))
    return AC_CL_LAUNCH(cl, kernel_of_planes(cl, "average_planes", size),
                        ac_cl_rows(cl, y->count, size), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(size));
  return AC_CL_LAUNCH(cl, kernel_of(cl, "average_pool2d"), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count), COUNTED(a, x, y),
                      GEOMETRY(a, x, y));
}

static ac_status max_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *x = &args->in[1], *dx = &args->out[0];
  const ac_pool2d_attributes *a = args->attributes;
  const int64_t size = x->dim[2] * x->dim[3];
  if (ac_pool2d_is_of_planes(a, x, dy))
    return AC_CL_LAUNCH(cl, kernel_of_planes(cl, "max_planes_gradient", size),
                        ac_cl_rows(cl, dy->count, size), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*x),
                        AC_CL_OPERAND(*dx), AC_CL_LONG(size), AC_CL_INT(args->add[0]));
  return AC_CL_LAUNCH(cl, kernel_of(cl, "max_pool2d_gradient"), ac_cl_elements(cl, dx->count),
                      AC_CL_OPERAND(*dy), AC_CL_OPERAND(*x), AC_CL_OPERAND(*dx),
                      AC_CL_LONG(dx->count), AC_CL_INT(args->add[0]), GEOMETRY(a, dx, dy));
}

static ac_status average_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const ac_pool2d_attributes *a = args->attributes;
  return AC_CL_LAUNCH(cl, kernel_of(cl, "average_pool2d_gradient"), ac_cl_elements(cl, dx->count),
                      AC_CL_OPERAND(*dy), AC_CL_OPERAND(*dx), AC_CL_LONG(dx->count),
                      AC_CL_INT(args->add[0]), COUNTED(a, dx, dy), GEOMETRY(a, dx, dy));
}

const ac_cl_op ac_cl_op_max_pool2d = {.run = max};
const ac_cl_op ac_cl_op_max_pool2d_gradient = {.run = max_gradient};
const ac_cl_op ac_cl_op_average_pool2d = {.run = average};
const ac_cl_op ac_cl_op_average_pool2d_gradient = {.run = average_gradient};
