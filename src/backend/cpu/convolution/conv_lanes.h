/* Convolutions in which the columns of a product are samples (conv2d_lanes.c). */
#ifndef AC_BACKEND_CPU_CONV_LANES_H
#define AC_BACKEND_CPU_CONV_LANES_H

#include "backend/cpu/shared/kernels.h"

#define ac_conv_lanes_takes AC_CPU_NAME(ac_conv_lanes_takes)
#define ac_conv_lanes_floats AC_CPU_NAME(ac_conv_lanes_floats)
#define ac_conv_lanes_convolve AC_CPU_NAME(ac_conv_lanes_convolve)

/* Whether conv2d or its input gradient should go this way: a matter of operands, attributes and,
 * for bf16, whether there is a class of products (product/dot.h). */
bool ac_conv_lanes_takes(const ac_cpu_context *context, const ac_op_args *args);

/* Floats of workspace, for this many samples or fewer; 0 if none of these are computed here. */
int64_t ac_conv_lanes_floats(const ac_cpu_context *context, const ac_op_args *args);

/* A thread's part, of all threads of the team at once. */
void ac_conv_lanes_convolve(const ac_cpu_context *context, const ac_op_args *args, int thread,
                            int team);

#endif
