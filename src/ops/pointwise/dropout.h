#ifndef AC_OPS_DROPOUT_H
#define AC_OPS_DROPOUT_H

#include "ops/arguments.h"

typedef struct ac_dropout_attributes {
  float p;
  uint32_t stream;             /* of the random numbers: the same in forward and backward */
  int64_t elements_per_sample; /* flat element e is element e % this of sample e / this */
  int64_t whole;               /* samples are dropped whole, by the bits of their first element */
} ac_dropout_attributes;

#endif
