/* Sums over samples and positions of each channel, in chunks of samples. */
#ifndef AC_OPENCL_CHANNEL_SUMS_H
#define AC_OPENCL_CHANNEL_SUMS_H

#include "backend/opencl/shared/sums.h"
#include "ops/norm/channels.h"

/* The samples of images in chunks, for sums over samples and positions; counted like rows. */
ac_cl_chunks ac_cl_sample_chunks(const ac_channels *shape);

/* For a norm's gradient with args that begin with dy, x and statistics: sums [2, chunks, channels]
 * of dy and of dy h into the workspace. `groups` 0: the statistics are those of channels; else
 * those of groups of channels, and a chunk is one sample. */
ac_status ac_cl_channel_gradient_sums(ac_opencl *cl, const ac_channels *shape, ac_cl_chunks chunks,
                                      int64_t groups, const ac_op_args *args);

#endif
