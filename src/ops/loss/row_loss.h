#ifndef AC_OPS_ROW_LOSS_H
#define AC_OPS_ROW_LOSS_H

#include "ops/arguments.h"

/* So many neighbouring elements form a row. Its loss is `factor` times their sum. */
typedef struct ac_row_loss_attributes {
  int64_t elements;
  float factor;
  int32_t unused; /* no byte is left unset: nodes are compared by all of them */
} ac_row_loss_attributes;

/* How rows and weights lie over n elements. */
typedef struct ac_row_loss_shape {
  int64_t rows, weights; /* weights 0: ones */
  int64_t per_weight;    /* elements that a weight is for; without weights n */
  int64_t rows_per_weight;
} ac_row_loss_shape;

static inline ac_row_loss_shape ac_row_loss_shape_of(const ac_op_args *args, int64_t n,
                                                     const ac_operand *weights) {
  const ac_row_loss_attributes *attributes = args->attributes;
  const int64_t rows = n / attributes->elements, count = weights->count;
  return (ac_row_loss_shape){rows, count, count ? n / count : n, count ? rows / count : rows};
}

#endif
