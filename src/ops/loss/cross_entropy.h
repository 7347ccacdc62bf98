#ifndef AC_OPS_CROSS_ENTROPY_H
#define AC_OPS_CROSS_ENTROPY_H

#include "ops/arguments.h"

typedef struct ac_cross_entropy_attributes {
  int32_t ignore; /* whether */
  int32_t ignore_index;
  float smoothing;
} ac_cross_entropy_attributes;

/* Smoothing regularises, as dropout does, so evaluation goes without. */
static inline float ac_cross_entropy_smoothing(const ac_cross_entropy_attributes *attributes,
                                               const ac_run_state *run) {
  return run->training ? attributes->smoothing : 0;
}

#endif
