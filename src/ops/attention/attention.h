#ifndef AC_OPS_ATTENTION_H
#define AC_OPS_ATTENTION_H

#include "ops/arguments.h"

/* Dropout of attention weight (h, i, j) of a sample is element (h * T + i) * T + j of `stream`. */
typedef struct ac_attention_attributes {
  int32_t heads;
  float scale;     /* of q k^T, resolved: never 0 */
  float dropout;   /* 0: none */
  uint32_t stream; /* of the random numbers */
} ac_attention_attributes;

#endif
