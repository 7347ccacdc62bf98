/* Attributes of length_mask. */
#ifndef AC_OPS_LENGTH_MASK_H
#define AC_OPS_LENGTH_MASK_H

#include <stdint.h>

typedef struct ac_length_mask_attributes {
  int64_t positions; /* the longest length */
} ac_length_mask_attributes;

#endif
