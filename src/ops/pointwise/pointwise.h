/* The op `pointwise`: results of functions of elements, operands repeated as NumPy does. */
#ifndef AC_OPS_POINTWISE_H
#define AC_OPS_POINTWISE_H

#include "ops/pointwise/program.h"

/* All outputs have one shape; each operand has it as well, but for dimensions of 1 and leading ones
 * that are absent. */
typedef struct ac_pointwise_attributes {
  ac_program program;
  /* Bit i: operand i has another shape than the results in the graph, though they may be equal for
   * a batch of 1. */
  uint32_t repeated;
  uint16_t title;    /* what it is called (titles.c) */
  uint16_t gradient; /* whether it is the gradient of what is called so */
} ac_pointwise_attributes;

#endif
