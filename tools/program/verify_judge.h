/* How `accrue verify` judges two ways to train: how far apart they are, and whether rounding
 * explains it. */
#ifndef TOOLS_PROGRAM_VERIFY_JUDGE_H
#define TOOLS_PROGRAM_VERIFY_JUDGE_H

#include <accrue/accrue.h>

/* All parameters of a model, one after another in an array of floats. */
typedef struct layout {
  int parameters;
  int64_t *first;     /* [parameters + 1] */
  bool *trained;      /* has a gradient */
  bool *rounded;      /* which is kept in bf16: its sums are rounded by chance (AC_GRADIENT_BF16) */
  const char **names; /* the plan's */
} layout;

/* What training with whole batches gave. */
typedef struct record {
  int64_t windows;
  float **gradients; /* [windows]: of the sum of losses, which the optimizer divides by the window's
                        weight */
  float **weights;   /* [windows + 1]: before each window and after the last */
  ac_update *updates;
} record;

/* The distance of another way that began each window with the same weights. */
typedef struct distances {
  double *gradient;    /* [windows, parameters]: of its own norm */
  double *unexplained; /* the same without what keeping gradients in bf16 explains */
  double *share;       /* as unexplained, but of the norm of all gradients */
  double *moved;       /* [windows]: between the weights after it, of how far it moved them */
  ac_update *updates;
  bool spreads; /* batch norm is exact: a rounding of its statistics reaches all samples */
} distances;

/* Fills in the distances of window `window` from its gradient and the weights after it, to which it
 * has stepped by the record's gradient. `squares`: for each element of gradients that are rounded
 * by chance, those of all sums that were, divided by the window's weight like it; NULL: none is. */
void verify_measure(const layout *l, const record *r, int64_t window, const float *gradient,
                    const float *squares, const float *weights, distances *d);

/* How far rounding alone brings whole batches. */
typedef struct spread {
  double *gradient, *share; /* [parameters]: as in distances */
  double loss;              /* of itself, or of 1 where it is smaller */
} spread;

/* Adds a window that began with weights rounded in another way: the largest spread counts. */
void verify_spread(const layout *l, const record *r, int64_t window, const float *gradient,
                   const ac_update *update, spread *s);

typedef struct verdict {
  int gradients; /* that are off by more than rounding explains */
  bool weight, loss, weights;
} verdict;

static inline bool verdict_same(const verdict *v) {
  return !v->gradients && !v->weight && !v->loss && !v->weights;
}

/* `s` NULL: not known. */
verdict verify_judge(const layout *l, const record *r, const distances *d, ac_precision precision,
                     const spread *s);
/* What one gradient's verdict rests on: medians over the windows, and what is allowed of them. A
 * difference within either is explained, unless one window alone is far beyond both. */
typedef struct gradient_row {
  double difference; /* of its own norm, as measured */
  double unexplained, allowed;
  double share, allowed_share; /* of the norm of all gradients */
  bool same;
} gradient_row;
gradient_row verify_gradient(const layout *l, const record *r, const distances *d,
                             ac_precision precision, const spread *s, int i);

/* What else is compared: the largest difference in any window, and what is allowed. */
typedef struct window_row {
  double weight, allowed_weight; /* of the window's weight itself */
  double loss, allowed_loss;
  double updates, allowed_updates; /* of how far an update moved the weights */
} window_row;
window_row verify_windows(const record *r, const distances *d, ac_precision precision,
                          const spread *s);

void verify_print(const layout *l, const record *r, const distances *d, ac_precision precision,
                  const spread *s);
void verify_print_verdict(const layout *l, const verdict *v);

#endif
