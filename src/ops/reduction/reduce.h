/* What one run of the op `reduce` computes of the elements of the reduced axes. */
#ifndef AC_OPS_REDUCE_H
#define AC_OPS_REDUCE_H

#include "ops/arguments.h"

typedef enum ac_reduce_kind {
  AC_REDUCE_SUM,       /* sum of x / divisor */
  AC_REDUCE_ABSOLUTES, /* sum of |x| */
  AC_REDUCE_SQUARES,   /* sqrt(sum of x^2) */
  AC_REDUCE_POWERS,    /* (sum of |x|^power)^(1 / power) */
  AC_REDUCE_MAX,
  AC_REDUCE_MIN,
  AC_REDUCE_LARGEST,   /* max of |x| */
  AC_REDUCE_LOGSUMEXP, /* log of the sum of e^x */
  AC_REDUCE_VARIANCE   /* sum of (x - mean)^2 / divisor */
} ac_reduce_kind;

typedef struct ac_reduce_attributes {
  int32_t kind;
  uint32_t axes; /* as bits: those of x that are reduced */
  float divisor;
  float power;
} ac_reduce_attributes;

/* The axes of x as a kernel goes over them. Neighbouring axes that are both reduced, or both kept,
 * are one. The innermost is a run of neighbouring elements, of one result or of as many; around it
 * kept and reduced axes alternate.
 *
 *   x [8, 32, 5, 7] over 1, 3:   kept {8, 5}   reduced {32}   run 7, reduced
 *   x [8, 32, 5, 7] over 0:      kept {}       reduced {8}    run 1120, kept
 */
typedef struct ac_reduced_axes {
  int rank;
  int64_t dim[AC_MAX_RANK], stride[AC_MAX_RANK]; /* the last one first */
  int64_t count;                                 /* product of dim */
} ac_reduced_axes;

typedef struct ac_reduction {
  ac_reduced_axes kept, reduced; /* without the run */
  int64_t run;
  bool run_kept;
} ac_reduction;

ac_reduction ac_reduction_of(const ac_operand *x, uint32_t axes);
/* Both with the run among them, at most three of each. */
ac_reduction ac_reduction_whole(const ac_operand *x, uint32_t axes);
/* All axes around the run, with strides among the results: 0 of a reduced one. So the offset of a
 * run's number is the place of its result, or of the first of its results. */
ac_reduced_axes ac_reduction_results(const ac_operand *x, uint32_t axes);

/* Elements of x that make one result. */
static inline int64_t ac_reduction_length(const ac_reduction *r) {
  return r->run_kept ? r->reduced.count : r->reduced.count * r->run;
}

/* Where the element of these axes is that comes as number `index`. */
static inline int64_t ac_reduced_offset(const ac_reduced_axes *axes, int64_t index) {
  int64_t offset = 0;
  for (int k = 0; k + 1 < axes->rank; k++) {
    offset += index % axes->dim[k] * axes->stride[k];
    index /= axes->dim[k];
  }
  return axes->rank ? offset + index * axes->stride[axes->rank - 1] : 0;
}

#endif
