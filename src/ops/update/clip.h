#ifndef AC_OPS_CLIP_H
#define AC_OPS_CLIP_H

#include "ops/arguments.h"

/* What becomes of a parameter's gradient before its step, with g' = gradient_factor * g:
 *   by value    y = min(max(g', -limit), limit)
 *   adaptively  y = g' m / max(|g'|, 1e-6) where |g'| >= m = limit * max(|p|, 1e-3), else g'
 * with norms by unit (Brock and others, arXiv 2102.06171). A unit is all weights of one output of a
 * layer: a row of p[R, C], its first dimension by the rest, or a column of weights [in, out]. Or it
 * is a row of a table; or a whole vector. */
typedef struct ac_clip_attributes {
  float gradient_factor; /* unscale and divide in one */
  float limit;
  int32_t adaptive, by_column; /* whether */
} ac_clip_attributes;

#define AC_CLIP_LEAST_NORM 1e-3f
#define AC_CLIP_LEAST_GRADIENT 1e-6f

typedef struct ac_clip_matrix {
  int64_t rows, columns;
} ac_clip_matrix;

static inline ac_clip_matrix ac_clip_matrix_of(const ac_op_args *args) {
  const ac_operand *p = &args->in[1];
  const int64_t rows = p->rank > 1 ? p->dim[0] : 1;
  return (ac_clip_matrix){rows, p->count / rows};
}

#endif
