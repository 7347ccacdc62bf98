/* The gradient noise scale: from which batch on gradients agree so well that larger batches save
 * hardly any updates (arXiv 1812.06162, appendix A). */
#ifndef AC_OBSERVE_NOISE_H
#define AC_OBSERVE_NOISE_H

#include "observe/list.h"

/* Exponential averages over the windows that were measured, the first ones not yet corrected: of
 * |G|^2 (g) and tr Sigma (s), and of their products. */
typedef struct ac_noise_averages {
  double g, s, gg, gs, ss;
} ac_noise_averages;

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
  /* Over several ranks these are sums, of so many micro-batches, and so is 1 / first_weight. */
  int64_t first_count;
  double first_inverse;
  int64_t count; /* windows measured */
  bool counted;  /* the last window was one of them */
  ac_noise_averages averages;
} ac_noise;

/* Whether a window of so many samples has a gradient of a part of it and one of all. */
bool ac_noise_has_parts(const ac_plan *plan, int64_t batch);
/* A mean of squared norms over the ranks that have measured one, from their sum. */
double ac_noise_first_mean(const ac_noise *noise, double sum);
/* How much of a window its first micro-batch was, in samples of the window's mean weight. Over
 * ranks 1 / b is averaged, because each squared norm has the variance tr Sigma / b. */
double ac_noise_first(const ac_noise *noise, const ac_window_view *view);
/* Adds a window to averages, by the squared norms of the gradients of means over b and over B;
 * false, and nothing is changed, where that is beyond doubles. */
bool ac_noise_add(ac_noise_averages *averages, double b_squares, double B_squares, double b,
                  double B);
/* What averages of so many windows come to. */
ac_noise_scale ac_noise_scale_of(const ac_noise_averages *averages, int64_t windows);

#endif
