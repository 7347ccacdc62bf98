#ifndef AC_OPS_ROPE_H
#define AC_OPS_ROPE_H

#include <accrue/attention.h>

#include "ops/arguments.h"

#include <math.h>

typedef struct ac_rope_attributes {
  int32_t dimensions; /* elements of a head that turn, two for each frequency */
  int32_t interleaved;
  int32_t backwards; /* by the negative angle: the gradient */
  int32_t scaling;   /* an ac_rope_scaling */
  int64_t offset;
  double base, factor, low, high, original; /* resolved: never 0 where it is used */
} ac_rope_attributes;

/* How far pair i turns from one position to the next, in 2^-64 of a turn. Whole turns do not count,
 * so that a product with a position, modulo 2^64, is as far as it turns there. */
static inline uint64_t ac_rope_turn(const ac_rope_attributes *a, int64_t i) {
  static const double pi = 3.14159265358979323846;
  double turns = pow(a->base, -2.0 * (double)i / a->dimensions) / (2 * pi);
  if (a->scaling == AC_ROPE_LINEAR) turns /= a->factor;
  if (a->scaling == AC_ROPE_LLAMA3) {
    const double above = (a->original * turns - a->low) / (a->high - a->low);
    const double kept = above < 0 ? 0 : above > 1 ? 1 : above;
    turns *= (1 - kept) / a->factor + kept;
  }
  return (uint64_t)ldexp(turns - floor(turns), 64);
}

/* x as rows of heads, one for each position of each sample. */
typedef struct ac_rope_shape {
  int64_t rows, positions, heads, width;
} ac_rope_shape;

static inline ac_rope_shape ac_rope_shape_of(const ac_op_args *args) {
  const int64_t *x = args->in[0].dim;
  return (ac_rope_shape){x[0] * x[1], x[1], x[2], x[3]};
}

#endif
