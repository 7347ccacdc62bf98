/* What the steps of parameters share. */
#ifndef AC_BACKEND_OPENCL_STEPPED_H
#define AC_BACKEND_OPENCL_STEPPED_H

#include "backend/opencl/opencl.h"

/* What is kept may be in blocks of 8 bits, the parameter in bf16. */
static inline const char *ac_cl_step_options(const ac_op_args *args) {
  const bool eight_bit = args->out[1].count && args->out[1].dtype == AC_U8;
  if (args->out[0].dtype == AC_BF16) return eight_bit ? "-DEIGHT_BIT -DROUNDED" : "-DROUNDED";
  return eight_bit ? "-DEIGHT_BIT" : NULL;
}

/* Two arguments of a kernel: what the rounding of a parameter is keyed by. */
#define AC_CL_ROUNDING(args) \
  AC_CL_SEED((args)->run->seed ^ (args)->name_hash), AC_CL_UINT((args)->run->update)

#endif
