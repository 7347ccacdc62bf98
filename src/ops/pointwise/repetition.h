/* How an operand is repeated along a result, as NumPy does: aligned at the last dimension, along
 * dimensions in which it is 1 or that it does not have. */
#ifndef AC_OPS_REPETITION_H
#define AC_OPS_REPETITION_H

#include "ops/arguments.h"

/* The result's dimensions, outermost first, without those of 1, and neighbours that the operand
 * goes along with in the same way joined into one: element (i0, i1, ...) of the result takes the
 * operand's element i0 stride[0] + i1 stride[1] + ..., and the last stride is 1 or 0. Rank 0: both
 * have one element. */
typedef struct ac_repetition {
  int rank;
  int64_t dim[AC_MAX_RANK], stride[AC_MAX_RANK];
} ac_repetition;

void ac_repetition_of(ac_repetition *r, const ac_operand *x, const ac_operand *result);

/* Whether it goes along with the result, element by element. */
static inline bool ac_repetition_is_none(const ac_repetition *r) {
  return r->rank == 0 || (r->rank == 1 && r->stride[0] == 1);
}

/* Of the result's elements, after which the operand begins again. */
int64_t ac_repetition_period(const ac_repetition *r);

#endif
