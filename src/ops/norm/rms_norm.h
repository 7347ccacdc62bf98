#ifndef AC_OPS_RMS_NORM_H
#define AC_OPS_RMS_NORM_H

#include "ops/arguments.h"

typedef struct ac_rms_norm_attributes {
  float epsilon;
} ac_rms_norm_attributes;

#endif
