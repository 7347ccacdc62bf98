/* The gradient noise scale's estimates for each parameter, on request: from the norms of its own
 * gradient after the first micro-batch and after the window. Squares of norms add up, so |G|^2 and
 * tr Sigma of all parameters are the sums of theirs. */
#ifndef AC_OBSERVE_NOISE_LAYERS_H
#define AC_OBSERVE_NOISE_LAYERS_H

#include "observe/noise.h"

typedef struct ac_noise_layer {
  double first_squares; /* of the window in progress, as ac_noise.first_squares */
  ac_noise_averages averages;
} ac_noise_layer;

typedef struct ac_noise_layers {
  int parameters;
  int rows;            /* as many if they are wanted, or 0 */
  bool begun;          /* the window in progress was measured with them */
  int64_t count;       /* windows measured: of a run that goes on fewer, perhaps, than of all */
  ac_noise_layer of[]; /* by parameter */
} ac_noise_layers;

#endif
