/* Runs of a small transformer with ragged targets, on every device: what tests of training share.
 */
#ifndef AC_TESTS_RUNS_H
#define AC_TESTS_RUNS_H

#include "devices.h"
#include "models.h"
#include "trainers.h"

#include <stdlib.h>

extern const test_gpt model;
enum { SAMPLES = 23, CONTEXT = 9, VOCAB = 17 };

typedef struct corpus {
  int32_t tokens[SAMPLES * CONTEXT], targets[SAMPLES * CONTEXT];
  float weights[SAMPLES * CONTEXT];
} corpus;

/* Sequences of unequal length: the rest of each row is padding, ignored by target or by weight. */
corpus make_corpus(void);

/* On a device that stays open: OpenCL then compiles once for several runs. */
run start_on(ac_device *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc);
run start(const char *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc);
ac_status feed(run *r, const corpus *c, int first, int count);

#endif
