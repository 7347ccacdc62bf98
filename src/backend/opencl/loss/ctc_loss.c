/* Connectionist temporal classification, and its gradient. */
#include "ops/loss/ctc_loss.h"

#include "backend/opencl/loss/losses.h"
#include "core/error.h"

/* Where things begin in the workspace, in floats: after the losses of samples. */
typedef struct room {
  int64_t factors, a, b, total;
} room;

static room room_of(const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const bool forward = args->op == AC_OP_ctc_loss;
  const int64_t row = shape.samples * ac_ctc_loss_states(args);
  room r = {.factors = 3 * shape.samples};
  r.a = r.factors + shape.samples;
  r.b = r.a + row * (forward ? 2 : shape.positions);
  r.total = r.b + (forward ? 0 : 2 * row);
  return r;
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return (uint64_t)room_of(args).total * sizeof(float);
}

/* All kernels take rows of the same length for one, so that they are compiled once. */
static ac_cl_kernel kernel_of(const ac_opencl *cl, const ac_op_args *args, const char *name) {
  return (ac_cl_kernel){"ctc_loss", name, ac_cl_row_options(cl, args->in[0].dim[2])};
}

static ac_cl_grid rows_of(const ac_opencl *cl, const ac_op_args *args, int64_t count) {
  return ac_cl_rows(cl, count, args->in[0].dim[2]);
}

/* The rows a[t]. The last `rows` are kept. */
static ac_status find_states(ac_opencl *cl, const ac_op_args *args, const ac_operand *extents,
                             int64_t rows) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const ac_ctc_loss_attributes *attributes = args->attributes;
  const room r = room_of(args);
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, args, "ctc_forward"), rows_of(cl, args, shape.samples),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[4]), AC_CL_OPERAND(*extents),
      AC_CL_BUFFER(args->workspace), AC_CL_LONG(r.factors), AC_CL_LONG(r.a),
      AC_CL_INT(shape.positions), AC_CL_INT(shape.classes), AC_CL_INT(shape.targets),
      AC_CL_INT(attributes->blank), AC_CL_INT(attributes->zero_infinity), AC_CL_INT(rows),
      AC_CL_FLOAT(ac_loss_scale(args)));
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  AC_TRY(AC_CL_LAUNCH(
      cl, kernel_of(cl, args, "ctc_extents"), rows_of(cl, args, shape.samples * shape.positions),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[1]), AC_CL_INT(shape.classes)));
  if (!args->out[0].count) return AC_OK;
  AC_TRY(find_states(cl, args, &args->out[1], 2));
  return ac_cl_sum_losses(cl, args->workspace, shape.samples, &args->out[0], args->add[0]);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  const ac_ctc_loss_attributes *attributes = args->attributes;
  const room r = room_of(args);
  AC_TRY(find_states(cl, args, &args->in[5], shape.positions));
  AC_TRY(AC_CL_LAUNCH(cl, kernel_of(cl, args, "ctc_backward"), rows_of(cl, args, shape.samples),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
                      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->in[3]),
                      AC_CL_OPERAND(args->in[5]), AC_CL_BUFFER(args->workspace), AC_CL_LONG(r.a),
                      AC_CL_LONG(r.b), AC_CL_INT(shape.positions), AC_CL_INT(shape.classes),
                      AC_CL_INT(shape.targets), AC_CL_INT(attributes->blank)));
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, args, "ctc_gradient"), rows_of(cl, args, shape.samples * shape.positions),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[5]), AC_CL_BUFFER(args->workspace),
      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(r.factors), AC_CL_LONG(r.a),
      AC_CL_INT(shape.positions), AC_CL_INT(shape.classes), AC_CL_INT(shape.targets),
      AC_CL_INT(attributes->blank));
}

/* Positions, classes and targets are counted in 32 bits. */
static bool fits(const ac_op_args *args) {
  return args->in[0].dim[2] <= INT32_MAX;
}

const ac_cl_op ac_cl_op_ctc_loss = {.run = forward, .workspace = workspace, .fits = fits};
const ac_cl_op ac_cl_op_ctc_loss_gradient = {.run = gradient, .workspace = workspace, .fits = fits};
