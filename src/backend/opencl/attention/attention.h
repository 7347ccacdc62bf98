/* Attention on OpenCL devices: its shapes, and the way by matrix units. */
#ifndef AC_OPENCL_ATTENTION_H
#define AC_OPENCL_ATTENTION_H

#include "backend/opencl/shared/opencl.h"
#include "core/random.h"
#include "ops/attention/attention.h"

/* qkv [samples, positions, 3, heads, head_size] */
typedef struct ac_cl_attention {
  int64_t samples, positions, heads, head_size;
} ac_cl_attention;

static inline const ac_attention_attributes *ac_cl_attention_attributes(const ac_op_args *args) {
  return args->attributes;
}

static inline float ac_cl_dropout(const ac_op_args *args) {
  return args->run->training ? ac_cl_attention_attributes(args)->dropout : 0;
}

/* Arguments of kernels: scale, then what the dropout mask is made from. */
#define AC_CL_MASK(args)                                                               \
  AC_CL_FLOAT(ac_cl_attention_attributes(args)->scale), AC_CL_SEED((args)->run->seed), \
      AC_CL_UINT((args)->run->sample), AC_CL_UINT((args)->run->update),                \
      AC_CL_UINT(ac_cl_attention_attributes(args)->stream),                            \
      AC_CL_UINT(ac_dropout_threshold(ac_cl_dropout(args))),                           \
      AC_CL_FLOAT(ac_dropout_factor(ac_cl_dropout(args)))

/* ---- attention_scores.c ---------------------------------------------------------------------- */

/* Whether the device's matrix unit computes attention, or its gradient, stored in `storage`: found
 * out at any time, because the workspace depends on it. */
ac_status ac_cl_scores_take(ac_opencl *cl, const ac_cl_attention *s, ac_op op, ac_dtype storage,
                            bool *take);
uint64_t ac_cl_scores_workspace(const ac_opencl *cl, const ac_cl_attention *s, ac_op op);

/* These compute it, for args of attention and of its gradient. */
ac_status ac_cl_scores_forward(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args);
ac_status ac_cl_scores_gradient(ac_opencl *cl, const ac_cl_attention *s, const ac_op_args *args);

#endif
