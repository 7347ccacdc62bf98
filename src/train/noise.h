/* The gradient noise scale: from which batch on gradients agree so well that larger batches save
 * hardly any updates (arXiv 1812.06162, appendix A). */
#ifndef AC_TRAIN_NOISE_H
#define AC_TRAIN_NOISE_H

#include "train/noise_layers.h"

typedef struct ac_noise {
  bool possible;          /* it is asked for, and the plan adds gradients up in a buffer */
  int64_t every;          /* updates between measurements; 0: by the seconds below */
  double pass_seconds;    /* predicted, of a micro-batch of the plan's size */
  double end_seconds;     /* of a window's end */
  double measure_seconds; /* of measuring gradients once more */
  /* About the first micro-batch of the window in progress, if it was measured: its samples (0: it
   * was not), the weight of its losses, and the squared norm of its mean loss's gradient. */
  int64_t first_samples;
  double first_weight, first_squares;
  int64_t count; /* windows measured */
  ac_noise_averages averages;
  ac_noise_layers layers;
} ac_noise;

ac_status ac_noise_begin(ac_trainer *trainer);
/* After the first micro-batch of a window: measures it if its turn has come. */
ac_status ac_noise_measure(ac_trainer *trainer);
/* Call it when a window is over or discarded. */
void ac_noise_leave(ac_trainer *trainer);
/* At the end of a window that was stepped, with what it has come to. */
void ac_noise_take(ac_trainer *trainer, const ac_update *update);

#endif
