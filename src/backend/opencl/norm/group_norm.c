/* group_norm and its gradient. */
#include "ops/norm/group_norm.h"

#include "backend/opencl/norm/channel_sums.h"
#include "core/error.h"

static int64_t groups_of(const ac_op_args *args) {
  return ((const ac_group_norm_attributes *)args->attributes)->groups;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_group_norm_attributes *a = args->attributes;
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const int64_t channels = shape.channels / a->groups, row = channels * shape.positions;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"group_norm", "group_norm", ac_cl_row_options(cl, row)}),
                      ac_cl_rows(cl, shape.samples * a->groups, row), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_LONG(a->groups), AC_CL_LONG(channels), AC_CL_LONG(shape.positions),
                      AC_CL_FLOAT(a->epsilon));
}

/* Sums of dy h and of dy of each sample's channels, which are chunks of one sample. */
static ac_cl_chunks chunks_of(const ac_channels *shape) {
  return (ac_cl_chunks){shape->samples, 1};
}

/* These sums, and after them the two means of each row. */
static uint64_t gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const ac_channels shape = ac_channels_of(&args->in[0]);
  return 2 * sizeof(float) * (uint64_t)(shape.samples * (shape.channels + groups_of(args)));
}

static ac_status input_gradient(ac_opencl *cl, const ac_op_args *args, const ac_channels *shape) {
  const int64_t groups = groups_of(args), channels = shape->channels / groups;
  const int64_t row = channels * shape->positions;
  const int64_t rows = shape->samples * groups, first_mean = 2 * shape->samples * shape->channels;
  AC_TRY(AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"group_norm", "group_norm_means", ac_cl_row_options(cl, row)}),
      ac_cl_elements(cl, rows), AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->in[3]),
      AC_CL_LONG(rows), AC_CL_LONG(groups), AC_CL_LONG(channels), AC_CL_LONG(shape->positions),
      AC_CL_LONG(first_mean)));
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"group_norm", "group_norm_input_gradient", ac_cl_row_options(cl, row)}),
      ac_cl_elements(cl, args->in[0].count), AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->in[3]), AC_CL_BUFFER(args->workspace),
      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(args->in[0].count), AC_CL_LONG(groups),
      AC_CL_LONG(channels), AC_CL_LONG(shape->positions), AC_CL_LONG(first_mean),
      AC_CL_INT(args->add[0]));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const ac_cl_chunks chunks = chunks_of(&shape);
  AC_TRY(ac_cl_channel_gradient_sums(cl, &shape, chunks, groups_of(args), args));
  for (int i = 0; i < 2; i++) /* dgamma from the second half, dbeta from the first */
    if (args->out[1 + i].count)
      AC_TRY(ac_cl_add_chunks(cl, args->workspace, (1 - i) * chunks.count, chunks.count,
                              shape.channels, args->out[1 + i].data, args->add[1 + i]));
  return args->out[0].count ? input_gradient(cl, args, &shape) : AC_OK;
}

const ac_cl_op ac_cl_op_group_norm = {.run = forward};
const ac_cl_op ac_cl_op_group_norm_gradient = {.run = gradient, .workspace = gradient_workspace};
