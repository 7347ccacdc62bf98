/* What is said where nothing fits, and what is offered.
 *
 * An offer is another description, with the flags of `accrue` that ask for it. The caller may know
 * more of what follows from them, or that they cannot be (ac_plan_desc.offers). What the
 * description then needs is found as for a plan that is asked for by it, so whoever gives the flags
 * and the bytes has a plan; what would be refused is not offered. Nothing is measured for that:
 * where the costs of a description are not known, its bytes are those of the candidates that depend
 * on none, which are enough, if not always the least (candidates.h). */
#include "plan/refuse.h"

#include "core/error.h"

#include <stdio.h>
#include <string.h>

/* What the refusal offers, as it grows. */
typedef struct offers {
  const ac_problem *problem; /* that was refused */
  uint64_t least;            /* bytes that it needs; what needs as much is no offer */
  char text[1024];
} offers;

/* Another description. */
typedef struct offer {
  ac_plan_desc desc;
  char flags[256];
  uint64_t bytes;      /* that it needs; UINT64_MAX: it cannot be */
  int64_t micro_batch; /* with these */
  bool at_most;        /* it may need less, as costs are not known */
} offer;

static ac_status refusal(const offers *o, int64_t micro_batch, uint64_t limit) {
  const ac_problem *problem = o->problem;
  char need[32], have[32];
  ac_format_bytes_needed(need, sizeof need, o->least);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld%s), %s is %s%s",
                 need, (unsigned long long)o->least, (long long)micro_batch,
                 problem->desc.recompute == AC_RECOMPUTE_NONE ? " without recomputation" : "",
                 problem->desc.memory ? "the budget" : "what the device can spare", have, o->text);
}

/* Adds an offer to the text, behind other words. */
static void put(offers *o, const offer *x, const char *before, const char *what) {
  char amount[32];
  const size_t used = strlen(o->text);
  const bool flags = x->flags[0] != 0;
  snprintf(o->text + used, sizeof o->text - used, "%s %s%s %s%s%s%s", before,
           x->at_most ? "at most " : "", ac_format_bytes_needed(amount, sizeof amount, x->bytes),
           what, flags ? " (" : "", x->flags, flags ? ")" : "");
}

/* ---- what a description needs ---------------------------------------------------------------- */

/* Orders depend on how long the ops of the micro-batch take, on no others. */
static ac_status least_training(const ac_problem *problem, uint64_t *least, int64_t *micro_batch,
                                bool *at_most) {
  ac_candidates s;
  ac_cost_model costs;
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  bool ops[AC_OP_COUNT] = {false};
  uint64_t total = UINT64_MAX;
  ac_nodes_mark_ops(&problem->main, problem->graph, ops);
  const bool known =
      ac_cost_model_recall(&costs, problem->device, ac_plan_storage(&problem->desc), ops);
  *at_most |= !known && problem->desc.recompute == AC_RECOMPUTE_AUTO;
  ac_status status = ac_candidates_list(&s, problem, known ? &costs : NULL, 0);
  if (status == AC_OK) status = ac_candidates_least(&s, &board, &total, micro_batch);
  *least = ac_problem_needs(problem, total, ac_plan_must_read_ahead(&problem->desc));
  ac_candidates_free(&s);
  ac_plan_clear(&board);
  return status;
}

static ac_status least_forward(const ac_problem *problem, uint64_t *least, int64_t *micro_batch) {
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  *micro_batch = problem->desc.micro_batch ? problem->desc.micro_batch : 1;
  const ac_choice choice = {*micro_batch, &problem->main, AC_GRADIENTS_BUFFER, false};
  ac_status status = ac_problem_check_support(problem, *micro_batch);
  if (status == AC_OK) status = ac_plan_lay(&board, &choice);
  *least = board.info.bytes.total;
  ac_plan_clear(&board);
  return status;
}

/* With working copies or without, if that is less than what it has been so far. */
static ac_status try_least(offer *x, const ac_graph *graph, ac_device *device, bool copies) {
  ac_problem other;
  uint64_t bytes = UINT64_MAX;
  int64_t micro_batch = 1;
  ac_status status = ac_problem_create(&other, graph, device, &x->desc, copies);
  if (status == AC_OK)
    status = x->desc.purpose == AC_TRAIN ? least_training(&other, &bytes, &micro_batch, &x->at_most)
                                         : least_forward(&other, &bytes, &micro_batch);
  ac_problem_free(&other);
  if (status == AC_OK && bytes < x->bytes) x->bytes = bytes, x->micro_batch = micro_batch;
  return status;
}

/* As ac_plan_create does it. What is not possible is not offered, and its sentence replaces none.
 */
static void find_bytes(const offers *o, offer *x, const ac_graph *graph) {
  const ac_plan_desc *asked = &o->problem->asked;
  ac_device *device = o->problem->device;
  x->bytes = UINT64_MAX;
  x->at_most = false;
  if (asked->offers && !asked->offers(asked->offers_context, x->flags, &x->desc)) return;
  if (ac_plan_check_desc(&x->desc) != AC_OK) return;
  const bool copies = x->desc.working_copies != AC_WORKING_COPIES_NONE;
  if (try_least(x, graph, device, copies) != AC_OK) x->bytes = UINT64_MAX;
  else if (ac_plan_copies_are_open(&x->desc)) try_least(x, graph, device, false);
}

/* Adds it if it needs less. */
static void add(offers *o, offer *x, const char *what) {
  find_bytes(o, x, o->problem->source);
  if (x->bytes < o->least) put(o, x, o->text[0] ? "," : "; it would need", what);
}

static offer begin(const offers *o, const char *flags) {
  offer x = {.desc = o->problem->asked};
  snprintf(x.flags, sizeof x.flags, "%s", flags);
  return x;
}

/* ---- with the same results ------------------------------------------------------------------- */

/* Where what losses weigh is counted from all of a window, that has to be there at once. */
static void offer_no_read_ahead(offers *o) {
  offer x = begin(o, "--read-ahead 0");
  const ac_plan_desc *desc = &o->problem->desc;
  const bool counts =
      desc->loss_means == AC_LOSS_MEANS_COUNTED &&
      (desc->gradients == AC_GRADIENTS_FOLDED || o->problem->source->loss_count > 1);
  if (!ac_plan_must_read_ahead(desc) || (counts && desc->micro_batch != desc->batch)) return;
  x.desc.read_ahead = 0;
  add(o, &x, "with nothing read ahead");
}

/* The way of gradients that the description leaves out. Fused, every micro-batch is a whole window.
 */
static void offer_gradients(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked;
  const bool fused = ac_gradients_need_whole(asked->gradients), split = fused && asked->micro_batch;
  offer x = begin(o, split ? "--gradients auto --micro-batch 1" : "--gradients auto");
  if (asked->gradients == AC_GRADIENTS_AUTO || asked->gradients == AC_GRADIENTS_FOLDED ||
      (fused && o->problem->coupled >= 0))
    return;
  x.desc.gradients = AC_GRADIENTS_AUTO;
  if (split) x.desc.micro_batch = o->problem->least;
  add(o, &x, fused ? "in micro-batches" : "without a buffer for gradients");
}

/* Weights that are rounded for each op that reads them, where copies are asked for. */
static void offer_no_copies(offers *o) {
  offer x = begin(o, "--working-copies auto");
  if (x.desc.working_copies != AC_WORKING_COPIES_KEPT) return;
  x.desc.working_copies = AC_WORKING_COPIES_AUTO;
  if (ac_plan_copies_are_open(&x.desc)) add(o, &x, "without working copies of weights");
}

/* Optimizer state in host memory, where the device has its own. */
static void offer_host(offers *o) {
  const ac_problem *problem = o->problem;
  offer x = begin(o, "");
  if (!problem->device->info.own_memory || ac_problem_may_move(problem) ||
      ac_state_must_stay(problem->desc.gradients))
    return;
  x.desc.host_memory = ac_cells_host_bytes(problem);
  if (!x.desc.host_memory) return;
  const bool stays = x.desc.state_space == AC_STATE_ON_DEVICE;
  if (stays) x.desc.state_space = AC_STATE_SPACE_AUTO;
  snprintf(x.flags, sizeof x.flags, "%s--host-memory %llu",
           stays ? "--optimizer-state-in auto " : "", (unsigned long long)x.desc.host_memory);
  add(o, &x, "with optimizer state in host memory");
}

static void offer_micro_batch(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked, *desc = &o->problem->desc;
  const int64_t least = o->problem->least;
  if (desc->micro_batch <= least || !ac_problem_allows(o->problem, least) ||
      ac_gradients_need_whole(desc->gradients))
    return;
  char flag[40];
  snprintf(flag, sizeof flag, "--micro-batch %lld", (long long)least);
  offer x = begin(o, flag);
  const bool coupled = o->problem->coupled >= 0;
  if (asked->micro_batch || !coupled) x.desc.micro_batch = least;
  if (coupled) {
    x.desc.micro_batch_norm = true;
    snprintf(x.flags, sizeof x.flags, "--batch-norm micro%s%s", asked->micro_batch ? " " : "",
             asked->micro_batch ? flag : "");
  }
  find_bytes(o, &x, o->problem->source);
  char what[96];
  snprintf(what, sizeof what, "at a micro-batch of %lld%s", (long long)x.micro_batch,
           coupled ? ", which is all that batch norm would see" : "");
  if (x.bytes < o->least) put(o, &x, o->text[0] ? "," : "; it would need", what);
}

static void offer_recomputation(offers *o) {
  offer x = begin(o, "--recompute auto");
  if (x.desc.recompute == AC_RECOMPUTE_AUTO) return;
  x.desc.recompute = AC_RECOMPUTE_AUTO;
  add(o, &x, "with recomputation as needed");
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
  offer x = begin(o, "");
  AC_TRY(ac_graph_clone(&graph, o->problem->source));
  if (clear_hints(graph)) find_bytes(o, &x, graph);
  else x.bytes = UINT64_MAX;
  if (x.bytes < o->least) put(o, &x, o->text[0] ? "," : "; it would need", "without its hints");
  ac_graph_free(graph);
  return AC_OK;
}

/* ---- with other results ---------------------------------------------------------------------- */

static void offer_precision(offers *o) {
  offer x = begin(o, "--precision f16");
  if (x.desc.precision != AC_PRECISION_F32) return;
  x.desc.precision = AC_PRECISION_F16;
  add(o, &x, "at precision f16");
}

/* In the place of what is set about gradients. */
static void offer_folded(offers *o) {
  static const char *const what[AC_OPTIMIZER_COUNT] = {
      [AC_ADAMW] = "approximately, by folding gradients into the moments as AdamA does",
      [AC_MUON] = "by folding gradients into the momentum",
      [AC_SGD] = "by folding gradients into the momentum"};
  const ac_plan_desc *asked = &o->problem->asked;
  offer x = begin(o, asked->optimizer == AC_MUON ? "--gradients folded --clip 0 --no-nesterov"
                                                 : "--gradients folded --clip 0");
  if (asked->precision == AC_PRECISION_F16) return; /* whose loss scale would have to be given */
  if (asked->gradients != AC_GRADIENTS_AUTO || !what[asked->optimizer]) return;
  x.desc.gradients = AC_GRADIENTS_FOLDED;
  add(o, &x, what[asked->optimizer]);
}

/* What changes results to save memory, from what changes them least. */
typedef enum approximation {
  STATE_8BIT,
  WEIGHTS_BF16,
  GRADIENTS_LOCAL,
  GRADIENTS_BF16,
  APPROXIMATIONS
} approximation;

static const struct {
  const char *what, *flags;
} approximations[APPROXIMATIONS] = {
    {"with optimizer state in 8 bits", "--optimizer-state 8bit --state-f32 ''"},
    {"with weights in bf16", "--precision bf16 --weights bf16"},
    {"with each weight clipped and stepped by itself", "--gradients fused-local"},
    {"with gradients in bf16", "--gradients bf16"}};

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
 * the optimizer. The flags of each are those that come on top. */
static void offer_approximations(offers *o) {
  offer taken = begin(o, "");
  taken.bytes = o->least;
  for (int k = 0; k < APPROXIMATIONS; k++) {
    offer x = taken;
    if (!may_take(&x.desc, (approximation)k)) continue;
    take(&x.desc, (approximation)k);
    const ac_plan_desc desc = x.desc;
    const size_t used = strlen(x.flags);
    snprintf(x.flags + used, sizeof x.flags - used, "%s%s", used ? " " : "",
             approximations[k].flags);
    find_bytes(o, &x, o->problem->source);
    if (x.bytes >= taken.bytes) continue;
    const bool first = taken.bytes == o->least;
    char what[96];
    snprintf(what, sizeof what, "%s%s", first ? "" : "also ", approximations[k].what);
    taken = x;
    taken.desc = desc;
    snprintf(x.flags, sizeof x.flags, "%s", approximations[k].flags);
    put(o, &x, first ? "; with other results it would need" : ",", what);
  }
}

/* ---- refusing -------------------------------------------------------------------------------- */

ac_status ac_plan_refuse(ac_candidates *candidates, ac_plan *board, uint64_t limit) {
  const ac_problem *problem = candidates->problem;
  int64_t micro_batch = 1;
  uint64_t total;
  AC_TRY(ac_candidates_least(candidates, board, &total, &micro_batch));
  offers o = {problem,
              .least = ac_problem_needs(problem, total, ac_plan_must_read_ahead(&problem->desc))};
  board->least = o.least;
  if (o.least == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  offer_no_read_ahead(&o);
  offer_gradients(&o);
  offer_no_copies(&o);
  offer_host(&o);
  offer_micro_batch(&o);
  offer_recomputation(&o);
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
