/* What the steps of parameters share. */
#ifndef AC_BACKEND_OPENCL_STEPPED_H
#define AC_BACKEND_OPENCL_STEPPED_H

#include "backend/opencl/opencl.h"

/* What is kept may be in blocks of 8 bits, parameter and gradient in bf16. */
static inline const char *ac_cl_step_options(const ac_op_args *args) {
  static const char *const options[2][2][2] = {
      {{NULL, "-DGRADIENT_BF16"}, {"-DROUNDED", "-DROUNDED -DGRADIENT_BF16"}},
      {{"-DEIGHT_BIT", "-DEIGHT_BIT -DGRADIENT_BF16"},
       {"-DEIGHT_BIT -DROUNDED", "-DEIGHT_BIT -DROUNDED -DGRADIENT_BF16"}}};
  const bool eight_bit = args->out[1].count && args->out[1].dtype == AC_U8;
  return options[eight_bit][args->out[0].dtype == AC_BF16][args->in[0].dtype == AC_BF16];
}

/* Two arguments of a kernel: what the rounding of a parameter is keyed by. */
#define AC_CL_ROUNDING(args) \
  AC_CL_SEED((args)->run->seed ^ (args)->name_hash), AC_CL_UINT((args)->run->update)

#endif
