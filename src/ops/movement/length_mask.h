/* Attributes of length_mask and one_hot. */
#ifndef AC_OPS_LENGTH_MASK_H
#define AC_OPS_LENGTH_MASK_H

#include <stdint.h>

typedef struct ac_length_mask_attributes {
  int64_t positions; /* the longest length */
} ac_length_mask_attributes;

typedef struct ac_one_hot_attributes {
  int64_t classes;
} ac_one_hot_attributes;

#endif
