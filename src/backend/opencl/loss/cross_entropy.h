/* Softmax cross-entropy of rows of logits, for the op and for the one that makes logits in chunks.
 */
#ifndef AC_OPENCL_CROSS_ENTROPY_H
#define AC_OPENCL_CROSS_ENTROPY_H

#include "backend/opencl/shared/opencl.h"
#include "ops/loss/cross_entropy.h"

/* Some rows of logits: `count` from row `first` of the targets and weights (NULL: ones) on. The
 * logits, storage or with `float_logits` float, lie from element `first_logit` of their buffer on,
 * their rows `pitch` elements apart. Of each row two floats are kept, its largest logit and the log
 * of its sum, from element `first_extent` of their buffer on. */
typedef struct ac_cl_loss_rows {
  const ac_cross_entropy_attributes *attributes;
  const void *logits, *targets, *weights, *extents;
  int64_t count, width, pitch, first, first_logit, first_extent;
  float smoothing;
  bool float_logits;
  double soft_cap; /* 0: none */
} ac_cl_loss_rows;

/* Fills in extents, and (loss, weight, weight if right) of each row in `results`. */
ac_status ac_cl_row_losses(ac_opencl *cl, const ac_cl_loss_rows *rows, void *results);
/* dlogits, which lie where the logits do and may be these. */
ac_status ac_cl_row_gradients(ac_opencl *cl, const ac_cl_loss_rows *rows, void *dlogits,
                              float loss_scale);
/* Gradients of float logits, with 16 bits of storage: each row's are in the first half of its
 * logits. */
ac_status ac_cl_narrowed_row_gradients(ac_opencl *cl, const ac_cl_loss_rows *rows,
                                       float loss_scale);

#endif
