#ifndef AC_OPS_CLASS_HITS_H
#define AC_OPS_CLASS_HITS_H

#include "ops/arguments.h"

typedef enum ac_class_hits_kind {
  AC_HITS_TOP = 0,   /* rows; a hit is a target among the largest `number` logits */
  AC_HITS_PRECISION, /* rows classified as class `number`; a hit has this target */
  AC_HITS_RECALL,    /* rows with this target; a hit is classified as it */
  AC_HITS_UNION      /* rows with either; a hit has both */
} ac_class_hits_kind;

typedef struct ac_class_hits_attributes {
  int32_t kind; /* ac_class_hits_kind */
  int32_t number;
  int32_t ignore_index;
  int32_t ignore; /* whether */
} ac_class_hits_attributes;

#endif
