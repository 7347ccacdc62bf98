/** @file
 * Clipping: which part of the gradients ac_optimizer_desc.clip limits. */
#ifndef ACCRUE_CLIPPING_H
#define ACCRUE_CLIPPING_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

/** What ac_optimizer_desc.clip limits. The last two change each parameter's gradient before its
 * step, in one more pass over it. They need gradients and weights in f32, and do not work with
 * AC_GRADIENTS_FOLDED. */
typedef enum AC_UNSTABLE(ac_clipping) {
  /** The norm of all gradients together; with AC_GRADIENTS_FUSED_LOCAL the norm of each
   * parameter's. */
  AC_UNSTABLE(AC_CLIP_NORM) = 0,
  AC_UNSTABLE(AC_CLIP_EACH),  /**< The norm of each parameter's gradient by itself. */
  AC_UNSTABLE(AC_CLIP_VALUE), /**< Each element, to [-clip, clip]. */
  /** The norm of the gradient of each output of a layer, to clip x the norm of its weights, which
   * counts as at least 1e-3; arXiv 2102.06171. An output is a filter, a row of weights [out, in], a
   * column of [in, out], a row of a table, or a whole vector. */
  AC_UNSTABLE(AC_CLIP_ADAPTIVE)
} AC_UNSTABLE(ac_clipping);

#ifdef __cplusplus
}
#endif
#endif
