/* Whole blocks (core/blocks.h) to floats, with the bits of ac_blocks_decode: a product of a scale
 * in f16 and a code is exact, so that it makes no difference whether a sum is contracted. */
#ifndef AC_BACKEND_CPU_DECODE_H
#define AC_BACKEND_CPU_DECODE_H

#include "backend/cpu/shared/kernels.h"

#define ac_cpu_decode AC_CPU_NAME(ac_cpu_decode)
#define ac_cpu_decode_from AC_CPU_NAME(ac_cpu_decode_from)

/* `count` elements, a multiple of the format's. */
void ac_cpu_decode(ac_blocks blocks, const void *x, int64_t count, float *y);

/* Any elements [first, first + count) of x. */
void ac_cpu_decode_from(ac_blocks blocks, const void *x, int64_t first, int64_t count, float *y);

#endif
