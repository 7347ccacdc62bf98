/* cast: between a 16-bit type and float; from bytes, integers and blocks. */
#include "backend/opencl/shared/opencl.h"

static const char *kernel_of(ac_dtype from, ac_dtype to) {
  if (from == AC_U8) return "cast_bytes";
  if (from == AC_I32) return "cast_integers";
  if (from == AC_I64) return "cast_to_integers";
  return to == AC_F32 ? "cast_to_float" : "cast_to_storage";
}

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const bool half = x->dtype == AC_F16 || x->dtype == AC_BF16;
  cl->storage = half ? x->dtype : y->dtype == AC_I32 ? AC_F32 : y->dtype;
  if (x->blocks)
    return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cast", "cast_blocks", NULL}),
                        ac_cl_elements(cl, y->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                        AC_CL_LONG(y->count), AC_CL_INT((int)x->blocks));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cast", kernel_of(x->dtype, y->dtype), NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), AC_CL_INT(args->add[0]));
}

/* Kernels are compiled for one storage type, so the other side is float, or no float at all. */
static bool fits(const ac_op_args *args) {
  const ac_dtype from = args->in[0].dtype, to = args->out[0].dtype;
  if (from == AC_I64) return to == AC_I32 && !args->add[0];
  if (to == AC_I32 || to == AC_U8 || to == AC_I64) return false;
  if (args->in[0].blocks) return !args->add[0];
  return from == AC_U8 || from == AC_F32 || to == AC_F32;
}

const ac_cl_op ac_cl_op_cast = {.run = run, .fits = fits};
