/* The search for a plan: which micro-batch, and what to recompute.
 *
 * For each micro-batch size B (the distinct ceil(batch / n), thinned out to at most AC_SEARCH_SIZES
 * of them) there is a family of orders: keep everything, recompute every stage, and the choices of
 * the chain solver from least memory to fastest, thinned out to CHOICES; policies other than `auto`
 * leave the one order they name. The families depend on graph, device and batch alone, never on the
 * budget. So the rule "the least predicted time among all candidates whose total fits" gives plans
 * that never get slower with more budget, and the smallest budget that can be met is the smallest
 * total among the candidates, exactly.
 *
 * Totals need a layout, which is quadratic in values; the sum of bytes alive is linear and a lower
 * bound. Candidates are tried from the fastest on, and only those whose bound fits are laid out. */
#include "plan/stages.h"

#include "core/error.h"
#include "ops/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES = 14 };

/* Choices that are no index into the solver's. */
enum { KEEP_EVERYTHING = -1, RECOMPUTE_EVERYTHING = -2 };

typedef struct candidate {
  int64_t micro_batch;
  uint64_t memory; /* the chain solver's limit that yields the order */
  int choice;
  double seconds; /* of a whole window and its update */
  uint64_t bound; /* bytes on the device in total, at least */
} candidate;

typedef struct search {
  ac_plan *plan;
  const ac_cost_model *costs;
  candidate *list;
  int count;
  double update; /* seconds */
} search;

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double sequence_seconds(const search *s, int64_t batch) {
  const ac_plan *plan = s->plan;
  ac_run_state run = {.training = true, .batch = batch};
  double seconds = 0;
  for (int i = 0; i < plan->main.step_count; i++) {
    ac_op_args args;
    ac_step_arguments(&plan->main.steps[i], plan->graph, &run, &args);
    seconds += ac_cost_seconds(s->costs, &args);
  }
  return seconds;
}

static double window_seconds(const search *s, int64_t micro_batch) {
  int64_t batch = s->plan->desc.batch, whole = batch / micro_batch, rest = batch % micro_batch;
  double seconds = (double)whole * sequence_seconds(s, micro_batch);
  return seconds + (rest ? sequence_seconds(s, rest) : 0) + s->update;
}

static double update_seconds(const search *s) {
  const ac_plan *plan = s->plan;
  double seconds = 0;
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    if (plan->parameters[i].gradient < 0) continue;
    ac_operand x = ac_operand_of(ac_tensor_at(plan->graph, plan->parameters[i].tensor), 1);
    ac_op_args args = {.op = AC_OP_gradient_statistics, .in = {x}};
    args.out[0] = (ac_operand){.rank = 1, .dim = {2}, .count = 2};
    seconds += ac_cost_seconds(s->costs, &args);
    ac_plan_update_arguments(plan, i, NULL, NULL, &args);
    seconds += ac_cost_seconds(s->costs, &args);
  }
  return seconds;
}

/* The ops that these functions, and the stages', ask for the price of: those that run, and those of
 * the update. */
static void list_ops(const ac_plan *plan, bool ops[AC_OP_COUNT]) {
  for (int i = 0; i < plan->main.step_count; i++)
    ops[ac_node_at(plan->graph, plan->main.steps[i].node)->op] = true;
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    ac_op_args args;
    if (plan->parameters[i].gradient < 0) continue;
    ac_plan_update_arguments(plan, i, NULL, NULL, &args);
    ops[args.op] = ops[AC_OP_gradient_statistics] = true;
  }
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Every stage is run once and keeps what its backward pass reads, or, with `all`, drops what it can
 * and computes it anew; only the last does not, as its backward pass comes right behind. */
static ac_status order_saving(ac_stages *stages, bool all) {
  int count = 0;
  ac_chain_operation *operations = malloc((size_t)stages->count * 2 * sizeof *operations);
  if (!operations) return ac_fail(AC_ERROR_MEMORY, "no memory for an order");
  for (int s = 0; s < stages->count; s++) {
    bool last = s == stages->count - 1 && stages->count > 1;
    int variant = last || !all ? 0 : stages->stage[s].variants - 1;
    operations[count++] = (ac_chain_operation){AC_CHAIN_SAVE, s + 1, variant};
  }
  for (int s = stages->count - 1; s >= 0; s--)
    operations[count++] = (ac_chain_operation){AC_CHAIN_BACKWARD, s + 1, operations[s].variant};
  ac_status status = ac_stages_order(stages, operations, count);
  free(operations);
  return status;
}

/* Sets plan->main to the order of a candidate. `solution` is that of its micro-batch. */
static ac_status build_main(search *s, const candidate *c, const ac_chain_solution *solution) {
  ac_plan *plan = s->plan;
  ac_stages *stages = plan->stages;
  bool hinted = stages->hinted && plan->desc.recompute != AC_RECOMPUTE_NONE;
  if (c->choice == KEEP_EVERYTHING && !hinted) {
    AC_TRY(ac_stages_plain_order(stages));
  } else if (c->choice < 0) {
    AC_TRY(order_saving(stages, c->choice == RECOMPUTE_EVERYTHING));
  } else {
    const ac_chain_operation *operations;
    int count;
    AC_TRY(ac_chain_schedule(solution, c->memory, &operations, &count));
    AC_TRY(ac_stages_order(stages, operations, count));
  }
  ac_sequence_free(&plan->main);
  bool whole = plan->desc.whole_windows && c->micro_batch == plan->desc.batch;
  return ac_sequence_build(&plan->main, plan->graph, AC_TARGET_GRADIENTS, whole, stages->order,
                           stages->order_count);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static ac_status add_candidate(search *s, int64_t micro_batch, int choice, uint64_t memory,
                               const ac_chain_solution *solution) {
  candidate c = {.micro_batch = micro_batch, .choice = choice, .memory = memory};
  AC_TRY(build_main(s, &c, solution));
  AC_TRY(ac_plan_price(s->plan, micro_batch, false));
  c.bound = s->plan->info.bytes.total;
  c.seconds = window_seconds(s, micro_batch);
  s->list[s->count++] = c;
  return AC_OK;
}

static ac_status solve(search *s, int64_t micro_batch, ac_chain_solution **solution) {
  ac_plan *plan = s->plan;
  ac_chain chain;
  *solution = NULL;
  AC_TRY(ac_stages_price(plan->stages, plan->device, s->costs, micro_batch, &chain));
  ac_status status = AC_OK;
  if (plan->desc.recompute == AC_RECOMPUTE_AUTO)
    status = ac_chain_solve(solution, &chain, UINT64_MAX, chain.stages > 64 ? 512 : 2048);
  ac_stages_free_chain(&chain);
  return status;
}

static ac_status add_size(search *s, int64_t micro_batch) {
  ac_recompute policy = s->plan->desc.recompute;
  if (policy == AC_RECOMPUTE_NONE) return add_candidate(s, micro_batch, KEEP_EVERYTHING, 0, NULL);
  ac_chain_solution *solution;
  AC_TRY(solve(s, micro_batch, &solution));
  if (policy == AC_RECOMPUTE_ALL)
    return add_candidate(s, micro_batch, RECOMPUTE_EVERYTHING, 0, NULL);
  const ac_chain_choice *choices;
  int count = ac_chain_choices(solution, &choices);
  int taken = count < CHOICES ? count : CHOICES;
  ac_status status = add_candidate(s, micro_batch, KEEP_EVERYTHING, 0, NULL);
  if (status == AC_OK) status = add_candidate(s, micro_batch, RECOMPUTE_EVERYTHING, 0, NULL);
  for (int i = 0; i < taken && status == AC_OK; i++) {
    int index = taken > 1 ? (int)((int64_t)i * (count - 1) / (taken - 1)) : 0;
    status = add_candidate(s, micro_batch, index, choices[index].memory, solution);
  }
  ac_chain_free(solution);
  return status;
}

/* Micro-batches that split the batch evenly. The first and the last are always among them. */
int ac_plan_search_sizes(int64_t batch, int64_t sizes[AC_SEARCH_SIZES]) {
  int count = 0;
  double ratio = pow((double)batch, 1.0 / (AC_SEARCH_SIZES - 1));
  double wanted = (double)batch;
  int64_t last = 0;
  for (int i = 0; i < AC_SEARCH_SIZES; i++, wanted /= ratio) {
    int64_t steps = wanted < 1 ? batch : divide_up(batch, (int64_t)(wanted + 0.5));
    if (i == AC_SEARCH_SIZES - 1) steps = batch;
    int64_t size = divide_up(batch, steps);
    if (size != last) sizes[count++] = last = size;
  }
  return count;
}

/* Of every size at which the device runs all ops. If it does not at the last, the smallest, the
 * plan is refused. */
static ac_status list_candidates(search *s) {
  int64_t sizes[AC_SEARCH_SIZES] = {s->plan->desc.micro_batch};
  int count = s->plan->desc.micro_batch ? 1 : ac_plan_search_sizes(s->plan->desc.batch, sizes);
  free(s->list);
  s->count = 0;
  s->list = malloc((size_t)count * (CHOICES + 2) * sizeof *s->list);
  if (!s->list) return ac_fail(AC_ERROR_MEMORY, "no memory for the search");
  for (int i = 0; i < count; i++) {
    ac_status status = ac_plan_check_support(s->plan, sizes[i]);
    if (status == AC_ERROR_UNSUPPORTED && i < count - 1) continue;
    AC_TRY(status);
    AC_TRY(add_size(s, sizes[i]));
  }
  return AC_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int by_seconds(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
  return (x->bound > y->bound) - (x->bound < y->bound);
}

static int by_bound(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  return (x->bound > y->bound) - (x->bound < y->bound);
}

/* Builds a candidate and lays it out; info.bytes is exact afterwards. */
static ac_status lay_out(search *s, const candidate *c) {
  ac_chain_solution *solution = NULL;
  if (s->plan->desc.recompute != AC_RECOMPUTE_NONE) AC_TRY(solve(s, c->micro_batch, &solution));
  ac_status status = build_main(s, c, solution);
  ac_chain_free(solution);
  if (status == AC_OK) status = ac_plan_price(s->plan, c->micro_batch, true);
  s->plan->info.predicted_seconds = c->seconds;
  return status;
}

static ac_status refusal(const ac_plan *plan, uint64_t least, int64_t micro_batch, uint64_t limit,
                         const char *knobs) {
  char need[32], have[32];
  ac_format_bytes(need, sizeof need, least);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld%s), %s is %s%s",
                 need, (unsigned long long)least, (long long)micro_batch,
                 plan->desc.recompute == AC_RECOMPUTE_NONE ? " without recomputation" : "",
                 plan->desc.memory ? "the budget" : "what the device can spare", have, knobs);
}

/* The least that one of the candidates needs, and its micro-batch. */
static ac_status find_least(search *s, uint64_t *least, int64_t *micro_batch) {
  uint64_t total = UINT64_MAX;
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_bound);
  for (int i = 0; i < s->count && s->list[i].bound < total; i++) {
    AC_TRY(lay_out(s, &s->list[i]));
    if (s->plan->info.bytes.total >= total) continue;
    total = s->plan->info.bytes.total;
    *micro_batch = s->list[i].micro_batch;
  }
  *least = ac_plan_needs(s->plan, total);
  return AC_OK;
}

/* Adds to the text what a choice would need, if that is less. */
static void add_knob(uint64_t bytes, uint64_t least, const char *what, char *text, size_t size) {
  char amount[32];
  size_t used = strlen(text);
  if (bytes < least)
    snprintf(text + used, size - used, "%s %s %s", used ? "," : "; it would need",
             ac_format_bytes(amount, sizeof amount, bytes), what);
}

/* What the smallest total would be under another policy; adds a phrase if that is less. */
static ac_status try_knob(search *s, const ac_plan_desc *desc, uint64_t least, const char *what,
                          char *text, size_t size) {
  uint64_t other;
  int64_t micro_batch;
  ac_plan_desc own = s->plan->desc;
  s->plan->desc = *desc;
  ac_status status = list_candidates(s);
  if (status == AC_OK) status = find_least(s, &other, &micro_batch);
  s->plan->desc = own;
  if (status == AC_OK) add_knob(other, least, what, text, size);
  return status;
}

/* The plan is given up by now, so its graph may change. */
static bool clear_hints(ac_plan *plan) {
  bool any = false;
  for (int i = 0; i < plan->graph->tensor_count; i++) {
    any |= ac_tensor_at(plan->graph, i)->hint != AC_HINT_NONE;
    ac_tensor_at(plan->graph, i)->hint = AC_HINT_NONE;
  }
  return any;
}

static ac_status cut_anew(ac_plan *plan) {
  bool *runs = calloc((size_t)plan->graph->node_count + 1, sizeof *runs);
  if (!runs || ac_select_nodes(plan->graph, AC_TARGET_GRADIENTS, runs) < 0) {
    free(runs);
    return ac_fail(AC_ERROR_MEMORY, "no memory for the search");
  }
  ac_stages_free(plan->stages);
  ac_status status = ac_stages_cut(plan->stages, plan->graph, runs);
  free(runs);
  return status;
}

/* What the same plan would need in 16 bits, at the costs of f32, so that nothing is measured for a
 * remark; UINT64_MAX where there is nothing to say. */
static uint64_t least_in_f16(const ac_plan *plan, const ac_cost_model *costs) {
  ac_plan_desc desc = plan->desc;
  desc.precision = AC_PRECISION_F16;
  search other = {.costs = costs};
  if (ac_plan_begin(&other.plan, plan->source, plan->device, &desc) != AC_OK) return UINT64_MAX;
  uint64_t bytes = UINT64_MAX;
  int64_t micro_batch = desc.micro_batch ? desc.micro_batch : 1;
  ac_status status;
  if (desc.purpose == AC_TRAIN) {
    status = list_candidates(&other);
    if (status == AC_OK) status = find_least(&other, &bytes, &micro_batch);
  } else {
    status = ac_plan_price(other.plan, micro_batch, true);
    bytes = other.plan->info.bytes.total;
  }
  free(other.list);
  ac_plan_free(other.plan);
  return status == AC_OK ? bytes : UINT64_MAX;
}

static void try_precision(const ac_plan *plan, const ac_cost_model *costs, uint64_t least,
                          char *text, size_t size) {
  if (plan->desc.precision != AC_PRECISION_F32) return;
  add_knob(least_in_f16(plan, costs), least, "at precision f16", text, size);
}

/* Nothing fits: says what would, and what the knobs that were set would buy if they were not. */
static ac_status refuse(search *s, uint64_t limit) {
  uint64_t least;
  int64_t micro_batch = 1;
  char knobs[256] = "";
  AC_TRY(find_least(s, &least, &micro_batch));
  if (least == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  ac_plan_desc desc = s->plan->desc;
  add_knob(least - ac_plan_host_needs(s->plan), least, "with nothing read ahead (--read-ahead 0)",
           knobs, sizeof knobs);
  if (desc.micro_batch > 1) {
    desc.micro_batch = 1;
    const char *what = s->plan->coupled < 0
                           ? "at a micro-batch of 1"
                           : "at a micro-batch of 1, which is all that batch norm would see "
                             "(--batch-norm micro)";
    AC_TRY(try_knob(s, &desc, least, what, knobs, sizeof knobs));
    desc.micro_batch = s->plan->desc.micro_batch;
  }
  if (desc.recompute != AC_RECOMPUTE_AUTO) {
    desc.recompute = AC_RECOMPUTE_AUTO;
    AC_TRY(try_knob(s, &desc, least, "with recomputation as needed", knobs, sizeof knobs));
  }
  try_precision(s->plan, s->costs, least, knobs, sizeof knobs);
  if (clear_hints(s->plan)) {
    AC_TRY(cut_anew(s->plan));
    AC_TRY(try_knob(s, &s->plan->desc, least, "without its hints", knobs, sizeof knobs));
  }
  return refusal(s->plan, least, micro_batch, limit, knobs);
}

static ac_status choose(search *s, uint64_t limit, bool *fits) {
  *fits = false;
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_seconds);
  for (int i = 0; i < s->count && !*fits; i++) {
    if (ac_plan_needs(s->plan, s->list[i].bound) > limit) continue;
    AC_TRY(lay_out(s, &s->list[i]));
    *fits = ac_plan_needs(s->plan, s->plan->info.bytes.total) <= limit;
  }
  return AC_OK;
}

/* Batches that are read ahead only if there is room get what the fastest plan leaves. */
static ac_status choose_or_refuse(search *s, uint64_t limit) {
  ac_plan *plan = s->plan;
  const int wanted = plan->desc.read_ahead;
  bool fits;
  if (plan->desc.read_ahead_if_room) ac_plan_set_read_ahead(plan, 0);
  AC_TRY(choose(s, limit, &fits));
  if (!fits) return refuse(s, limit);
  for (int ahead = wanted; plan->desc.read_ahead_if_room && ahead > 0; ahead--) {
    ac_plan_set_read_ahead(plan, ahead);
    if (ac_plan_needs(plan, plan->info.bytes.total) <= limit) break;
    ac_plan_set_read_ahead(plan, 0);
  }
  return AC_OK;
}

/* ---- forward only ---------------------------------------------------------------------------- */

static ac_status price_forward(ac_plan *plan, int64_t micro_batch, uint64_t limit, bool *fits) {
  AC_TRY(ac_plan_price(plan, micro_batch, true));
  *fits = plan->info.bytes.total <= limit && ac_plan_check_support(plan, micro_batch) == AC_OK;
  return AC_OK;
}

/* Without a backward pass there is nothing to recompute: the fewest micro-batches that fit. Bytes
 * grow with the micro-batch, as does what an op must be able to count, so bisect on their number.
 */
static ac_status search_forward(ac_plan *plan, uint64_t limit) {
  int64_t batch = plan->desc.batch, given = plan->desc.micro_batch;
  uint64_t *total = &plan->info.bytes.total;
  bool fits;
  if (given) AC_TRY(ac_plan_check_support(plan, given));
  AC_TRY(price_forward(plan, given ? given : batch, limit, &fits));
  if (fits) return AC_OK;
  if (!given) AC_TRY(ac_plan_price(plan, 1, true));
  if (*total == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  if (*total > limit) {
    char knobs[256] = "";
    try_precision(plan, NULL, *total, knobs, sizeof knobs);
    return refusal(plan, *total, plan->info.micro_batch, limit, knobs);
  }
  int64_t too_few = 1, enough = batch;
  while (enough - too_few > 1) {
    int64_t middle = too_few + (enough - too_few) / 2;
    AC_TRY(price_forward(plan, divide_up(batch, middle), limit, &fits));
    if (fits) enough = middle;
    else too_few = middle;
  }
  return ac_plan_price(plan, divide_up(batch, enough), true);
}

ac_status ac_plan_search(ac_plan *plan, uint64_t limit) {
  if (plan->desc.purpose != AC_TRAIN) return search_forward(plan, limit);
  search s = {.plan = plan};
  bool ops[AC_OP_COUNT] = {false};
  list_ops(plan, ops);
  AC_TRY(ac_cost_model_get(&s.costs, plan->device, ac_plan_storage(&plan->desc), ops));
  s.update = update_seconds(&s);
  ac_status status = list_candidates(&s);
  if (status == AC_OK) status = choose_or_refuse(&s, limit);
  free(s.list);
  return status;
}
