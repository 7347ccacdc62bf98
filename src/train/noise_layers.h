/* The gradient noise scale's estimates for each parameter, on request: from the norms of its own
 * gradient after the first micro-batch and after the window. Squares of norms add up, so |G|^2 and
 * tr Sigma of all parameters are the sums of theirs. They are part of states, as one line of
 * text. */
#ifndef AC_TRAIN_NOISE_LAYERS_H
#define AC_TRAIN_NOISE_LAYERS_H

#include <accrue/watch.h>

/* Exponential averages over the windows that were measured, the first ones not yet corrected: of
 * |G|^2 (g) and tr Sigma (s), and of their products. */
typedef struct ac_noise_averages {
  double g, s, gg, gs, ss;
} ac_noise_averages;

typedef struct ac_noise_layer {
  double first_squares; /* of the window in progress, as ac_noise.first_squares */
  ac_noise_averages averages;
} ac_noise_layer;

typedef struct ac_noise_layers {
  ac_noise_layer *of; /* by parameter; NULL: nobody has asked */
  int64_t count;      /* windows measured: of a run that goes on fewer, perhaps, than of all */
  bool begun;         /* the window in progress was measured with them */
} ac_noise_layers;

ac_status ac_noise_layers_begin(ac_trainer *trainer);
void ac_noise_layers_release(ac_noise_layers *layers);

/* Measures after the first micro-batch of a window, when its losses have this weight, and at the
 * end of the window. b and B have the same meaning as in noise.c. */
void ac_noise_layers_measure(ac_trainer *trainer, double weight);
/* Call it when a window is over or discarded. */
void ac_noise_layers_leave(ac_trainer *trainer);
void ac_noise_layers_take(ac_trainer *trainer, double b, double B);

/* Adds a window to averages, by the squared norms of the gradients of means over b and over B;
 * false, and nothing is changed, where that is beyond doubles. */
bool ac_noise_add(ac_noise_averages *averages, double b_squares, double B_squares, double b,
                  double B);
/* What averages of so many windows come to. */
ac_noise_scale ac_noise_scale_of(const ac_noise_averages *averages, int64_t windows);

/* Writes the table as text; free it; NULL: there is no memory. And reads it back: false if the text
 * does not have as many parameters, and then nothing changes. If `layers` has no table, the text is
 * only checked. */
char *ac_noise_layers_text(const ac_noise_layers *layers, int parameters, bool window);
bool ac_noise_layers_get(ac_noise_layers *layers, int parameters, const char *text);

#endif
