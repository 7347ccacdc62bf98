/* A model of a table and a matrix, with a bias: the smallest model that shows how weights,
 * gradients and optimizer state are stored. */
#ifndef AC_TESTS_TABLE_MODEL_H
#define AC_TESTS_TABLE_MODEL_H

#include "files.h"
#include "runs.h"

#include "plan/plan.h"

enum { ROWS = 90, WIDTH = 70, BATCH = 6, COUNT = ROWS * WIDTH };

run begin_with(const char *device, ac_plan_desc desc, ac_trainer_desc training);
run begin(const char *device, ac_plan_desc desc);
void accumulate(run *r, int step);

/* Returns the last loss. */
double train_steps(run *r, int first, int last);

extern const char *const devices[];

bool is_missing(const char *name);

void assert_same_parameters(run *a, run *b);
/* 40 updates of one run, and of another that goes on from a state after 20 in `path`, come to the
 * same bits. Returns the last loss. */
double train_with_a_state(const char *device, ac_plan_desc desc, const char *path, run *whole,
                          run *half);

#endif
