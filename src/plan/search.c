/* The search for a plan: which micro-batch, what to recompute, whether gradients are kept, and
 * where the optimizer's state is.
 *
 * The rule is: the least predicted time among all candidates with a total that fits. With more
 * budget a plan never gets slower, because candidates do not depend on the budget. The smallest
 * budget that can be met is exactly the smallest total among the candidates.
 *
 * Totals need a layout, which takes n log n in values; the sum of bytes alive is linear and a lower
 * bound. Candidates are tried from the fastest on, and only those with a bound that fits are laid
 * out. */
#include "plan/refuse.h"

#include "core/error.h"

#include <stdlib.h>

/* ---- training -------------------------------------------------------------------------------- */

static int by_seconds(const void *a, const void *b) {
  const ac_candidate *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->bound > y->bound) - (x->bound < y->bound);
}

/* Chooses the fastest of those that fit together with so many batches read ahead. */
static ac_status choose(ac_candidates *s, ac_plan *plan, int read_ahead, uint64_t limit,
                        bool *fits) {
  *fits = false;
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_seconds);
  plan->fastest_seconds = s->list[0].seconds;
  const uint64_t fixed = ac_problem_needs(s->problem, 0, read_ahead);
  for (int i = 0; i < s->count && !*fits; i++) {
    if (ac_problem_needs(s->problem, s->list[i].bound, read_ahead) > limit) continue;
    AC_TRY(ac_candidates_lay_down(s, plan, &s->list[i], limit - fixed + 1));
    *fits = ac_problem_needs(s->problem, plan->info.bytes.total, read_ahead) <= limit;
  }
  return AC_OK;
}

/* Batches that are read ahead only if there is room get what the fastest plan leaves. */
static int read_ahead_of(const ac_plan *plan, uint64_t limit) {
  const ac_plan_desc *desc = &plan->problem.desc;
  int ahead = desc->read_ahead;
  while (desc->read_ahead_if_room && ahead > 0 &&
         ac_problem_needs(&plan->problem, plan->info.bytes.total, ahead) > limit)
    ahead--;
  return ahead;
}

static ac_status search_training(ac_plan *plan, uint64_t limit) {
  const ac_problem *problem = &plan->problem;
  const ac_cost_model *costs;
  bool ops[AC_OP_COUNT] = {false}, fits;
  ac_candidates s;
  ac_nodes_mark_ops(&problem->main, problem->graph, ops);
  ac_nodes_mark_ops(&problem->after, problem->graph, ops);
  ac_nodes_mark_ops(&problem->folds, problem->graph, ops);
  AC_TRY(ac_cost_model_get(&costs, problem->device, ac_plan_storage(&problem->desc), ops));
  const int read_ahead = ac_plan_must_read_ahead(&problem->desc);
  double per_transferred_byte = 0;
  if (ac_problem_may_transfer(problem))
    AC_TRY(ac_cost_of_transfers(&per_transferred_byte, problem->device));
  ac_status status = ac_candidates_list(&s, problem, costs, per_transferred_byte);
  if (status == AC_OK) status = choose(&s, plan, read_ahead, limit, &fits);
  if (status == AC_OK && !fits) status = ac_plan_refuse(&s, plan, limit);
  if (status == AC_OK) plan->info.read_ahead = read_ahead_of(plan, limit);
  ac_candidates_free(&s);
  plan->info.read_ahead_bytes = ac_problem_read_ahead(problem, plan->info.read_ahead);
  return status;
}

/* ---- forward only ---------------------------------------------------------------------------- */

static ac_status lay_forward(ac_plan *plan, int64_t micro_batch) {
  const ac_choice choice = {micro_batch, &plan->problem.main,
                            ac_gradient_way_of(AC_GRADIENTS_BUFFER), false, 0};
  return ac_plan_lay(plan, &choice);
}

static ac_status try_forward(ac_plan *plan, int64_t micro_batch, uint64_t limit, bool *fits) {
  AC_TRY(lay_forward(plan, micro_batch));
  *fits = plan->info.bytes.total <= limit &&
          ac_problem_check_support(&plan->problem, micro_batch) == AC_OK;
  return AC_OK;
}

/* Without a backward pass there is nothing to recompute: the fewest micro-batches that fit. Bytes
 * grow with the micro-batch, as does what an op must be able to count, so bisect on their number.
 */
static ac_status search_forward(ac_plan *plan, uint64_t limit) {
  const ac_problem *problem = &plan->problem;
  int64_t batch = problem->desc.batch, given = problem->desc.micro_batch;
  const uint64_t *total = &plan->info.bytes.total;
  bool fits;
  if (given) AC_TRY(ac_problem_check_support(problem, given));
  AC_TRY(try_forward(plan, given ? given : batch, limit, &fits));
  if (fits) return AC_OK;
  if (!given) AC_TRY(lay_forward(plan, 1));
  if (*total == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  if (*total > limit) return ac_plan_refuse_forward(plan, limit);
  int64_t too_few = 1, enough = batch;
  while (enough - too_few > 1) {
    int64_t middle = too_few + (enough - too_few) / 2;
    AC_TRY(try_forward(plan, ac_divide_up(batch, middle), limit, &fits));
    if (fits) enough = middle;
    else too_few = middle;
  }
  return lay_forward(plan, ac_divide_up(batch, enough));
}

ac_status ac_plan_search(ac_plan *plan, uint64_t limit) {
  return plan->problem.desc.purpose == AC_TRAIN ? search_training(plan, limit)
                                                : search_forward(plan, limit);
}
