/* gradient_statistics and the optimizers. */
#include "ops/update/optimizer.h"

#include "backend/opencl/update/update.h"
#include "core/error.h"

static const char *options_of(const ac_op_args *args) {
  return args->in[0].dtype == AC_BF16 ? "-DGRADIENT_BF16" : NULL;
}

/* (sum, flag) of each group, if there are several. */
static uint64_t gradient_statistics_workspace(ac_opencl *cl, const ac_op_args *args) {
  const int64_t groups = ac_cl_some_groups(cl, args->in[0].count);
  return groups > 1 ? 2 * sizeof(float) * (uint64_t)groups : 0;
}

static ac_status gradient_statistics(ac_opencl *cl, const ac_op_args *args) {
  const ac_gradient_statistics_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  const int64_t groups = ac_cl_some_groups(cl, g->count);
  const void *partial = groups > 1 ? args->workspace : args->out[0].data;
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"optimizer", "gradient_statistics", options_of(args)}),
                      ac_cl_groups(groups, cl->group, 1), AC_CL_OPERAND(*g), AC_CL_BUFFER(partial),
                      AC_CL_LONG(g->count), AC_CL_FLOAT(a->scale)));
  if (groups == 1) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"optimizer", "gradient_statistics_total", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[0]), AC_CL_INT(groups));
}

static bool is_one_group(const ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_some_groups(cl, args->in[0].count) == 1;
}

static ac_status gradient_statistics_each(ac_opencl *cl, const ac_op_args *const *args, int count) {
  enum { SLOT = 4 };
  ac_cl_argument arguments[AC_CL_JOINED * SLOT];
  for (int i = 0; i < AC_CL_JOINED; i++) {
    /* After the last there are no groups. */
    const ac_op_args *own = args[i < count ? i : 0];
    const ac_gradient_statistics_attributes *a = own->attributes;
    ac_cl_argument *slot = &arguments[i * SLOT];
    slot[0] = AC_CL_OPERAND(own->in[0]);
    slot[1] = AC_CL_OPERAND(own->out[0]);
    slot[2] = AC_CL_LONG(own->in[0].count);
    slot[3] = AC_CL_FLOAT(a->scale);
  }
  return ac_cl_launch(cl,
                      (ac_cl_kernel){"optimizer", "gradient_statistics_each", options_of(args[0])},
                      ac_cl_groups(count, cl->group, 1), arguments, AC_CL_JOINED * SLOT);
}

static void adamw_factors(const ac_op_args *args, float factors[AC_CL_FACTORS]) {
  const ac_adamw_attributes *a = args->attributes;
  factors[0] = a->gradient_factor;
  factors[1] = a->rate * a->weight_decay;
  factors[2] = a->take1;
  factors[3] = a->take2;
  factors[4] = a->rate / a->correction1;
  factors[5] = 1 / a->sqrt_correction2;
  factors[6] = a->epsilon;
}

AC_CL_STEP_OP("optimizer", adamw, 2);

static void sgd_factors(const ac_op_args *args, float factors[AC_CL_FACTORS]) {
  const ac_sgd_attributes *a = args->attributes;
  factors[0] = a->gradient_factor;
  factors[1] = a->rate;
  factors[2] = a->weight_decay;
  factors[3] = a->momentum;
  factors[4] = a->nesterov;
  factors[5] = a->first;
}

AC_CL_STEP_OP("optimizer", sgd, 1);

const ac_cl_op ac_cl_op_gradient_statistics = {.run = gradient_statistics,
                                               .run_joined = gradient_statistics_each,
                                               .joins = is_one_group,
                                               .workspace = gradient_statistics_workspace};
