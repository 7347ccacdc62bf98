/* slice: parts of a tensor, also beyond its ends, and their gradient. */
#include "ops/movement/slice.h"

#include "backend/opencl/shared/opencl.h"
#include "core/half.h"

/* Axes as kernels take them: the last one first. */
typedef struct axes {
  int64_t whole[8], part[8], first[8], step[8], inner;
  int rank;
} axes;

static axes axes_of(const ac_operand *whole, const ac_operand *part, const ac_slice_attributes *a) {
  const ac_sliced_axes s = ac_sliced_axes_of(whole, part, a);
  axes result = {.inner = s.inner, .rank = s.rank};
  for (int k = 0; k < 8; k++) result.whole[k] = result.part[k] = result.step[k] = 1;
  for (int k = 0; k < s.rank; k++) {
    const ac_sliced_axis *axis = &s.axis[s.rank - 1 - k];
    result.whole[k] = axis->whole;
    result.part[k] = axis->part;
    result.first[k] = axis->first;
    result.step[k] = axis->step;
  }
  return result;
}

/* The value outside as it is stored. */
static uint32_t bits_of(ac_dtype dtype, float value) {
  uint32_t bits = 0;
  uint16_t half = 0;
  if (dtype == AC_I32) return 0;
  if (dtype == AC_F32) memcpy(&bits, &value, sizeof bits);
  else ac_floats_write(&half, dtype, &value, 1);
  return dtype == AC_F32 ? bits : half;
}

static ac_status slice(ac_opencl *cl, const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const axes s = axes_of(x, y, a);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"slice", "slice", NULL}), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count),
                      AC_CL_LONG(s.inner), AC_CL_INT(s.rank), AC_CL_LONGS(s.whole),
                      AC_CL_LONGS(s.part), AC_CL_LONGS(s.first), AC_CL_LONGS(s.step),
                      AC_CL_INT(a->outside), AC_CL_FLOAT(a->value),
                      AC_CL_UINT(bits_of(y->dtype, a->value)), AC_CL_INT(args->add[0]));
}

static ac_status slice_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  const axes s = axes_of(dx, dy, a);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"slice", "slice_gradient", NULL}),
                      ac_cl_elements(cl, dx->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*dx),
                      AC_CL_LONG(dx->count), AC_CL_LONG(s.inner), AC_CL_INT(s.rank),
                      AC_CL_LONGS(s.whole), AC_CL_LONGS(s.part), AC_CL_LONGS(s.first),
                      AC_CL_LONGS(s.step), AC_CL_INT(a->outside), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_slice = {.run = slice};
const ac_cl_op ac_cl_op_slice_gradient = {.run = slice_gradient};
