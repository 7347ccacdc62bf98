/* Descriptions that need less than one that does not fit.
 *
 * An offer is another description. The caller may know what else follows from it, or that it is not
 * possible (ac_plan_desc.offers). Its bytes are found in the same way as for a plan with that
 * description, so a caller that asks for it with these bytes gets a plan. What would be refused is
 * not offered. Nothing is measured for that: if the costs of a description are not known, its bytes
 * are those of the candidates that do not depend on costs. They are enough, but not always the
 * least (candidates.h). */
#include "plan/candidates.h"

#include "core/error.h"

/* What is offered, as it grows. */
typedef struct offers {
  const ac_problem *problem; /* of what is asked for */
  uint64_t least;            /* bytes that it needs; an offer must need less */
  ac_plan_offer *list;       /* room for `capacity` of them */
  int capacity, count;
  ac_chain_memo *memo;
} offers;

/* ---- what a description needs ---------------------------------------------------------------- */

/* Orders depend on how long the ops of the micro-batch take, on no others. */
static ac_status least_training(const ac_problem *problem, ac_chain_memo *memo, uint64_t *least,
                                int64_t *micro_batch, bool *at_most) {
  ac_cost_model costs;
  bool ops[AC_OP_COUNT] = {false};
  uint64_t total = UINT64_MAX;
  ac_nodes_mark_ops(&problem->main, problem->graph, ops);
  const bool known =
      ac_cost_model_recall(&costs, problem->device, ac_plan_storage(&problem->desc), ops);
  *at_most |= !known && problem->desc.recompute == AC_RECOMPUTE_AUTO;
  ac_status status =
      ac_candidates_find_least(problem, known ? &costs : NULL, memo, &total, micro_batch);
  *least = ac_problem_needs(problem, total, ac_plan_must_read_ahead(&problem->desc));
  return status;
}

static ac_status least_forward(const ac_problem *problem, uint64_t *least, int64_t *micro_batch) {
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  *micro_batch = problem->desc.micro_batch ? problem->desc.micro_batch : 1;
  const ac_choice choice = {*micro_batch, &problem->main, ac_gradient_way_of(AC_GRADIENTS_BUFFER),
                            false, 0};
  ac_status status = ac_problem_check_support(problem, *micro_batch);
  if (status == AC_OK) status = ac_plan_lay(&board, &choice);
  *least = board.info.bytes.total;
  ac_plan_clear(&board);
  return status;
}

/* Tries with or without working copies; keeps the result if it needs less than before. */
static ac_status try_least(ac_plan_offer *x, const ac_graph *graph, ac_device *device,
                           ac_chain_memo *memo, bool copies) {
  ac_problem other;
  uint64_t bytes = UINT64_MAX;
  int64_t micro_batch = 1;
  ac_status status = ac_problem_create(&other, graph, device, &x->desc, copies);
  if (status == AC_OK)
    status = x->desc.purpose == AC_TRAIN
                 ? least_training(&other, memo, &bytes, &micro_batch, &x->at_most)
                 : least_forward(&other, &bytes, &micro_batch);
  ac_problem_free(&other);
  if (status == AC_OK && bytes < x->bytes) x->bytes = bytes, x->micro_batch = micro_batch;
  return status;
}

/* Finds the least bytes in the same way as ac_plan_create. */
static ac_status find_least(ac_plan_offer *x, const ac_graph *graph, ac_device *device,
                            ac_chain_memo *memo) {
  x->bytes = UINT64_MAX;
  x->micro_batch = 1;
  x->at_most = false;
  const bool copies = x->desc.working_copies != AC_WORKING_COPIES_NONE;
  AC_TRY(try_least(x, graph, device, memo, copies));
  if (ac_plan_copies_are_open(&x->desc)) try_least(x, graph, device, memo, false);
  return AC_OK;
}

/* What is not possible is not offered. */
static void find_bytes(const offers *o, ac_plan_offer *x, const ac_graph *graph) {
  const ac_plan_desc *asked = &o->problem->asked;
  x->bytes = UINT64_MAX;
  if (asked->offers && !asked->offers(asked->offers_context, x->reliefs, &x->desc)) return;
  if (ac_plan_check_desc(&x->desc) != AC_OK) return;
  if (find_least(x, graph, o->problem->device, o->memo) != AC_OK) x->bytes = UINT64_MAX;
}

/* Adds it if it needs less. */
static void put(offers *o, const ac_plan_offer *x) {
  if (x->bytes >= o->least) return;
  if (o->count < o->capacity) o->list[o->count] = *x;
  o->count++;
}

static void add(offers *o, ac_plan_offer *x) {
  find_bytes(o, x, o->problem->source);
  put(o, x);
}

static ac_plan_offer begin(const offers *o, unsigned reliefs) {
  return (ac_plan_offer){.reliefs = reliefs, .desc = o->problem->asked};
}

/* ---- with the same results ------------------------------------------------------------------- */

/* If the weights of losses are counted over a window, all of the window must be there at once. */
static void offer_no_read_ahead(offers *o) {
  ac_plan_offer x = begin(o, AC_RELIEF_NO_READ_AHEAD);
  const ac_plan_desc *desc = &o->problem->desc;
  const bool counts = desc->loss_means == AC_LOSS_MEANS_COUNTED &&
                      (o->problem->way->needs_weights || o->problem->source->loss_count > 1);
  if (!ac_plan_must_read_ahead(desc) || (counts && desc->micro_batch != desc->batch)) return;
  x.desc.read_ahead = 0;
  add(o, &x);
}

/* Another way of gradients. If each micro-batch had to be a whole window, it may then be small. */
static void offer_gradients(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked;
  const ac_gradient_way *way = o->problem->way;
  const bool whole = way->one_micro_batch, split = whole && asked->micro_batch;
  ac_plan_offer x =
      begin(o, AC_RELIEF_GRADIENTS_AUTO | (split ? (unsigned)AC_RELIEF_MICRO_BATCH_1 : 0));
  if (!way->auto_may_need_less || (whole && o->problem->coupled >= 0)) return;
  x.desc.gradients = AC_GRADIENTS_AUTO;
  if (split && o->problem->least > 1) return; /* one sample is too few for batch norm */
  if (split) x.desc.micro_batch = 1;
  add(o, &x);
}

/* Several ranks may divide them. */
static void offer_sharded(offers *o) {
  const ac_problem *problem = o->problem;
  ac_plan_offer x = begin(o, AC_RELIEF_GRADIENTS_SHARDED);
  if (problem->desc.ranks < 2 || problem->in_sections) return;
  if (x.desc.gradients != AC_GRADIENTS_AUTO || x.desc.gradient_storage != AC_GRADIENT_F32) return;
  x.desc.gradients = AC_GRADIENTS_SHARDED;
  add(o, &x);
}

/* Weights that are rounded for each op that reads them, where copies are asked for. */
static void offer_no_copies(offers *o) {
  ac_plan_offer x = begin(o, AC_RELIEF_WORKING_COPIES_AUTO);
  if (x.desc.working_copies != AC_WORKING_COPIES_KEPT) return;
  x.desc.working_copies = AC_WORKING_COPIES_AUTO;
  if (ac_plan_copies_are_open(&x.desc)) add(o, &x);
}

/* Optimizer state in host memory, where the device has its own. */
static void offer_host(offers *o) {
  const ac_problem *problem = o->problem;
  ac_plan_offer x = begin(o, AC_RELIEF_HOST_MEMORY);
  if (!problem->device->info.own_memory || ac_problem_may_transfer(problem) ||
      !problem->way->moves_state)
    return;
  x.desc.host_memory = ac_cells_host_bytes(problem);
  if (!x.desc.host_memory) return;
  if (x.desc.state_space == AC_STATE_ON_DEVICE) x.reliefs |= AC_RELIEF_STATE_SPACE_AUTO;
  if (x.desc.state_space == AC_STATE_ON_DEVICE) x.desc.state_space = AC_STATE_SPACE_AUTO;
  add(o, &x);
}

/* A batch that batch norm keeps whole is split, with the same results. */
static void offer_exact_norm(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked;
  ac_plan_offer x = begin(o, AC_RELIEF_EXACT_BATCH_NORM);
  if (o->problem->coupled < 0 || o->problem->way->one_micro_batch) return;
  x.desc.batch_norm = AC_BATCH_NORM_EXACT;
  if (asked->micro_batch) x.reliefs |= AC_RELIEF_MICRO_BATCH_1;
  if (asked->micro_batch) x.desc.micro_batch = 1;
  add(o, &x);
}

static void offer_micro_batch(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked, *desc = &o->problem->desc;
  const bool coupled = o->problem->coupled >= 0;
  if (desc->micro_batch <= 1 || !ac_problem_allows(o->problem, asked->batch, 1) ||
      o->problem->way->one_micro_batch)
    return;
  ac_plan_offer x = begin(o, coupled ? AC_RELIEF_MICRO_BATCH_NORM : AC_RELIEF_MICRO_BATCH_1);
  if (coupled) x.desc.batch_norm = AC_BATCH_NORM_MICRO;
  if (coupled && asked->micro_batch) x.reliefs |= AC_RELIEF_MICRO_BATCH_1;
  if (asked->micro_batch || !coupled) x.desc.micro_batch = 1;
  add(o, &x);
}

static void offer_recomputation(offers *o) {
  ac_plan_offer x = begin(o, AC_RELIEF_RECOMPUTE_AUTO);
  if (x.desc.recompute == AC_RECOMPUTE_AUTO) return;
  x.desc.recompute = AC_RECOMPUTE_AUTO;
  add(o, &x);
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
  ac_plan_offer x = begin(o, AC_RELIEF_NO_HINTS);
  AC_TRY(ac_graph_clone(&graph, o->problem->source));
  if (clear_hints(graph)) {
    find_bytes(o, &x, graph);
    put(o, &x);
  }
  ac_graph_free(graph);
  return AC_OK;
}

/* ---- with other results ---------------------------------------------------------------------- */

static void offer_precision(offers *o) {
  ac_plan_offer x = begin(o, AC_RELIEF_PRECISION_F16);
  if (x.desc.precision != AC_PRECISION_F32) return;
  x.desc.precision = AC_PRECISION_F16;
  add(o, &x);
}

/* Replaces the way of gradients. */
static void offer_folded(offers *o) {
  const ac_plan_desc *asked = &o->problem->asked;
  ac_plan_offer x = begin(o, AC_RELIEF_GRADIENTS_FOLDED);
  if (asked->precision == AC_PRECISION_F16) return; /* a loss scale would have to be given */
  if (asked->gradients != AC_GRADIENTS_AUTO) return;
  if (!ac_optimizer_row_of(asked->optimizer.kind)->fold) return;
  x.desc.gradients = AC_GRADIENTS_FOLDED;
  add(o, &x);
}

/* What changes results to save memory, from what changes them least. */
static const unsigned approximations[] = {AC_RELIEF_STATE_8BIT, AC_RELIEF_WEIGHTS_BF16,
                                          AC_RELIEF_GRADIENTS_LOCAL, AC_RELIEF_GRADIENTS_BF16};
enum { APPROXIMATIONS = sizeof approximations / sizeof *approximations };

/* Windows in pieces cannot be stepped in one pass; where they are, gradients add up to nothing. */
static bool may_take(const ac_plan_desc *desc, unsigned which) {
  if (which == AC_RELIEF_GRADIENTS_LOCAL) return desc->whole_windows;
  return which != AC_RELIEF_GRADIENTS_BF16 || !ac_gradient_way_of(desc->gradients)->steps_alone;
}

static void take(ac_plan_desc *desc, unsigned which) {
  switch (which) {
  case AC_RELIEF_STATE_8BIT:
    desc->optimizer.state = AC_STATE_8BIT;
    desc->optimizer.state_f32 = "";
    break;
  case AC_RELIEF_WEIGHTS_BF16:
    desc->precision = AC_PRECISION_BF16;
    desc->weights = AC_WEIGHTS_BF16;
    break;
  case AC_RELIEF_GRADIENTS_LOCAL:
    desc->gradients = AC_GRADIENTS_FUSED_LOCAL;
    break;
  default:
    desc->gradient_storage = AC_GRADIENT_BF16;
  }
}

/* Each of them on top of those before, so far as they go with the optimizer and need less. */
static void offer_approximations(offers *o) {
  ac_plan_offer taken = begin(o, 0);
  taken.bytes = o->least;
  for (int k = 0; k < APPROXIMATIONS; k++) {
    ac_plan_offer x = taken;
    if (!may_take(&x.desc, approximations[k])) continue;
    take(&x.desc, approximations[k]);
    x.reliefs |= approximations[k];
    const ac_plan_desc desc = x.desc;
    find_bytes(o, &x, o->problem->source);
    if (x.bytes >= taken.bytes) continue;
    put(o, &x);
    taken = x;
    taken.desc = desc;
  }
}

/* ---------------------------------------------------------------------------------------------- */

static ac_status offer_all(offers *o) {
  if (o->problem->desc.purpose == AC_TRAIN) {
    offer_no_read_ahead(o);
    offer_gradients(o);
    offer_sharded(o);
    offer_no_copies(o);
    offer_host(o);
    offer_exact_norm(o);
    offer_micro_batch(o);
    offer_recomputation(o);
  }
  offer_precision(o);
  if (o->problem->desc.purpose != AC_TRAIN) return AC_OK;
  AC_TRY(offer_without_hints(o));
  offer_folded(o);
  offer_approximations(o);
  return AC_OK;
}

ac_status ac_plan_offers(const ac_graph *graph, ac_device *device, const ac_plan_desc *desc,
                         ac_plan_offer *list, int capacity, int *count) {
  AC_REQUIRE(graph, device, count);
  *count = 0;
  if (capacity < 0 || (capacity > 0 && !list))
    return ac_fail(AC_ERROR_ARGUMENT, "ac_plan_offers: there is no list of %d", capacity);
  ac_plan_offer asked = {.desc = AC_DESCRIBED(ac_plan_desc, desc)};
  ac_problem problem = {0};
  ac_chain_memo memo = {0};
  const ac_kept_error kept = ac_error_keep();
  AC_TRY(ac_plan_check_desc(&asked.desc));
  const bool copies = asked.desc.working_copies != AC_WORKING_COPIES_NONE;
  ac_status status = ac_problem_create(&problem, graph, device, &asked.desc, copies);
  if (status == AC_OK) status = find_least(&asked, graph, device, &memo);
  if (status == AC_OK && asked.bytes != UINT64_MAX) {
    offers o = {&problem, asked.bytes, list, capacity, 0, &memo};
    status = offer_all(&o);
    *count = o.count;
  }
  ac_problem_free(&problem);
  ac_chain_memo_free(&memo);
  if (status == AC_OK) ac_error_restore(&kept); /* what cannot be offered has failed */
  return status;
}
