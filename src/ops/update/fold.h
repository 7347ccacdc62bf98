#ifndef AC_OPS_FOLD_H
#define AC_OPS_FOLD_H

#include <stdint.h>

/* A micro-batch's gradient becomes part of the optimizer's state, with g' = gradient_factor * g:
 *   m = keep1 * m + take1 * g';  v = keep2 * v + take2 * g'^2
 * or, where `is_average`, with keep = 1 - take and no rounding of its own:
 *   m += take1 * (g' - m);  v += take2 * (g'^2 - v)
 * The first micro-batch of a window keeps what the optimizer's decays leave, the others keep all.
 * With v that is AdamA (Zhang and others, arXiv 2305.19982). */
typedef struct ac_fold_attributes {
  float gradient_factor; /* unscale and divide in one */
  float keep1, take1, keep2, take2;
  int32_t is_average; /* whether; keep1 and keep2 are not read */
} ac_fold_attributes;

#endif
