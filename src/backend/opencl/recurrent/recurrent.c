/* Recurrent layers: a launch for each position, and one for the gradients of parameters. */
#include "ops/recurrent/recurrent.h"

#include "backend/opencl/shared/opencl.h"
#include "core/align.h"
#include "core/error.h"

static int64_t first_of(const ac_op_args *args) {
  return ((const ac_recurrent_attributes *)args->attributes)->first;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const int64_t items = r.samples * r.units;
  for (int64_t i = 0; i < r.positions; i++)
    AC_TRY(AC_CL_LAUNCH(
        cl, ((ac_cl_kernel){"recurrent", "recurrent_forward", NULL}), ac_cl_elements(cl, items),
        AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
        AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[4]), AC_CL_OPERAND(args->out[0]),
        AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]),
        AC_CL_LONG(items), AC_CL_LONG(r.reversed ? r.positions - 1 - i : i),
        AC_CL_LONG(r.positions), AC_CL_LONG(r.units), AC_CL_LONG(first_of(args)),
        AC_CL_INT(r.reversed), AC_CL_INT(r.cell), AC_CL_INT(i == 0)));
  return AC_OK;
}

/* Where things begin in the workspace, in floats, after the gradients that steps carry. */
typedef struct room {
  int64_t own, gates, total;
} room;

static int64_t floats_of(const ac_recurrence *r, int64_t elements) {
  const uint64_t bytes = (uint64_t)elements * ac_dtype_bytes(r->y->dtype);
  return (int64_t)(ac_align(bytes, AC_LINE_BYTES) / sizeof(float));
}

static room room_of(const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const int64_t steps = r.samples * r.positions * r.units;
  const uint64_t carried =
      (uint64_t)(r.samples * ac_recurrent_states(r.cell) * r.units) * sizeof(float);
  room at = {.own = (int64_t)(ac_align(carried, AC_LINE_BYTES) / sizeof(float))};
  at.gates = at.own + (r.cell == AC_CELL_GRU ? floats_of(&r, steps) : 0);
  at.total = at.gates + (args->out[0].count ? 0 : floats_of(&r, steps * r.gates));
  return at;
}

static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return (uint64_t)room_of(args).total * sizeof(float);
}

static ac_status step(ac_opencl *cl, const ac_op_args *args, int64_t t, bool begins) {
  const ac_recurrence r = ac_recurrence_of(args);
  const room at = room_of(args);
  const int64_t items = r.samples * r.units;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"recurrent", "recurrent_backward", NULL}), ac_cl_elements(cl, items),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[4]), AC_CL_OPERAND(args->in[5]),
      AC_CL_OPERAND(args->in[6]), AC_CL_OPERAND(args->in[7]), AC_CL_OPERAND(args->out[0]),
      AC_CL_BUFFER(args->workspace), AC_CL_LONG(at.own), AC_CL_LONG(at.gates), AC_CL_LONG(items),
      AC_CL_LONG(t), AC_CL_LONG(r.positions), AC_CL_LONG(r.units), AC_CL_LONG(first_of(args)),
      AC_CL_INT(r.reversed), AC_CL_INT(r.cell), AC_CL_INT(begins));
}

static ac_status state(ac_opencl *cl, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const room at = room_of(args);
  const int64_t items = r.samples * r.units;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"recurrent", "recurrent_state", NULL}), ac_cl_elements(cl, items),
      AC_CL_OPERAND(args->in[5]), AC_CL_OPERAND(args->in[7]), AC_CL_OPERAND(args->out[0]),
      AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->out[1]), AC_CL_LONG(at.own),
      AC_CL_LONG(at.gates), AC_CL_LONG(items), AC_CL_LONG(r.positions), AC_CL_LONG(r.units),
      AC_CL_LONG(first_of(args)), AC_CL_INT(r.reversed), AC_CL_INT(r.cell));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const room at = room_of(args);
  for (int64_t i = 0; i < r.positions; i++)
    AC_TRY(step(cl, args, r.reversed ? i : r.positions - 1 - i, i == 0));
  if (args->out[1].count) AC_TRY(state(cl, args));
  if (!args->out[2].count && !args->out[3].count) return AC_OK;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"recurrent", "recurrent_weights", NULL}),
      ac_cl_elements(cl, r.gates * r.units * (r.units + 1)), AC_CL_OPERAND(args->in[3]),
      AC_CL_OPERAND(args->in[6]), AC_CL_OPERAND(args->in[7]), AC_CL_OPERAND(args->out[0]),
      AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->out[2]), AC_CL_OPERAND(args->out[3]),
      AC_CL_LONG(at.own), AC_CL_LONG(at.gates), AC_CL_LONG(r.samples), AC_CL_LONG(r.positions),
      AC_CL_LONG(r.units), AC_CL_LONG(first_of(args)), AC_CL_INT(r.reversed), AC_CL_INT(r.cell),
      AC_CL_INT(args->add[2]), AC_CL_INT(args->add[3]));
}

const ac_cl_op ac_cl_op_recurrent = {.run = forward};
const ac_cl_op ac_cl_op_recurrent_gradient = {.run = gradient, .workspace = workspace};
