/* Tensors of images, x[B, C, ...], as the norms over channels see them: samples, channels, and
 * positions, which are all other dimensions. */
#ifndef AC_OPS_CHANNELS_H
#define AC_OPS_CHANNELS_H

#include "ops/arguments.h"

typedef struct ac_channels {
  int64_t samples, channels, positions;
} ac_channels;

static inline ac_channels ac_channels_of(const ac_operand *x) {
  int64_t plane = x->dim[0] * x->dim[1];
  return (ac_channels){x->dim[0], x->dim[1], plane ? x->count / plane : 0};
}

#endif
