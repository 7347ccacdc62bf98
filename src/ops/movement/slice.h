/* Parts of a tensor, also beyond its ends, and what a kernel makes of one. */
#ifndef AC_OPS_SLICE_H
#define AC_OPS_SLICE_H

#include "ops/arguments.h"

/* What is there beyond the ends of an axis of n: `value`; the axis again, backwards from its last
 * element, which is not repeated; or its last element, again and again. Only with a step of 1. */
typedef enum ac_outside { AC_OUTSIDE_VALUE = 0, AC_OUTSIDE_REFLECTED, AC_OUTSIDE_EDGE } ac_outside;

/* Index i of an axis of the part is index first + i step of the same axis of the whole. */
typedef struct ac_slice_attributes {
  int64_t first[AC_MAX_RANK], step[AC_MAX_RANK];
  int32_t outside; /* ac_outside */
  float value;
} ac_slice_attributes;

/* All of a tensor. */
static inline ac_slice_attributes ac_slice_whole(void) {
  return (ac_slice_attributes){.step = {1, 1, 1, 1, 1, 1}};
}

typedef struct ac_sliced_axis {
  int64_t whole, part, first, step;
} ac_sliced_axis;

/* Axes as a kernel goes over them. Neighbours that are taken whole are one. Each index of
 * the last axis has `inner` neighbouring elements, which are taken together. There is one axis at
 * least. */
typedef struct ac_sliced_axes {
  int rank;
  ac_sliced_axis axis[AC_MAX_RANK];
  int64_t inner;
} ac_sliced_axes;

ac_sliced_axes ac_sliced_axes_of(const ac_operand *whole, const ac_operand *part,
                                 const ac_slice_attributes *a);

/* The index in the whole of index i of the part; -1: outside. */
static inline int64_t ac_sliced_index(const ac_sliced_axis *a, int32_t outside, int64_t i) {
  const int64_t at = a->first + i * a->step;
  if (at >= 0 && at < a->whole) return at;
  if (outside == AC_OUTSIDE_VALUE) return -1;
  if (outside == AC_OUTSIDE_EDGE) return at < 0 ? 0 : a->whole - 1;
  return at < 0 ? -at : 2 * (a->whole - 1) - at;
}

#endif
