/* The model of tests/vectors/practice, trained as its cases say: a convolution and two linear
 * layers; the last is stored [in, out]. */
#ifndef AC_TESTS_PRACTICE_H
#define AC_TESTS_PRACTICE_H

#include "files.h"

#include "runs.h"

#include "ops/vector.h"

#include <math.h>

enum { PRACTICE_SAMPLES = 4, PRACTICE_PARAMETERS = 6, PRACTICE_COUNT = 54 + 3 + 135 + 5 + 20 + 4 };

extern const int64_t practice_counts[PRACTICE_PARAMETERS];

double practice_number(const op_vector *v, const char *name);
ac_graph *practice_graph(void);

/* With the case's optimizer; `plan` and `desc` say the rest. */
run practice_begin(const char *device, const op_vector *v, ac_plan_desc plan, ac_trainer_desc desc);

/* The window of an update, from 0. */
void practice_feed(run *r, const op_vector *v, int update);

/* All that `read` reads is what the case has after this update, to 1e-6. */
void practice_check(run *r, const op_vector *v, const char *name, int update,
                    ac_status (*read)(ac_trainer *, int, int64_t, int64_t, float *));

/* Runs `check` on each case with a name that begins with `prefix`. */
void practice_cases(const char *prefix, int expected, void (*check)(const op_vector *v));

#endif
