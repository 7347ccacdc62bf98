/* batch_norm, its gradient, and its running statistics. */
#include "ops/norm/batch_norm.h"

#include "backend/opencl/norm/channel_sums.h"
#include "core/error.h"

static float epsilon_of(const ac_op_args *args) {
  return ((const ac_batch_norm_attributes *)args->attributes)->epsilon;
}

static bool is_frozen(const ac_op_args *args) {
  return ((const ac_batch_norm_attributes *)args->attributes)->frozen;
}

static ac_cl_kernel kernel_of(const ac_opencl *cl, const char *name, const ac_channels *shape) {
  return (ac_cl_kernel){"batch_norm", name,
                        ac_cl_row_options(cl, ac_cl_sample_chunks(shape).rows * shape->positions)};
}

/* Two floats of each channel of a chunk. */
static uint64_t workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  const ac_channels shape = ac_channels_of(&args->in[0]);
  return 2 * sizeof(float) * (uint64_t)(ac_cl_sample_chunks(&shape).count * shape.channels);
}

static ac_status batch_statistics(ac_opencl *cl, const ac_op_args *args, const ac_channels *shape) {
  const ac_cl_chunks chunks = ac_cl_sample_chunks(shape);
  AC_TRY(AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm_moments", shape),
      ac_cl_rows(cl, chunks.count * shape->channels, chunks.rows * shape->positions),
      AC_CL_OPERAND(args->in[0]), AC_CL_BUFFER(args->workspace), AC_CL_LONG(shape->samples),
      AC_CL_LONG(shape->channels), AC_CL_LONG(shape->positions), AC_CL_LONG(chunks.rows),
      AC_CL_LONG(chunks.count)));
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm_statistics", shape), ac_cl_elements(cl, shape->channels),
      AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[2]),
      AC_CL_LONG(shape->samples), AC_CL_LONG(shape->channels), AC_CL_LONG(shape->positions),
      AC_CL_LONG(chunks.rows), AC_CL_LONG(chunks.count), AC_CL_FLOAT(epsilon_of(args)));
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const bool measured = args->run->training && !is_frozen(args);
  if (measured || (cl->preparing && !is_frozen(args))) AC_TRY(batch_statistics(cl, args, &shape));
  if (cl->preparing || !measured)
    AC_TRY(AC_CL_LAUNCH(
        cl, kernel_of(cl, "batch_norm_running", &shape), ac_cl_elements(cl, shape.channels),
        AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[4]), AC_CL_OPERAND(args->out[1]),
        AC_CL_OPERAND(args->out[2]), AC_CL_LONG(shape.channels), AC_CL_FLOAT(epsilon_of(args))));
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm", &shape), ac_cl_elements(cl, args->in[0].count),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(args->in[0].count),
      AC_CL_LONG(shape.channels), AC_CL_LONG(shape.positions));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const ac_cl_chunks chunks = ac_cl_sample_chunks(&shape);
  const bool summed = !is_frozen(args) || args->out[1].count || args->out[2].count;
  if (summed) AC_TRY(ac_cl_channel_gradient_sums(cl, &shape, chunks, 0, args));
  AC_TRY(AC_CL_LAUNCH(cl, kernel_of(cl, "batch_norm_totals", &shape),
                      ac_cl_elements(cl, shape.channels), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[1]), AC_CL_OPERAND(args->out[2]),
                      AC_CL_LONG(shape.channels), AC_CL_LONG(chunks.count),
                      AC_CL_FLOAT(shape.samples * shape.positions), AC_CL_INT(is_frozen(args)),
                      AC_CL_INT(args->add[1]), AC_CL_INT(args->add[2])));
  if (!args->out[0].count) return AC_OK;
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm_input_gradient", &shape), ac_cl_elements(cl, args->in[0].count),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->in[3]), AC_CL_BUFFER(args->workspace), AC_CL_OPERAND(args->out[0]),
      AC_CL_LONG(args->in[0].count), AC_CL_LONG(shape.channels), AC_CL_LONG(shape.positions),
      AC_CL_LONG(chunks.count), AC_CL_INT(args->add[0]));
}

/* Kernels of one work-item a channel share the program of small channels. */
static ac_cl_kernel small_kernel(const ac_opencl *cl, const char *name) {
  return (ac_cl_kernel){"batch_norm", name, ac_cl_row_options(cl, 1)};
}

static ac_status pool(ac_opencl *cl, const ac_op_args *args) {
  const ac_batch_norm_pool_attributes *a = args->attributes;
  const int64_t channels = args->in[0].dim[0];
  return AC_CL_LAUNCH(cl, small_kernel(cl, "batch_norm_pool"), ac_cl_elements(cl, channels),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(channels),
                      AC_CL_FLOAT(args->run->batch * a->per_sample), AC_CL_INT(args->add[0]));
}

static ac_status update(ac_opencl *cl, const ac_op_args *args) {
  const ac_batch_norm_update_attributes *a = args->attributes;
  const int64_t channels = args->in[0].dim[0];
  return AC_CL_LAUNCH(cl, small_kernel(cl, "batch_norm_update"), ac_cl_elements(cl, channels),
                      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[0]),
                      AC_CL_OPERAND(args->out[1]), AC_CL_LONG(channels), AC_CL_FLOAT(a->momentum));
}

/* ---- over a window --------------------------------------------------------------------------- */

static ac_status gather_moments(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const ac_cl_chunks chunks = ac_cl_sample_chunks(&shape);
  AC_TRY(AC_CL_LAUNCH(cl, kernel_of(cl, "batch_norm_moments", &shape),
                      ac_cl_rows(cl, chunks.count * shape.channels, chunks.rows * shape.positions),
                      AC_CL_OPERAND(args->in[0]), AC_CL_BUFFER(args->workspace),
                      AC_CL_LONG(shape.samples), AC_CL_LONG(shape.channels),
                      AC_CL_LONG(shape.positions), AC_CL_LONG(chunks.rows),
                      AC_CL_LONG(chunks.count)));
  return AC_CL_LAUNCH(cl, kernel_of(cl, "batch_norm_gather_moments", &shape),
                      ac_cl_elements(cl, shape.channels), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(shape.samples),
                      AC_CL_LONG(shape.channels), AC_CL_LONG(shape.positions),
                      AC_CL_LONG(chunks.rows), AC_CL_LONG(chunks.count), AC_CL_INT(args->add[0]));
}

static ac_status settle_statistics(ac_opencl *cl, const ac_op_args *args) {
  const int64_t channels = args->in[1].count;
  if (args->run->training || cl->preparing)
    AC_TRY(AC_CL_LAUNCH(cl, small_kernel(cl, "batch_norm_settle"), ac_cl_elements(cl, channels),
                        AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->out[0]),
                        AC_CL_LONG(channels), AC_CL_FLOAT(epsilon_of(args))));
  if (args->run->training && !cl->preparing) return AC_OK;
  return AC_CL_LAUNCH(cl, small_kernel(cl, "batch_norm_running"), ac_cl_elements(cl, channels),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_BUFFER(NULL), AC_CL_LONG(channels),
                      AC_CL_FLOAT(epsilon_of(args)));
}

static ac_status apply(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm", &shape), ac_cl_elements(cl, args->in[0].count),
      AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
      AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(args->in[0].count),
      AC_CL_LONG(shape.channels), AC_CL_LONG(shape.positions));
}

static ac_status gather_sums(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  const ac_cl_chunks chunks = ac_cl_sample_chunks(&shape);
  AC_TRY(ac_cl_channel_gradient_sums(cl, &shape, chunks, 0, args));
  return AC_CL_LAUNCH(cl, kernel_of(cl, "batch_norm_gather_sums", &shape),
                      ac_cl_elements(cl, shape.channels), AC_CL_BUFFER(args->workspace),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(shape.channels),
                      AC_CL_LONG(chunks.count), AC_CL_INT(args->add[0]));
}

static ac_status window_input_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_channels shape = ac_channels_of(&args->in[0]);
  return AC_CL_LAUNCH(
      cl, kernel_of(cl, "batch_norm_window_input_gradient", &shape),
      ac_cl_elements(cl, args->in[0].count), AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->in[4]),
      AC_CL_OPERAND(args->in[5]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(args->in[0].count),
      AC_CL_LONG(shape.channels), AC_CL_LONG(shape.positions), AC_CL_INT(args->add[0]));
}

static ac_status window_parameter_gradient(ac_opencl *cl, const ac_op_args *args) {
  const int64_t channels = args->in[0].dim[0];
  return AC_CL_LAUNCH(cl, small_kernel(cl, "batch_norm_window_parameter_gradient"),
                      ac_cl_elements(cl, channels), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_LONG(channels), AC_CL_INT(!args->run->counts_elsewhere),
                      AC_CL_INT(args->add[0]), AC_CL_INT(args->add[1]));
}

const ac_cl_op ac_cl_op_batch_norm = {.run = forward, .workspace = workspace};
const ac_cl_op ac_cl_op_batch_norm_gradient = {.run = gradient, .workspace = workspace};
const ac_cl_op ac_cl_op_batch_norm_pool = {.run = pool};
const ac_cl_op ac_cl_op_batch_norm_update = {.run = update};
const ac_cl_op ac_cl_op_batch_norm_moments = {.run = gather_moments, .workspace = workspace};
const ac_cl_op ac_cl_op_batch_norm_statistics = {.run = settle_statistics};
const ac_cl_op ac_cl_op_batch_norm_apply = {.run = apply};
const ac_cl_op ac_cl_op_batch_norm_sums = {.run = gather_sums, .workspace = workspace};
const ac_cl_op ac_cl_op_batch_norm_input_gradient = {.run = window_input_gradient};
const ac_cl_op ac_cl_op_batch_norm_parameter_gradient = {.run = window_parameter_gradient};
