#ifndef AC_OPS_GROUP_NORM_H
#define AC_OPS_GROUP_NORM_H

#include "ops/arguments.h"

typedef struct ac_group_norm_attributes {
  int64_t groups; /* divides the channels */
  float epsilon;
  int32_t unused; /* no byte is left unset: nodes are compared by all of them */
} ac_group_norm_attributes;

#endif
