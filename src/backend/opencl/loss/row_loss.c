/* The sum of losses that were computed for each row, and its gradient. */
#include "ops/loss/row_loss.h"

#include "backend/opencl/loss/losses.h"
#include "core/error.h"

enum { PIECE = 4096 }; /* elements of a work-group, as in the kernel */

static int64_t pieces(const ac_op_args *args) {
  return ac_ceil_div(args->in[0].count, PIECE);
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 6 * sizeof(float) * (uint64_t)pieces(args);
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_row_loss_attributes *attributes = args->attributes;
  const int64_t n = args->in[0].count;
  const ac_row_loss_shape shape = ac_row_loss_shape_of(args, n, &args->in[1]);
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"row_loss", "row_loss", NULL}),
                      ac_cl_groups(pieces(args), cl->group, 1), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->in[1]), AC_CL_BUFFER(args->workspace), AC_CL_LONG(n),
                      AC_CL_LONG(shape.weights), AC_CL_LONG(shape.per_weight),
                      AC_CL_LONG(shape.rows_per_weight), AC_CL_FLOAT(attributes->factor)));
  return ac_cl_sum_losses(cl, args->workspace, 2 * pieces(args), &args->out[0], args->add[0]);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_row_loss_attributes *attributes = args->attributes;
  const int64_t n = args->out[0].count;
  const ac_row_loss_shape shape = ac_row_loss_shape_of(args, n, &args->in[0]);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"row_loss", "row_loss_gradient", NULL}),
                      ac_cl_elements(cl, n), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(n), AC_CL_LONG(shape.per_weight),
                      AC_CL_FLOAT(ac_loss_scale(args) * attributes->factor));
}

const ac_cl_op ac_cl_op_row_loss = {.run = forward, .workspace = workspace};
const ac_cl_op ac_cl_op_row_loss_gradient = {.run = gradient};
