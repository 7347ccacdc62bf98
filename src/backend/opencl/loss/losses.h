/* The sums that losses are kept in, and losses that are means over the elements of samples. */
#ifndef AC_OPENCL_LOSSES_H
#define AC_OPENCL_LOSSES_H

#include "backend/opencl/shared/opencl.h"

/* Adds `n` rows of (loss, weight, weight if right) to the loss sums. */
ac_status ac_cl_sum_losses(ac_opencl *cl, const void *rows, int64_t n, const ac_operand *sums,
                           bool add);

/* Losses of samples: their operands are predictions [B,...], targets and weights[B]?. Their kernels
 * leave such rows in the workspace, one for each sample. In the gradient what comes before the
 * elements is multiplied with `factor` over the elements of a sample. */
uint64_t ac_cl_sample_losses_workspace(ac_opencl *cl, const ac_op_args *args);
ac_status ac_cl_sample_losses(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args);
ac_status ac_cl_sample_gradients(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args,
                                 float factor);

#endif
