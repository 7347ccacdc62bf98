/* Norms by layer: of gradients, weights and what updates change, and what they say in the long run.
 */
#ifndef AC_OBSERVE_LAYERS_H
#define AC_OBSERVE_LAYERS_H

#include "observe/list.h"

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
  bool looked;           /* at the current update */
  float *before, *piece; /* weights before the current update; what is read at once */
  double *sizes;         /* room for a number for each parameter */
  int64_t outputs;       /* of all */
  int count;
  ac_layer of[]; /* by parameter; then a byte for each output (layers.c) */
} ac_layers;

/* What the measured updates say about a parameter. */
ac_layer_report ac_layers_report(const ac_layers *layers, int parameter);

#endif
