/* layer_norm and its gradients. */
#include "ops/norm/layer_norm.h"

#include "backend/opencl/shared/sums.h"
#include "core/error.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_layer_norm_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"layer_norm", "layer_norm", ac_cl_row_options(cl, ac_columns(x))}),
      ac_cl_rows(cl, ac_rows(x), ac_columns(x)), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
      AC_CL_LONG(ac_columns(x)), AC_CL_FLOAT(a->epsilon));
}

static ac_status input_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0];
  return AC_CL_LAUNCH(cl,
                      ((ac_cl_kernel){"layer_norm", "layer_norm_input_gradient",
                                      ac_cl_row_options(cl, ac_columns(dy))}),
                      ac_cl_rows(cl, ac_rows(dy), ac_columns(dy)), AC_CL_OPERAND(*dy),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(ac_columns(dy)), AC_CL_INT(args->add[0]));
}

/* Partial sums of each chunk of rows, for gamma and then for beta. */
static uint64_t parameter_gradient_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const ac_operand *dy = &args->in[0];
  return 2 * sizeof(float) * (uint64_t)ac_columns(dy) * (uint64_t)ac_cl_most_chunks(ac_rows(dy));
}

static ac_status parameter_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0];
  const int64_t m = ac_rows(dy), n = ac_columns(dy);
  const ac_cl_chunks chunks = ac_cl_row_chunks(m);
  AC_TRY(AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"layer_norm", "layer_norm_columns", ac_cl_row_options(cl, n)}),
      ac_cl_groups((n + 31) / 32 * chunks.count, 32, ac_cl_lanes(cl)), AC_CL_OPERAND(*dy),
      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]), AC_CL_BUFFER(args->workspace),
      AC_CL_LONG(m), AC_CL_LONG(n), AC_CL_LONG(chunks.rows), AC_CL_LONG(chunks.count)));
  for (int i = 0; i < 2; i++)
    if (args->out[i].count)
      AC_TRY(ac_cl_add_chunks(cl, args->workspace, i * chunks.count, chunks.count, n,
                              args->out[i].data, args->add[i]));
  return AC_OK;
}

const ac_cl_op ac_cl_op_layer_norm = {.run = forward};
const ac_cl_op ac_cl_op_layer_norm_input_gradient = {.run = input_gradient};
const ac_cl_op ac_cl_op_layer_norm_parameter_gradient = {.run = parameter_gradient,
                                                         .workspace = parameter_gradient_workspace};
