/* gradient_statistics and the optimizers. */
#include "ops/optimizer.h"

#include "backend/opencl/stepped.h"
#include "core/eight_bit.h"
#include "core/error.h"

enum { MAX_GROUPS = 256 };

static int64_t statistics_groups(const ac_opencl *cl, int64_t n) {
  const int64_t groups = (n + cl->group - 1) / cl->group;
  return groups < MAX_GROUPS ? groups : MAX_GROUPS;
}

/* (sum, flag) of each group. */
static uint64_t gradient_statistics_workspace(ac_opencl *cl, const ac_op_args *args) {
  return 2 * sizeof(float) * (uint64_t)statistics_groups(cl, args->in[0].count);
}

static ac_status gradient_statistics(ac_opencl *cl, const ac_op_args *args) {
  const ac_gradient_statistics_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  const int64_t groups = statistics_groups(cl, g->count);
  AC_TRY(AC_CL_LAUNCH(cl,
                      ((ac_cl_kernel){"optimizer", "gradient_statistics",
                                      g->dtype == AC_BF16 ? "-DGRADIENT_BF16" : NULL}),
                      ac_cl_groups(groups, cl->group, 1), AC_CL_OPERAND(*g),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(g->count), AC_CL_FLOAT(a->scale)));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"optimizer", "gradient_statistics_total", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[0]), AC_CL_INT(groups));
}

/* With what is kept in 8 bits a work-group takes a block. */
static bool is_eight_bit(const ac_op_args *args) {
  return args->out[1].count && args->out[1].dtype == AC_U8;
}

static ac_cl_kernel kernel(const ac_op_args *args, const char *name) {
  return (ac_cl_kernel){"optimizer", name, ac_cl_step_options(args)};
}

static ac_cl_grid grid(const ac_opencl *cl, const ac_op_args *args) {
  const int64_t count = args->in[0].count;
  return is_eight_bit(args) ? ac_cl_groups(ac_eight_bit_blocks(count), cl->group, 1)
                            : ac_cl_elements(cl, count);
}

static ac_status adamw(ac_opencl *cl, const ac_op_args *args) {
  const ac_adamw_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(cl, kernel(args, "adamw"), grid(cl, args), AC_CL_OPERAND(*g),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]),
                      AC_CL_LONG(g->count), AC_CL_ROUNDING(args), AC_CL_FLOAT(a->gradient_factor),
                      AC_CL_FLOAT(a->rate * a->weight_decay), AC_CL_FLOAT(1 - a->beta1),
                      AC_CL_FLOAT(1 - a->beta2), AC_CL_FLOAT(a->rate / a->correction1),
                      AC_CL_FLOAT(a->sqrt_correction2), AC_CL_FLOAT(a->epsilon));
}

static ac_status sgd(ac_opencl *cl, const ac_op_args *args) {
  const ac_sgd_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(cl, kernel(args, "sgd"), grid(cl, args), AC_CL_OPERAND(*g),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_OPERAND(args->out[2]), AC_CL_LONG(g->count), AC_CL_ROUNDING(args),
                      AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->rate),
                      AC_CL_FLOAT(a->weight_decay), AC_CL_FLOAT(a->momentum),
                      AC_CL_INT(a->nesterov), AC_CL_INT(a->first));
}

const ac_cl_op ac_cl_op_gradient_statistics = {.run = gradient_statistics,
                                               .workspace = gradient_statistics_workspace};
const ac_cl_op ac_cl_op_adamw = {.run = adamw};
const ac_cl_op ac_cl_op_sgd = {.run = sgd};
