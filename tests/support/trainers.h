/* A trainer on a device, and what can be read of it. */
#ifndef AC_TESTS_TRAINERS_H
#define AC_TESTS_TRAINERS_H

#include "check.h"

typedef struct run {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} run;

/* Frees the graph. */
run run_of(ac_device *device, ac_graph *graph, const ac_plan_desc *plan,
           const ac_trainer_desc *desc);
void stop_on(run *r);
/* Closes the device also, which then has no bytes left. */
void stop(run *r);

int64_t elements(const ac_trainer *trainer, int index);
/* All parameters one after another; free it. */
float *all_parameters(run *r, size_t *total);
/* Of b from a, by the length of a. */
double distance(const float *a, const float *b, size_t count);

#endif
