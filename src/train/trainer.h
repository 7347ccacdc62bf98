/* The state of training: an instance, the window in progress, the counters. */
#ifndef AC_TRAIN_TRAINER_H
#define AC_TRAIN_TRAINER_H

#include "train/instance.h"
#include "train/scaler.h"

struct ac_trainer {
  ac_instance instance;
  ac_trainer_desc desc; /* defaults filled in; of loss scaling in the scaler */
  ac_scaler scaler;
  int64_t updates; /* made so far: what schedules, bias correction and random numbers go by */
  int64_t window_samples; /* accumulated so far */
  bool broken;            /* a device failure left the window half done */
  int nonfinite; /* parameter whose gradient was found not finite in the last update, or -1 */
};

/* Adds the first `count` samples (at most a micro-batch) of the staging buffers to the window. */
ac_status ac_trainer_accumulate_staged(ac_trainer *trainer, int64_t count);
/* ac_trainer_locate_nonfinite on the staging buffers, which hold samples [first, first + count) of
 * the window. */
ac_status ac_trainer_locate_staged(ac_trainer *trainer, int64_t first, int64_t count, char *text,
                                   size_t size);

#endif
