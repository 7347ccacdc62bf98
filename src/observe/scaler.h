/* The loss scale from window to window. */
#ifndef AC_OBSERVE_SCALER_H
#define AC_OBSERVE_SCALER_H

#include "observe/list.h"

typedef struct ac_scaler {
  ac_loss_scaling_desc desc; /* its kind decided, defaults filled in */
  float scale;               /* for the window in progress */
  int64_t clean;             /* updates since the scale last grew or backed off */
  int64_t overflows;         /* windows in a row */
  /* The latest window overflowed, and another of its kind has no better prospects: the scale could
   * not back off, or a constant one has failed for many windows. */
  bool stuck;
} ac_scaler;

/* How many windows in a row a static scale may overflow. */
enum { AC_MAX_OVERFLOWS = 10 };

/* Fails with AC_ERROR_ARGUMENT for settings that make no sense. */
ac_status ac_scaler_init(ac_scaler *scaler, const ac_loss_scaling_desc *desc,
                         ac_precision precision);

/* Call it after each window: with false after an update, with true if its loss or gradients were
 * not finite. */
void ac_scaler_update(ac_scaler *scaler, bool overflow);

/* The factor that gives the gradient of a *sum* of losses the size that the scale gives to that of
 * their mean, where about `weight` losses make the mean: the scale by the smallest power of two
 * that is at least `weight`, so that nothing is rounded. 1 without scaling. */
float ac_scaler_factor(const ac_scaler *scaler, double weight);

#endif
