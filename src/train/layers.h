/* Norms by layer: of gradients, weights and what updates change, and what they say in the long run.
 */
#ifndef AC_TRAIN_LAYERS_H
#define AC_TRAIN_LAYERS_H

#include <accrue/watch.h>

/* The layer of a parameter; only trained ones are measured. */
typedef struct ac_layer {
  int64_t elements, looked_at; /* of its weights; looked_at 0: it is not trained */
  int64_t begin;               /* of those in `before` */
  int64_t units, first_unit;   /* outputs, and where they begin in `alive`; 0: none are known */
  bool by_column;              /* where an output's weights are */
  double gradient_norm, weight_norm, update_ratio; /* of the update measured last */
  int64_t zero;                                    /* how many measured gradients were zero */
  double logs; /* the sum of log10(gradient norm / sqrt(elements)) of the others */
} ac_layer;

typedef struct ac_layers {
  int64_t every;    /* 0: nothing is measured */
  int64_t measured; /* updates measured so far; the last one was this (0: none since a start) */
  int64_t update;
  int count;
  ac_layer *of;          /* by parameter */
  float *before, *piece; /* weights before the current update; what is read at once */
  /* For each output, whether it has had a gradient that was not zero: 1 in an earlier update, 2 in
   * the current one. */
  unsigned char *alive;
  int64_t outputs; /* of all */
  double *sizes;   /* room for a number for each parameter */
} ac_layers;

/* Allocates all that is needed. Release in any case. */
ac_status ac_layers_begin(ac_trainer *trainer);
void ac_layers_release(ac_layers *layers);

/* Whether the current update is measured: then what comes before it, and after it. */
bool ac_layers_are_due(const ac_trainer *trainer);
ac_status ac_layers_before(ac_trainer *trainer);
ac_status ac_layers_after(ac_trainer *trainer);

/* What is remembered as text, which the caller frees; NULL: no memory. */
char *ac_layers_put(const ac_layers *layers);
/* True if a text describes these layers. If it also has the same outputs, its values are used.
 * NULL: nothing is remembered. */
bool ac_layers_fit(const ac_layers *layers, const char *text, bool *same);
void ac_layers_take(ac_layers *layers, const char *text);

#endif
