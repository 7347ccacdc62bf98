/* Attention on OpenCL devices: its shapes, and the way by matrix units. */
#ifndef AC_OPENCL_ATTENTION_H
#define AC_OPENCL_ATTENTION_H

#include "backend/opencl/opencl.h"
#include "core/random.h"
#include "ops/attention.h"

/* qkv [samples, positions, 3, heads, head_size] */
typedef struct ac_cl_attention {
  int64_t samples, positions, heads, head_size;
} ac_cl_attention;

/* Arguments of kernels: scale, then what the dropout mask is made from. */
#define AC_CL_MASK(a, run, p)                                                                  \
  AC_CL_FLOAT((a)->scale), AC_CL_SEED((run)->seed), AC_CL_UINT((run)->sample),                 \
      AC_CL_UINT((run)->update), AC_CL_UINT((a)->stream), AC_CL_UINT(ac_dropout_threshold(p)), \
      AC_CL_FLOAT(ac_dropout_factor(p))

/* ---- attention_scores.c ---------------------------------------------------------------------- */

/* Whether the device's matrix unit computes attention, or its gradient, stored in `storage`: found
 * out at any time, as the workspace depends on it. */
ac_status ac_cl_scores_take(ac_opencl *cl, const ac_cl_attention *s, ac_op op, ac_dtype storage,
                            bool *take);
uint64_t ac_cl_scores_workspace(const ac_opencl *cl, const ac_cl_attention *s, ac_op op);

/* These compute it, for args of attention and of its gradient. */
ac_status ac_cl_scores_forward(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args);
ac_status ac_cl_scores_gradient(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args);

#endif
