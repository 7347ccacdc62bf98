/* Lion's step. */
#include "ops/update/lion.h"

#include "backend/opencl/update/update.h"
#include "core/error.h"

static void lion_factors(const ac_op_args *args, float factors[AC_CL_FACTORS]) {
  const ac_lion_attributes *a = args->attributes;
  factors[0] = a->gradient_factor;
  factors[1] = a->rate;
  factors[2] = a->rate * a->weight_decay;
  factors[3] = a->beta1;
  factors[4] = a->take1;
  factors[5] = a->take2;
}

AC_CL_STEP_OP("lion", lion, 1);
