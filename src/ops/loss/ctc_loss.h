#ifndef AC_OPS_CTC_LOSS_H
#define AC_OPS_CTC_LOSS_H

#include "ops/arguments.h"

typedef struct ac_ctc_loss_attributes {
  int32_t blank;
  int32_t zero_infinity; /* whether */
} ac_ctc_loss_attributes;

typedef struct ac_ctc_loss_shape {
  int64_t samples, positions, classes, targets;
} ac_ctc_loss_shape;

static inline ac_ctc_loss_shape ac_ctc_loss_shape_of(const ac_op_args *args) {
  const int64_t *x = args->in[0].dim;
  return (ac_ctc_loss_shape){x[0], x[1], x[2], args->in[1].dim[1]};
}

/* Positions of the target with blanks between, before and after. */
static inline int64_t ac_ctc_loss_states(const ac_op_args *args) {
  return 2 * args->in[1].dim[1] + 1;
}

#endif
