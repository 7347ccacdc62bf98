#ifndef AC_OPS_ROUNDED_SUM_H
#define AC_OPS_ROUNDED_SUM_H

#include <stdint.h>

/* The random numbers that round are those of this stream (core/random.h): each addition to a
 * gradient has one of its own. */
typedef struct ac_rounded_sum_attributes {
  uint32_t stream;
} ac_rounded_sum_attributes;

#endif
