/* Signum's step. */
#include "ops/update/signum.h"

#include "backend/opencl/update/update.h"
#include "core/error.h"

static void signum_factors(const ac_op_args *args, float factors[AC_CL_FACTORS]) {
  const ac_signum_attributes *a = args->attributes;
  factors[0] = a->gradient_factor;
  factors[1] = a->rate;
  factors[2] = a->rate * a->weight_decay;
  factors[3] = a->take;
}

AC_CL_STEP_OP("signum", signum, 1);
