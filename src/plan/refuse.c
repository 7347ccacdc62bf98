/* What is said where nothing fits. */
#include "plan/refuse.h"

#include "core/error.h"

static ac_status refusal(const ac_problem *problem, uint64_t least, int64_t micro_batch,
                         uint64_t limit) {
  char need[32], have[32];
  ac_format_bytes_needed(need, sizeof need, least);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld%s), %s is %s", need,
                 (unsigned long long)least, (long long)micro_batch,
                 problem->desc.recompute == AC_RECOMPUTE_NONE ? " without recomputation" : "",
                 problem->desc.memory ? "the budget" : "what the device can spare", have);
}

ac_status ac_plan_refuse(ac_candidates *candidates, ac_plan *board, uint64_t limit) {
  const ac_problem *problem = candidates->problem;
  int64_t micro_batch = 1;
  uint64_t total;
  AC_TRY(ac_candidates_least(candidates, board, &total, &micro_batch));
  board->least = ac_problem_needs(problem, total, ac_plan_must_read_ahead(&problem->desc));
  if (board->least == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  return refusal(problem, board->least, micro_batch, limit);
}

ac_status ac_plan_refuse_forward(const ac_plan *plan, uint64_t limit) {
  return refusal(&plan->problem, plan->info.bytes.total, plan->info.micro_batch, limit);
}
