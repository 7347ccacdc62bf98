/* gradient_statistics and the optimizers. */
#include "ops/optimizer.h"

#include "backend/opencl/update.h"
#include "core/error.h"

/* Sixteen elements an item, or more: small gradients are one group, and so one launch. */
enum { MAX_GROUPS = 1024, EACH = 16 };

static int64_t statistics_groups(const ac_opencl *cl, int64_t n) {
  const int64_t share = cl->group * EACH, groups = (n + share - 1) / share;
  return groups < MAX_GROUPS ? groups : MAX_GROUPS;
}

/* (sum, flag) of each group, if there are several. */
static uint64_t gradient_statistics_workspace(ac_opencl *cl, const ac_op_args *args) {
  const int64_t groups = statistics_groups(cl, args->in[0].count);
  return groups > 1 ? 2 * sizeof(float) * (uint64_t)groups : 0;
}

static ac_status gradient_statistics(ac_opencl *cl, const ac_op_args *args) {
  const ac_gradient_statistics_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  const int64_t groups = statistics_groups(cl, g->count);
  const void *partial = groups > 1 ? args->workspace : args->out[0].data;
  AC_TRY(AC_CL_LAUNCH(cl,
                      ((ac_cl_kernel){"optimizer", "gradient_statistics",
                                      g->dtype == AC_BF16 ? "-DGRADIENT_BF16" : NULL}),
                      ac_cl_groups(groups, cl->group, 1), AC_CL_OPERAND(*g), AC_CL_BUFFER(partial),
                      AC_CL_LONG(g->count), AC_CL_FLOAT(a->scale)));
  if (groups == 1) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"optimizer", "gradient_statistics_total", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[0]), AC_CL_INT(groups));
}

static ac_status adamw(ac_opencl *cl, const ac_op_args *args) {
  const ac_adamw_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(
      cl, ac_cl_update_kernel(args, "optimizer", "adamw"), ac_cl_update_grid(cl, args),
      AC_CL_OPERAND(*g), AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
      AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]), AC_CL_LONG(g->count),
      AC_CL_ROUNDING(args), AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->rate * a->weight_decay),
      AC_CL_FLOAT(1 - a->beta1), AC_CL_FLOAT(1 - a->beta2), AC_CL_FLOAT(a->rate / a->correction1),
      AC_CL_FLOAT(1 / a->sqrt_correction2), AC_CL_FLOAT(a->epsilon));
}

static ac_status sgd(ac_opencl *cl, const ac_op_args *args) {
  const ac_sgd_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(cl, ac_cl_update_kernel(args, "optimizer", "sgd"),
                      ac_cl_update_grid(cl, args), AC_CL_OPERAND(*g), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[2]),
                      AC_CL_LONG(g->count), AC_CL_ROUNDING(args), AC_CL_FLOAT(a->gradient_factor),
                      AC_CL_FLOAT(a->rate), AC_CL_FLOAT(a->weight_decay), AC_CL_FLOAT(a->momentum),
                      AC_CL_INT(a->nesterov), AC_CL_INT(a->first));
}

const ac_cl_op ac_cl_op_gradient_statistics = {.run = gradient_statistics,
                                               .workspace = gradient_statistics_workspace};
const ac_cl_op ac_cl_op_adamw = {.run = adamw};
const ac_cl_op ac_cl_op_sgd = {.run = sgd};
