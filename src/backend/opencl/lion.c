/* Lion's step. */
#include "ops/lion.h"

#include "backend/opencl/stepped.h"
#include "core/error.h"

static ac_status lion(ac_opencl *cl, const ac_op_args *args) {
  const ac_lion_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"lion", "lion", ac_cl_step_options(args)}),
                      ac_cl_elements(cl, g->count), AC_CL_OPERAND(*g), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[2]),
                      AC_CL_LONG(g->count), AC_CL_ROUNDING(args), AC_CL_FLOAT(a->gradient_factor),
                      AC_CL_FLOAT(a->rate), AC_CL_FLOAT(a->rate * a->weight_decay),
                      AC_CL_FLOAT(a->beta1), AC_CL_FLOAT(1 - a->beta1), AC_CL_FLOAT(1 - a->beta2));
}

const ac_cl_op ac_cl_op_lion = {.run = lion};
