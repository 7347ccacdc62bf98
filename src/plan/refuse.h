/* What is said where no plan fits. */
#ifndef AC_PLAN_REFUSE_H
#define AC_PLAN_REFUSE_H

#include "plan/candidates.h"

/* None of the candidates fits `limit` bytes. They are laid down on `board`, and are sorted anew.
 * Returns AC_ERROR_BUDGET. */
ac_status ac_plan_refuse(ac_candidates *candidates, ac_plan *board, uint64_t limit);

/* Not even the smallest micro-batch of a plan without a backward pass fits, which is laid down. */
ac_status ac_plan_refuse_forward(const ac_plan *plan, uint64_t limit);

#endif
