#include "backend/opencl/norm/channel_sums.h"

/* Elements of a channel that a work-group goes through, unless one sample has more. */
enum { CHUNK_ELEMENTS = 4096 };

ac_cl_chunks ac_cl_sample_chunks(const ac_channels *shape) {
  int64_t samples = shape->positions > 0 ? CHUNK_ELEMENTS / shape->positions : 1;
  if (samples < 1) samples = 1;
  return (ac_cl_chunks){(shape->samples + samples - 1) / samples, samples};
}

ac_status ac_cl_channel_gradient_sums(ac_opencl *cl, const ac_channels *shape, ac_cl_chunks chunks,
                                      int64_t groups, const ac_op_args *args) {
  const int64_t row = chunks.rows * shape->positions;
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"channel_sums", "channel_gradient_sums", ac_cl_row_options(cl, row)}),
      ac_cl_rows(cl, chunks.count * shape->channels, row), AC_CL_OPERAND(args->in[0]),
      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]), AC_CL_BUFFER(args->workspace),
      AC_CL_LONG(shape->samples), AC_CL_LONG(shape->channels), AC_CL_LONG(shape->positions),
      AC_CL_LONG(chunks.rows), AC_CL_LONG(chunks.count), AC_CL_LONG(groups));
}
