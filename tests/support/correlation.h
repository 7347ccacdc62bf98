/* An op as a caller of the library may describe one: the correlation of each row with a kernel,
 *
 *   y[..., t] = scale * sum over k of x[..., t + k] w[k],  x [..., T], w [K], y [..., T - K + 1]
 *   dx[..., t] = scale * sum over k of dy[..., t - k] w[k]
 *   dw[k] = scale * sum over all rows and t of dy[..., t] x[..., t + k] */
#ifndef AC_TESTS_CORRELATION_H
#define AC_TESTS_CORRELATION_H

#include <accrue/accrue.h>

typedef struct correlation_constants {
  float scale, unused[15];
} correlation_constants;

/* Operands as the plan stores them, or always in f32. */
extern const ac_custom_desc correlation_stored, correlation_floats;

#endif
