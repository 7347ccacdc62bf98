/* Runs that must leave the same bits whether gradients are kept or not: of a transformer, and of a
 * small graph that reads its parameters at all depths. */
#ifndef AC_TESTS_PASSES_H
#define AC_TESTS_PASSES_H

#include "runs.h"

#include "plan/plan.h"
#include "window/trainer.h"

enum { BATCH = 8, UPDATES = 16, FEW = 8 };

/* ---- a transformer --------------------------------------------------------------------------- */

typedef struct trained {
  ac_update updates[UPDATES];
  int made;
  float *parameters;
  size_t count;
  ac_plan_bytes bytes;
  int skipped;
} trained;

/* Windows of all sizes up to the batch. */
trained train_passes(ac_device *device, const test_gpt *m, ac_plan_desc plan,
                     const ac_trainer_desc *desc, int updates);
void assert_same_training(const trained *a, const trained *b);
ac_plan *plan_of(ac_device *device, const test_gpt *m, ac_plan_desc desc);

/* ---- steps out of place ---------------------------------------------------------------------- */

int find_step(const ac_plan *plan, const ac_sequence *sequence, ac_op op);
void move(ac_sequence *sequence, int from, int to);

#endif
