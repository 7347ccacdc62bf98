#ifndef AC_OPS_WEIGHT_STANDARDISATION_H
#define AC_OPS_WEIGHT_STANDARDISATION_H

#include "ops/arguments.h"

typedef struct ac_weight_standardisation_attributes {
  float epsilon;
} ac_weight_standardisation_attributes;

/* The elements of one of the O outputs of [O, ...]. */
static inline int64_t ac_weight_row(const ac_operand *w) {
  return w->dim[0] ? w->count / w->dim[0] : 0;
}

#endif
