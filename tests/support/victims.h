/* Trainers with a window in progress that must stay as they are when a state is refused, and states
 * to refuse. */
#ifndef AC_TESTS_VICTIMS_H
#define AC_TESTS_VICTIMS_H

#include "states.h"

extern const shape_of_model both;
extern const ac_plan_desc split;
extern const ac_trainer_desc trained;

/* After an update from the samples from `first` on, and with `done` samples of the next window. */
run begin_run(const shape_of_model *m, const ac_plan_desc *plan, const ac_trainer_desc *desc,
              int first, int done);
test_path save_run(run *r, const char *name);

/* A state within a window, of a run that has nothing in common with the victims but its plan. */
test_path good_state(void);

/* ---- trainers that must stay as they are ----------------------------------------------------- */

typedef struct victim {
  run r;
  snapshot before, after; /* after: when its window has ended, had nothing happened */
} victim;

void end_window(const run *r);
victim make_victim(const shape_of_model *m, const ac_plan_desc *plan, const ac_trainer_desc *desc,
                   int done);
void assert_untouched(const victim *v, const char *where);

/* And all that cannot be seen is what it was. */
void free_victim(victim *v);

#endif
