#include "plan/refuse.h"

#include "core/error.h"

#include <stdio.h>
#include <string.h>

/* What the refusal offers, as it grows. */
typedef struct offers {
  const ac_problem *problem; /* that was refused */
  const ac_cost_model *costs;
  int read_ahead;
  uint64_t least; /* bytes that it needs; what needs as much is no offer */
  char text[1024];
} offers;

static ac_status refusal(const offers *o, int64_t micro_batch, uint64_t limit) {
  const ac_problem *problem = o->problem;
  char need[32], have[32];
  ac_format_bytes(need, sizeof need, o->least);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld%s), %s is %s%s",
                 need, (unsigned long long)o->least, (long long)micro_batch,
                 problem->desc.recompute == AC_RECOMPUTE_NONE ? " without recomputation" : "",
                 problem->desc.memory ? "the budget" : "what the device can spare", have, o->text);
}

/* Adds to the text what a choice would need, if that is less. */
static void add(offers *o, uint64_t bytes, const char *what) {
  char amount[32];
  size_t used = strlen(o->text);
  if (bytes < o->least)
    snprintf(o->text + used, sizeof o->text - used, "%s %s %s", used ? "," : "; it would need",
             ac_format_bytes(amount, sizeof amount, bytes), what);
}

/* ---- the least bytes of other problems ------------------------------------------------------- */

/* Nothing is measured for a remark: the costs are those at hand, and moves of state take no time.
 */
static ac_status least_of(const offers *o, const ac_problem *problem, uint64_t *least) {
  ac_candidates s;
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  int64_t micro_batch;
  uint64_t total = UINT64_MAX;
  ac_status status = ac_candidates_list(&s, problem, o->costs, 0);
  if (status == AC_OK) status = ac_candidates_least(&s, &board, &total, &micro_batch);
  *least = ac_problem_needs(problem, total, o->read_ahead);
  ac_candidates_free(&s);
  ac_plan_clear(&board);
  return status;
}

static ac_status least_forward(const ac_problem *problem, uint64_t *bytes) {
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  int64_t given = problem->desc.micro_batch;
  const ac_choice choice = {given ? given : 1, &problem->main, AC_GRADIENTS_BUFFER, false};
  ac_status status = ac_plan_lay(&board, &choice);
  *bytes = board.info.bytes.total;
  ac_plan_clear(&board);
  return status;
}

static ac_status least_with(const offers *o, const ac_graph *graph, const ac_plan_desc *desc,
                            bool copies, uint64_t *bytes) {
  ac_problem other;
  ac_status status = ac_problem_create(&other, graph, o->problem->device, desc, copies);
  if (status == AC_OK)
    status = desc->purpose == AC_TRAIN ? least_of(o, &other, bytes) : least_forward(&other, bytes);
  ac_problem_free(&other);
  return status;
}

/* Of a problem that is made anew, as what it stores differs. */
static ac_status least_made(const offers *o, const ac_graph *graph, const ac_plan_desc *desc,
                            uint64_t *bytes) {
  uint64_t without;
  AC_TRY(least_with(o, graph, desc, desc->working_copies != AC_WORKING_COPIES_NONE, bytes));
  if (!ac_plan_copies_are_open(desc)) return AC_OK;
  AC_TRY(least_with(o, graph, desc, false, &without));
  if (without < *bytes) *bytes = without;
  return AC_OK;
}

/* Of the problem at hand under a description that stores the same. */
static ac_status least_under(const offers *o, const ac_plan_desc *desc, uint64_t *bytes) {
  ac_problem other = *o->problem;
  other.desc = *desc;
  return least_of(o, &other, bytes);
}

static ac_status offer(offers *o, const ac_plan_desc *desc, const char *what) {
  uint64_t bytes;
  AC_TRY(least_under(o, desc, &bytes));
  add(o, bytes, what);
  return AC_OK;
}

/* ---- with the same results ------------------------------------------------------------------- */

static ac_status offer_micro_batch(offers *o) {
  ac_plan_desc desc = o->problem->desc;
  if (desc.micro_batch <= 1 || ac_gradients_need_whole(desc.gradients)) return AC_OK;
  desc.micro_batch = 1;
  return offer(o, &desc,
               o->problem->coupled < 0 ? "at a micro-batch of 1"
                                       : "at a micro-batch of 1, which is all that batch norm "
                                         "would see (--batch-norm micro)");
}

static ac_status offer_recomputation(offers *o) {
  ac_plan_desc desc = o->problem->desc;
  if (desc.recompute == AC_RECOMPUTE_AUTO) return AC_OK;
  desc.recompute = AC_RECOMPUTE_AUTO;
  return offer(o, &desc, "with recomputation as needed");
}

/* The way of gradients that the description leaves out. Fused, every micro-batch is a whole window.
 */
static ac_status offer_gradients(offers *o) {
  ac_plan_desc desc = o->problem->desc;
  const bool fused = ac_gradients_need_whole(desc.gradients);
  const bool none = desc.gradients == AC_GRADIENTS_AUTO || desc.gradients == AC_GRADIENTS_FOLDED;
  if (none || (fused && o->problem->coupled >= 0)) return AC_OK;
  desc.gradients = AC_GRADIENTS_AUTO;
  if (fused) desc.micro_batch = 0;
  return offer(o, &desc,
               fused ? "in micro-batches (--gradients auto)"
                     : "without a buffer for gradients (--gradients auto)");
}

/* Weights that are rounded for each op that reads them, where copies are asked for. */
static ac_status offer_no_copies(offers *o) {
  ac_plan_desc desc = o->problem->desc;
  uint64_t bytes;
  if (desc.working_copies != AC_WORKING_COPIES_KEPT) return AC_OK;
  desc.working_copies = AC_WORKING_COPIES_AUTO;
  if (!ac_plan_copies_are_open(&desc)) return AC_OK;
  AC_TRY(least_made(o, o->problem->source, &desc, &bytes));
  add(o, bytes, "without working copies of weights (--working-copies auto)");
  return AC_OK;
}

/* Optimizer state in host memory, where the device has its own. */
static ac_status offer_host(offers *o) {
  const ac_problem *problem = o->problem;
  ac_plan_desc desc = problem->desc;
  char what[128];
  if (!problem->device->info.own_memory || ac_problem_may_move(problem) ||
      ac_state_must_stay(desc.gradients))
    return AC_OK;
  desc.state_space = AC_STATE_ON_HOST;
  desc.host_memory = 0;
  const uint64_t host = ac_cells_host_bytes(problem);
  if (!host) return AC_OK;
  snprintf(what, sizeof what, "with optimizer state in host memory (--host-memory %llu)",
           (unsigned long long)host);
  return offer(o, &desc, what);
}

static bool clear_hints(ac_graph *graph) {
  bool any = false;
  for (int i = 0; i < graph->tensor_count; i++) {
    any |= ac_tensor_at(graph, i)->hint != AC_HINT_NONE;
    ac_tensor_at(graph, i)->hint = AC_HINT_NONE;
  }
  return any;
}

static ac_status offer_without_hints(offers *o) {
  ac_graph *graph;
  uint64_t bytes;
  ac_status status = AC_OK;
  AC_TRY(ac_graph_clone(&graph, o->problem->source));
  if (clear_hints(graph)) {
    status = least_made(o, graph, &o->problem->desc, &bytes);
    if (status == AC_OK) add(o, bytes, "without its hints");
  }
  ac_graph_free(graph);
  return status;
}

/* ---- with other results ---------------------------------------------------------------------- */

/* What is not possible is not offered. */
static void offer_precision(offers *o) {
  ac_plan_desc desc = o->problem->desc;
  uint64_t bytes;
  if (desc.precision != AC_PRECISION_F32) return;
  desc.precision = AC_PRECISION_F16;
  if (least_made(o, o->problem->source, &desc, &bytes) == AC_OK) add(o, bytes, "at precision f16");
}

/* In the place of what is set about gradients. */
static void offer_folded(offers *o) {
  static const char *const what[AC_OPTIMIZER_COUNT] = {
      [AC_ADAMW] = "approximately, by folding gradients into the moments as AdamA does "
                   "(--gradients folded --clip 0)",
      [AC_MUON] = "by folding gradients into the momentum (--gradients folded --clip 0 "
                  "--no-nesterov)",
      [AC_SGD] = "by folding gradients into the momentum (--gradients folded --clip 0)"};
  ac_plan_desc desc = o->problem->desc;
  uint64_t bytes;
  if (desc.precision == AC_PRECISION_F16) return; /* whose loss scale would have to be given */
  if (desc.gradients != AC_GRADIENTS_AUTO || !what[desc.optimizer]) return;
  desc.gradients = AC_GRADIENTS_FOLDED;
  if (ac_plan_check_desc(&desc) != AC_OK) return;
  if (least_made(o, o->problem->source, &desc, &bytes) == AC_OK)
    add(o, bytes, what[desc.optimizer]);
}

/* What changes results to save memory, from what changes them least. */
typedef enum approximation {
  STATE_8BIT,
  WEIGHTS_BF16,
  GRADIENTS_LOCAL,
  GRADIENTS_BF16,
  APPROXIMATIONS
} approximation;

/* Windows in pieces cannot be stepped in one pass; where they are, gradients add up to nothing. */
static bool may_take(const ac_plan_desc *desc, approximation which) {
  if (which == GRADIENTS_LOCAL) return desc->whole_windows;
  return which != GRADIENTS_BF16 || desc->gradients != AC_GRADIENTS_FUSED_LOCAL;
}

static void take(ac_plan_desc *desc, approximation which) {
  switch (which) {
  case STATE_8BIT:
    desc->optimizer_state = AC_STATE_8BIT;
    desc->state_f32 = "";
    break;
  case WEIGHTS_BF16:
    desc->precision = AC_PRECISION_BF16;
    desc->weights = AC_WEIGHTS_BF16;
    break;
  case GRADIENTS_LOCAL:
    desc->gradients = AC_GRADIENTS_FUSED_LOCAL;
    break;
  default:
    desc->gradient_storage = AC_GRADIENT_BF16;
  }
}

/* What the same plan would need with each of them on top of those before, so far as they go with
 * the optimizer. */
static void offer_approximations(offers *o) {
  static const char *const what[] = {
      "with optimizer state in 8 bits (--optimizer-state 8bit --state-f32 '')",
      "with weights in bf16 (--precision bf16 --weights bf16)",
      "with each weight clipped and stepped by itself (--gradients fused-local)",
      "with gradients in bf16 (--gradients bf16)"};
  ac_plan_desc taken = o->problem->desc;
  uint64_t least = o->least;
  for (int k = 0; k < APPROXIMATIONS; k++) {
    ac_plan_desc desc = taken;
    uint64_t bytes;
    char amount[32];
    if (!may_take(&desc, (approximation)k)) continue;
    take(&desc, (approximation)k);
    if (ac_plan_check_desc(&desc) != AC_OK ||
        least_made(o, o->problem->source, &desc, &bytes) != AC_OK || bytes >= least)
      continue;
    const bool first = least == o->least;
    const size_t used = strlen(o->text);
    snprintf(o->text + used, sizeof o->text - used, "%s %s %s%s",
             first ? "; with other results it would need" : ",",
             ac_format_bytes(amount, sizeof amount, bytes), first ? "" : "also ", what[k]);
    taken = desc;
    least = bytes;
  }
}

/* ---- refusing -------------------------------------------------------------------------------- */

ac_status ac_plan_refuse(ac_candidates *candidates, ac_plan *board, int read_ahead,
                         uint64_t limit) {
  const ac_problem *problem = candidates->problem;
  int64_t micro_batch = 1;
  uint64_t total;
  AC_TRY(ac_candidates_least(candidates, board, &total, &micro_batch));
  offers o = {problem, candidates->costs, read_ahead,
              .least = ac_problem_needs(problem, total, read_ahead)};
  board->least = o.least;
  if (o.least == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  add(&o, total, "with nothing read ahead (--read-ahead 0)");
  AC_TRY(offer_gradients(&o));
  AC_TRY(offer_no_copies(&o));
  AC_TRY(offer_host(&o));
  AC_TRY(offer_micro_batch(&o));
  AC_TRY(offer_recomputation(&o));
  offer_precision(&o);
  AC_TRY(offer_without_hints(&o));
  offer_folded(&o);
  offer_approximations(&o);
  return refusal(&o, micro_batch, limit);
}

ac_status ac_plan_refuse_forward(const ac_plan *plan, uint64_t limit) {
  offers o = {.problem = &plan->problem, .least = plan->info.bytes.total};
  offer_precision(&o);
  return refusal(&o, plan->info.micro_batch, limit);
}
