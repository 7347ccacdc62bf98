/* Doubles that are passed on as floats: are they finite as floats also? */
#ifndef AC_CORE_FLOATS_H
#define AC_CORE_FLOATS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* NaN is not one. */
static inline bool ac_is_float(double x) {
  return fabs(x) <= (double)FLT_MAX;
}

/* Above 0 even where a device takes the least floats for 0. */
static inline bool ac_is_positive_float(double x) {
  return x >= (double)FLT_MIN && ac_is_float(x);
}

/* Zero means default, and what is negative zero. */
static inline double ac_or_default(double value, double fallback) {
  return value == 0 ? fallback : value < 0 ? 0 : value;
}

#endif
