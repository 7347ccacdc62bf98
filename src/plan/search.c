/* The search for a plan: which micro-batch, what to recompute, whether gradients are kept, and
 * where what the optimizer keeps is.
 *
 * For each micro-batch size B (the distinct ceil(batch / n), thinned out to at most AC_SEARCH_SIZES
 * of them) there is a family of orders: keep everything, recompute every stage, and the choices of
 * the chain solver from least memory to fastest, thinned out to CHOICES; policies other than `auto`
 * leave the one order they name. Where a window is one micro-batch each order stands for two
 * candidates: gradients are kept, or it is run twice (passes.c); a way that is asked for by name
 * stands alone. Where optimizer state may be in host memory (moves.c) there are twice as many. The
 * families depend on graph, device and batch alone, never on the budget. So the rule "the least
 * predicted time among all candidates whose total fits" gives plans that never get slower with more
 * budget, and the smallest budget that can be met is the smallest total among the candidates,
 * exactly.
 *
 * Totals need a layout, which is quadratic in values; the sum of bytes alive is linear and a lower
 * bound. Candidates are tried from the fastest on, and only those whose bound fits are laid out. */
#include "plan/stages.h"

#include "core/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES = 14 };

/* Choices that are no index into the solver's. */
enum { KEEP_EVERYTHING = -1, RECOMPUTE_EVERYTHING = -2 };

typedef struct candidate {
  int size;        /* index */
  uint64_t memory; /* the chain solver's limit that yields the order */
  int choice;
  ac_gradients gradients;
  bool host_state;
  double seconds; /* of a whole window and its update */
  uint64_t bound; /* bytes on the device in total, at least */
} candidate;

/* What candidates of one micro-batch share. */
typedef struct size {
  int64_t micro_batch;
  ac_stage_chain chain;        /* unless everything is kept by policy */
  ac_chain_solution *solution; /* AC_RECOMPUTE_AUTO */
  uint64_t evaluation;         /* bytes of its arena */
} size;

typedef struct search {
  const ac_problem *problem;
  const ac_cost_model *costs;
  double per_moved_byte; /* seconds of the way in, while as much goes out */
  int read_ahead;
  size sizes[AC_SEARCH_SIZES];
  int size_count;
  candidate *list;
  int count;
  ac_order order;
} search;

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double sequence_seconds(const search *s, const ac_sequence *sequence, int64_t batch) {
  double seconds = 0;
  for (int i = 0; i < ac_sequence_end(sequence); i++)
    seconds += ac_cost_step_seconds(s->costs, s->problem->graph, &sequence->steps[i], batch);
  return seconds;
}

static double after_seconds(const search *s, const ac_sequence *sequence) {
  double seconds = 0;
  for (int i = ac_sequence_end(sequence); i < sequence->step_count; i++)
    seconds += ac_cost_step_seconds(s->costs, s->problem->graph, &sequence->steps[i], 1);
  return seconds;
}

/* Of steps of so many seconds in all that move state beside them: the longer of both, with the
 * first way in and the last way out, which nothing runs beside. */
static double moving_seconds(const search *s, const ac_sequence *sequence, double seconds) {
  uint64_t all = 0, most = 0;
  for (int i = ac_moves_next(sequence, -1); i >= 0; i = ac_moves_next(sequence, i)) {
    const uint64_t bytes = ac_moves_bytes(sequence, s->problem->graph, &sequence->steps[i]);
    all += bytes;
    if (bytes > most) most = bytes;
  }
  return fmax(seconds, (double)all * s->per_moved_byte) + 2 * (double)most * s->per_moved_byte;
}

/* A second pass is of the one micro-batch. */
static double window_seconds(const search *s, const ac_sequence *main, const ac_sequence *stepping,
                             int64_t micro_batch) {
  int64_t batch = s->problem->desc.batch, whole = batch / micro_batch, rest = batch % micro_batch;
  double seconds = (double)whole * sequence_seconds(s, main, micro_batch);
  if (rest) seconds += sequence_seconds(s, main, rest);
  return seconds + moving_seconds(s, main, after_seconds(s, main)) +
         moving_seconds(s, stepping, sequence_seconds(s, stepping, micro_batch));
}

static void list_ops(const ac_graph *graph, const ac_nodes *nodes, bool ops[AC_OP_COUNT]) {
  for (int i = 0; i < nodes->count; i++) ops[ac_node_at(graph, nodes->list[i])->op] = true;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Every stage is run once and keeps what its backward pass reads, or, with `all`, drops what it can
 * and computes it anew; only the last does not, as its backward pass comes right behind. */
static ac_status lay_saving(search *s, const ac_stage_chain *chain, bool all) {
  const ac_stages *stages = s->problem->stages;
  int count = 0;
  ac_chain_operation *operations = malloc((size_t)stages->count * 2 * sizeof *operations);
  if (!operations) return ac_fail(AC_ERROR_MEMORY, "no memory for an order");
  for (int i = 0; i < stages->count; i++) {
    bool last = i == stages->count - 1 && stages->count > 1;
    int variant = last || !all ? 0 : chain->variants[i].count - 1;
    operations[count++] = (ac_chain_operation){AC_CHAIN_SAVE, i + 1, variant};
  }
  for (int i = stages->count - 1; i >= 0; i--)
    operations[count++] = (ac_chain_operation){AC_CHAIN_BACKWARD, i + 1, operations[i].variant};
  ac_status status = ac_order_lay(&s->order, stages, chain, operations, count);
  free(operations);
  return status;
}

/* Lays down the order of a candidate in s->order. */
static ac_status lay_order(search *s, const candidate *c) {
  const ac_stages *stages = s->problem->stages;
  const size *size = &s->sizes[c->size];
  bool hinted = stages->hinted && s->problem->desc.recompute != AC_RECOMPUTE_NONE;
  if (c->choice == KEEP_EVERYTHING && !hinted) return ac_order_lay_plain(&s->order, stages);
  if (c->choice < 0) return lay_saving(s, &size->chain, c->choice == RECOMPUTE_EVERYTHING);
  const ac_chain_operation *operations;
  int count;
  AC_TRY(ac_chain_schedule(size->solution, c->memory, &operations, &count));
  return ac_order_lay(&s->order, stages, &size->chain, operations, count);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static ac_choice choice_of(const search *s, const candidate *c) {
  return (ac_choice){s->sizes[c->size].micro_batch, &s->order.nodes, c->gradients, c->host_state};
}

/* Of the order at hand. */
static ac_status add_way(search *s, candidate c) {
  const size *size = &s->sizes[c.size];
  ac_sequence main = {0}, stepping = {0};
  const ac_choice choice = choice_of(s, &c);
  ac_status status = ac_passes_build(s->problem, &choice, &main, &stepping);
  if (status == AC_OK)
    status = ac_memory_bound(s->problem, size->micro_batch, &main, &stepping, size->evaluation,
                             &c.bound);
  if (status == AC_OK) c.seconds = window_seconds(s, &main, &stepping, size->micro_batch);
  ac_sequence_free(&main);
  ac_sequence_free(&stepping);
  if (status == AC_OK) s->list[s->count++] = c;
  return status;
}

/* With optimizer state on the device and, where it may be there, on the host. */
static ac_status add_spaces(search *s, candidate c, ac_gradients gradients) {
  const ac_problem *problem = s->problem;
  c.gradients = gradients;
  if (problem->desc.state_space != AC_STATE_ON_HOST) AC_TRY(add_way(s, c));
  c.host_state = true;
  return ac_problem_may_move(problem) ? add_way(s, c) : AC_OK;
}

static ac_status add_candidate(search *s, int size, int choice, uint64_t memory) {
  const candidate c = {.size = size, .choice = choice, .memory = memory};
  const ac_gradients asked = s->problem->desc.gradients;
  const bool whole = ac_problem_whole_window(s->problem, s->sizes[size].micro_batch);
  AC_TRY(lay_order(s, &c));
  if (asked != AC_GRADIENTS_AUTO) return add_spaces(s, c, asked);
  AC_TRY(add_spaces(s, c, AC_GRADIENTS_BUFFER));
  return whole ? add_spaces(s, c, AC_GRADIENTS_FUSED) : AC_OK;
}

static ac_status solve(search *s, size *size) {
  const ac_problem *problem = s->problem;
  AC_TRY(ac_stage_chain_create(&size->chain, problem->stages, problem->device, s->costs,
                               size->micro_batch));
  if (problem->desc.recompute != AC_RECOMPUTE_AUTO) return AC_OK;
  const ac_chain *chain = &size->chain.chain;
  return ac_chain_solve(&size->solution, chain, UINT64_MAX, chain->stages > 64 ? 512 : 2048);
}

static ac_status add_size(search *s, int64_t micro_batch) {
  ac_recompute policy = s->problem->desc.recompute;
  int index = s->size_count++;
  size *size = &s->sizes[index];
  size->micro_batch = micro_batch;
  AC_TRY(ac_memory_evaluation(s->problem, micro_batch, &size->evaluation));
  if (policy == AC_RECOMPUTE_NONE) return add_candidate(s, index, KEEP_EVERYTHING, 0);
  AC_TRY(solve(s, size));
  if (policy == AC_RECOMPUTE_ALL) return add_candidate(s, index, RECOMPUTE_EVERYTHING, 0);
  const ac_chain_choice *choices;
  int count = ac_chain_choices(size->solution, &choices);
  int taken = count < CHOICES ? count : CHOICES;
  AC_TRY(add_candidate(s, index, KEEP_EVERYTHING, 0));
  AC_TRY(add_candidate(s, index, RECOMPUTE_EVERYTHING, 0));
  for (int i = 0; i < taken; i++) {
    int choice = taken > 1 ? (int)((int64_t)i * (count - 1) / (taken - 1)) : 0;
    AC_TRY(add_candidate(s, index, choice, choices[choice].memory));
  }
  return AC_OK;
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
  const ac_plan_desc *desc = &s->problem->desc;
  int64_t sizes[AC_SEARCH_SIZES] = {desc->micro_batch};
  int count = desc->micro_batch ? 1 : ac_plan_search_sizes(desc->batch, sizes);
  s->list = malloc((size_t)count * 4 * (CHOICES + 2) * sizeof *s->list);
  if (!s->list) return ac_fail(AC_ERROR_MEMORY, "no memory for the search");
  for (int i = 0; i < count; i++) {
    ac_status status = ac_problem_check_support(s->problem, sizes[i]);
    if (status == AC_ERROR_UNSUPPORTED && i < count - 1) continue;
    AC_TRY(status);
    AC_TRY(add_size(s, sizes[i]));
  }
  return AC_OK;
}

/* End it with end_search, after a failure too. */
static ac_status begin_search(search *s, const ac_problem *problem, const ac_cost_model *costs,
                              int read_ahead, double per_moved_byte) {
  *s = (search){.problem = problem,
                .costs = costs,
                .read_ahead = read_ahead,
                .per_moved_byte = per_moved_byte};
  AC_TRY(ac_order_create(&s->order, problem->stages));
  return list_candidates(s);
}

static void end_search(search *s) {
  for (int i = 0; i < s->size_count; i++) {
    ac_stage_chain_free(&s->sizes[i].chain);
    ac_chain_free(s->sizes[i].solution);
  }
  ac_order_free(&s->order);
  free(s->list);
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

static uint64_t needs(const search *s, uint64_t total) {
  return ac_problem_needs(s->problem, total, s->read_ahead);
}

static ac_status lay_down(search *s, ac_plan *plan, const candidate *c) {
  AC_TRY(lay_order(s, c));
  const ac_choice choice = choice_of(s, c);
  plan->info.predicted_seconds = c->seconds;
  return ac_plan_lay(plan, &choice);
}

static ac_status refusal(const ac_problem *problem, uint64_t least, int64_t micro_batch,
                         uint64_t limit, const char *knobs) {
  char need[32], have[32];
  ac_format_bytes(need, sizeof need, least);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld%s), %s is %s%s",
                 need, (unsigned long long)least, (long long)micro_batch,
                 problem->desc.recompute == AC_RECOMPUTE_NONE ? " without recomputation" : "",
                 problem->desc.memory ? "the budget" : "what the device can spare", have, knobs);
}

/* The least that one of the candidates needs, and its micro-batch. They are laid down on `board`.
 */
static ac_status find_least(search *s, ac_plan *board, uint64_t *least, int64_t *micro_batch) {
  uint64_t total = UINT64_MAX;
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_bound);
  for (int i = 0; i < s->count && s->list[i].bound < total; i++) {
    AC_TRY(lay_down(s, board, &s->list[i]));
    if (board->info.bytes.total >= total) continue;
    total = board->info.bytes.total;
    *micro_batch = board->info.micro_batch;
  }
  *least = needs(s, total);
  return AC_OK;
}

/* ---- refusing -------------------------------------------------------------------------------- */

/* Adds to the text what a choice would need, if that is less. */
static void add_knob(uint64_t bytes, uint64_t least, const char *what, char *text, size_t size) {
  char amount[32];
  size_t used = strlen(text);
  if (bytes < least)
    snprintf(text + used, size - used, "%s %s %s", used ? "," : "; it would need",
             ac_format_bytes(amount, sizeof amount, bytes), what);
}

/* The least bytes that another problem would need. */
static ac_status least_of(const ac_problem *problem, const ac_cost_model *costs, int read_ahead,
                          uint64_t *least) {
  search s;
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  int64_t micro_batch;
  ac_status status = begin_search(&s, problem, costs, read_ahead, 0); /* bytes know no seconds */
  if (status == AC_OK) status = find_least(&s, &board, least, &micro_batch);
  end_search(&s);
  ac_plan_clear(&board);
  return status;
}

/* What the smallest total would be under another description; adds a phrase if that is less. */
static ac_status try_knob(const search *s, const ac_plan_desc *desc, uint64_t least,
                          const char *what, char *text, size_t size) {
  uint64_t bytes;
  ac_problem other = *s->problem;
  other.desc = *desc;
  AC_TRY(least_of(&other, s->costs, s->read_ahead, &bytes));
  add_knob(bytes, least, what, text, size);
  return AC_OK;
}

/* The way of gradients that the description leaves out. Fused, every micro-batch is a whole window.
 */
static ac_status try_gradients(const search *s, uint64_t least, char *text, size_t size) {
  ac_plan_desc desc = s->problem->desc;
  const bool fused = ac_gradients_need_whole(desc.gradients);
  const bool none = desc.gradients == AC_GRADIENTS_AUTO || desc.gradients == AC_GRADIENTS_FOLDED;
  if (none || (fused && s->problem->coupled >= 0)) return AC_OK;
  desc.gradients = AC_GRADIENTS_AUTO;
  if (fused) desc.micro_batch = 0;
  return try_knob(s, &desc, least,
                  fused ? "in micro-batches (--gradients auto)"
                        : "without a buffer for gradients (--gradients auto)",
                  text, size);
}

/* Optimizer state in host memory, where the device has its own. */
static ac_status try_host(const search *s, uint64_t least, char *text, size_t size) {
  const ac_problem *problem = s->problem;
  ac_problem other = *problem;
  uint64_t bytes;
  char what[128];
  if (!problem->device->info.own_memory || ac_problem_may_move(problem) ||
      ac_state_must_stay(problem->desc.gradients))
    return AC_OK;
  other.desc.state_space = AC_STATE_ON_HOST;
  other.desc.host_memory = 0;
  const uint64_t host = ac_cells_host_bytes(problem);
  if (!host) return AC_OK;
  AC_TRY(least_of(&other, s->costs, s->read_ahead, &bytes));
  snprintf(what, sizeof what, "with optimizer state in host memory (--host-memory %llu)",
           (unsigned long long)host);
  add_knob(bytes, least, what, text, size);
  return AC_OK;
}

static bool clear_hints(ac_graph *graph) {
  bool any = false;
  for (int i = 0; i < graph->tensor_count; i++) {
    any |= ac_tensor_at(graph, i)->hint != AC_HINT_NONE;
    ac_tensor_at(graph, i)->hint = AC_HINT_NONE;
  }
  return any;
}

static ac_status try_without_hints(const search *s, uint64_t least, char *text, size_t size) {
  ac_graph *graph;
  AC_TRY(ac_graph_clone(&graph, s->problem->source));
  if (!clear_hints(graph)) {
    ac_graph_free(graph);
    return AC_OK;
  }
  ac_problem other;
  uint64_t bytes;
  ac_status status = ac_problem_create(&other, graph, s->problem->device, &s->problem->desc);
  if (status == AC_OK) status = least_of(&other, s->costs, s->read_ahead, &bytes);
  if (status == AC_OK) add_knob(bytes, least, "without its hints", text, size);
  ac_problem_free(&other);
  ac_graph_free(graph);
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

/* What the same plan would need in 16 bits, at the costs of f32, so that nothing is measured for a
 * remark. */
static void try_precision(const ac_problem *problem, const ac_cost_model *costs, int read_ahead,
                          uint64_t least, char *text, size_t size) {
  if (problem->desc.precision != AC_PRECISION_F32) return;
  ac_plan_desc desc = problem->desc;
  ac_problem other;
  uint64_t bytes;
  desc.precision = AC_PRECISION_F16;
  ac_status status = ac_problem_create(&other, problem->source, problem->device, &desc);
  if (status == AC_OK && desc.purpose == AC_TRAIN)
    status = least_of(&other, costs, read_ahead, &bytes);
  else if (status == AC_OK) status = least_forward(&other, &bytes);
  if (status == AC_OK) add_knob(bytes, least, "at precision f16", text, size);
  ac_problem_free(&other);
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

/* What folded gradients would need, in the place of what is set about gradients. */
static void try_folded(const search *s, uint64_t least, char *text, size_t size) {
  const ac_problem *problem = s->problem;
  ac_plan_desc desc = problem->desc;
  ac_problem other;
  uint64_t bytes;
  desc.gradients = AC_GRADIENTS_FOLDED;
  if (desc.precision == AC_PRECISION_F16) return; /* whose loss scale would have to be given */
  if (problem->desc.gradients != AC_GRADIENTS_AUTO || ac_plan_check_desc(&desc) != AC_OK) return;
  ac_status status = ac_problem_create(&other, problem->source, problem->device, &desc);
  if (status == AC_OK) status = least_of(&other, s->costs, s->read_ahead, &bytes);
  ac_problem_free(&other);
  if (status == AC_OK)
    add_knob(bytes, least,
             desc.optimizer == AC_ADAMW
                 ? "approximately, by folding gradients into the moments as AdamA does "
                   "(--gradients folded --clip 0)"
             : desc.optimizer == AC_MUON
                 ? "by folding gradients into the momentum (--gradients folded --clip 0 "
                   "--no-nesterov)"
                 : "by folding gradients into the momentum (--gradients folded --clip 0)",
             text, size);
}

/* What the same plan would need with each of them on top of those before, so far as they go with
 * the optimizer. */
static void try_approximations(const search *s, uint64_t least, char *text, size_t size) {
  static const char *const what[] = {
      "with optimizer state in 8 bits (--optimizer-state 8bit --state-f32 '')",
      "with weights in bf16 (--precision bf16 --weights bf16)",
      "with each weight clipped and stepped by itself (--gradients fused-local)",
      "with gradients in bf16 (--gradients bf16)"};
  const ac_problem *problem = s->problem;
  ac_plan_desc taken = problem->desc;
  bool first = true;
  for (int k = 0; k < APPROXIMATIONS && problem->desc.purpose == AC_TRAIN; k++) {
    ac_plan_desc desc = taken;
    ac_problem other;
    uint64_t bytes = UINT64_MAX;
    char amount[32];
    if (!may_take(&desc, (approximation)k)) continue;
    take(&desc, (approximation)k);
    if (ac_plan_check_desc(&desc) != AC_OK) continue;
    ac_status status = ac_problem_create(&other, problem->source, problem->device, &desc);
    if (status == AC_OK) status = least_of(&other, s->costs, s->read_ahead, &bytes);
    ac_problem_free(&other);
    if (status != AC_OK || bytes >= least) continue;
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s %s %s%s",
             first ? "; with other results it would need" : ",",
             ac_format_bytes(amount, sizeof amount, bytes), first ? "" : "also ", what[k]);
    taken = desc;
    least = bytes;
    first = false;
  }
}

/* Nothing fits: says what would, and what the knobs that were set would buy if they were not. */
static ac_status refuse(search *s, ac_plan *board, uint64_t limit) {
  const ac_problem *problem = s->problem;
  uint64_t least;
  int64_t micro_batch = 1;
  char knobs[1024] = "";
  AC_TRY(find_least(s, board, &least, &micro_batch));
  if (least == UINT64_MAX)
    return AC_ERROR_BUDGET; /* with the sentence about the largest allocation */
  ac_plan_desc desc = problem->desc;
  add_knob(least - needs(s, 0), least, "with nothing read ahead (--read-ahead 0)", knobs,
           sizeof knobs);
  AC_TRY(try_gradients(s, least, knobs, sizeof knobs));
  AC_TRY(try_host(s, least, knobs, sizeof knobs));
  if (desc.micro_batch > 1 && !ac_gradients_need_whole(desc.gradients)) {
    desc.micro_batch = 1;
    const char *what = problem->coupled < 0
                           ? "at a micro-batch of 1"
                           : "at a micro-batch of 1, which is all that batch norm would see "
                             "(--batch-norm micro)";
    AC_TRY(try_knob(s, &desc, least, what, knobs, sizeof knobs));
    desc.micro_batch = problem->desc.micro_batch;
  }
  if (desc.recompute != AC_RECOMPUTE_AUTO) {
    desc.recompute = AC_RECOMPUTE_AUTO;
    AC_TRY(try_knob(s, &desc, least, "with recomputation as needed", knobs, sizeof knobs));
  }
  try_precision(problem, s->costs, s->read_ahead, least, knobs, sizeof knobs);
  AC_TRY(try_without_hints(s, least, knobs, sizeof knobs));
  try_folded(s, least, knobs, sizeof knobs);
  try_approximations(s, least, knobs, sizeof knobs);
  return refusal(problem, least, micro_batch, limit, knobs);
}

/* ---- training -------------------------------------------------------------------------------- */

static ac_status choose(search *s, ac_plan *plan, uint64_t limit, bool *fits) {
  *fits = false;
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_seconds);
  for (int i = 0; i < s->count && !*fits; i++) {
    if (needs(s, s->list[i].bound) > limit) continue;
    AC_TRY(lay_down(s, plan, &s->list[i]));
    *fits = needs(s, plan->info.bytes.total) <= limit;
  }
  return AC_OK;
}

/* Batches that are read ahead only if there is room get what the fastest plan leaves. */
static int read_ahead_of(const search *s, const ac_plan *plan, uint64_t limit) {
  const ac_plan_desc *desc = &s->problem->desc;
  int ahead = desc->read_ahead;
  while (desc->read_ahead_if_room && ahead > 0 &&
         ac_problem_needs(s->problem, plan->info.bytes.total, ahead) > limit)
    ahead--;
  return ahead;
}

static ac_status search_training(ac_plan *plan, uint64_t limit) {
  const ac_problem *problem = &plan->problem;
  const ac_cost_model *costs;
  bool ops[AC_OP_COUNT] = {false}, fits;
  search s;
  list_ops(problem->graph, &problem->main, ops);
  list_ops(problem->graph, &problem->after, ops);
  list_ops(problem->graph, &problem->folds, ops);
  AC_TRY(ac_cost_model_get(&costs, problem->device, ac_plan_storage(&problem->desc), ops));
  int read_ahead = problem->desc.read_ahead_if_room ? 0 : problem->desc.read_ahead;
  double per_moved_byte = 0;
  if (ac_problem_may_move(problem)) AC_TRY(ac_cost_of_moving(&per_moved_byte, problem->device));
  ac_status status = begin_search(&s, problem, costs, read_ahead, per_moved_byte);
  if (status == AC_OK) status = choose(&s, plan, limit, &fits);
  if (status == AC_OK && !fits) status = refuse(&s, plan, limit);
  if (status == AC_OK) plan->info.read_ahead = read_ahead_of(&s, plan, limit);
  end_search(&s);
  plan->info.read_ahead_bytes = ac_problem_read_ahead(problem, plan->info.read_ahead);
  return status;
}

/* ---- forward only ---------------------------------------------------------------------------- */

static ac_status lay_forward(ac_plan *plan, int64_t micro_batch) {
  const ac_choice choice = {micro_batch, &plan->problem.main, AC_GRADIENTS_BUFFER, false};
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
  if (*total > limit) {
    char knobs[256] = "";
    try_precision(problem, NULL, 0, *total, knobs, sizeof knobs);
    return refusal(problem, *total, plan->info.micro_batch, limit, knobs);
  }
  int64_t too_few = 1, enough = batch;
  while (enough - too_few > 1) {
    int64_t middle = too_few + (enough - too_few) / 2;
    AC_TRY(try_forward(plan, divide_up(batch, middle), limit, &fits));
    if (fits) enough = middle;
    else too_few = middle;
  }
  return lay_forward(plan, divide_up(batch, enough));
}

ac_status ac_plan_search(ac_plan *plan, uint64_t limit) {
  return plan->problem.desc.purpose == AC_TRAIN ? search_training(plan, limit)
                                                : search_forward(plan, limit);
}
