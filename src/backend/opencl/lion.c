/* Lion's step. */
#include "ops/lion.h"

#include "backend/opencl/update.h"
#include "core/error.h"

static void lion_factors(const ac_op_args *args, float factors[AC_CL_FACTORS]) {
  const ac_lion_attributes *a = args->attributes;
  factors[0] = a->gradient_factor;
  factors[1] = a->rate;
  factors[2] = a->rate * a->weight_decay;
  factors[3] = a->beta1;
  factors[4] = 1 - a->beta1;
  factors[5] = 1 - a->beta2;
}

static const ac_cl_step lion_step = {"lion", "lion", "lion_each", 1, lion_factors};

static ac_status lion(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_update(cl, args, &lion_step);
}

static ac_status lion_each(ac_opencl *cl, const ac_op_args *const *args, int count) {
  return ac_cl_update_each(cl, args, count, &lion_step);
}

const ac_cl_op ac_cl_op_lion = {.run = lion, .run_joined = lion_each, .joins = ac_cl_update_joins};
