#include "plan/candidates.h"

#include "core/error.h"
#include "core/hash.h"
#include "core/integers.h"

#include <math.h>
#include <stdlib.h>

enum { CHOICES = 14, GUESSES = 4, GUESSED_SLOTS = 64 };

/* Choices that are not an index into the solver's. */
enum { KEEP_EVERYTHING = -1, RECOMPUTE_EVERYTHING = -2, GUESSED = -3 };

static const ac_cost_model *costs_of(const ac_candidates *s) {
  return s->costs ? s->costs : &s->guess;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double step_seconds(const ac_candidates *s, const ac_step *step, int64_t batch) {
  return ac_cost_of_work(costs_of(s), ac_node_at(s->problem->graph, step->node)->op,
                         ac_works_cost(s->problem->works, step, batch));
}

/* Seconds of each micro-batch, or of what runs once in a window. */
static double sequence_seconds(const ac_candidates *s, const ac_sequence *sequence, int64_t batch,
                               bool once) {
  double seconds = 0;
  for (int i = 0; i < ac_sequence_end(sequence); i++)
    if (sequence->steps[i].once == once) seconds += step_seconds(s, &sequence->steps[i], batch);
  return seconds;
}

static double after_seconds(const ac_candidates *s, const ac_sequence *sequence) {
  double seconds = 0;
  for (int i = ac_sequence_end(sequence); i < sequence->step_count; i++)
    seconds += step_seconds(s, &sequence->steps[i], 1);
  return seconds;
}

/* Seconds of steps that take `seconds` and move state while they run: the longer of both, and in
 * addition the first way in and the last way out, when no step runs. */
static double moving_seconds(const ac_candidates *s, const ac_sequence *sequence, double seconds) {
  uint64_t all = 0, most = 0;
  for (int i = ac_transfers_next(sequence, -1); i >= 0; i = ac_transfers_next(sequence, i)) {
    const uint64_t bytes = ac_transfers_bytes(sequence, s->problem->graph, &sequence->steps[i]);
    all += bytes;
    if (bytes > most) most = bytes;
  }
  return fmax(seconds, (double)all * s->per_transferred_byte) +
         2 * (double)most * s->per_transferred_byte;
}

/* A second pass is of the one micro-batch. */
static double window_seconds(const ac_candidates *s, const ac_sequence *main,
                             const ac_sequence *stepping, int64_t micro_batch) {
  int64_t batch = s->problem->desc.batch, whole = batch / micro_batch, rest = batch % micro_batch;
  double seconds = (double)whole * sequence_seconds(s, main, micro_batch, false);
  if (rest) seconds += sequence_seconds(s, main, rest, false);
  seconds += sequence_seconds(s, main, micro_batch, true);
  return seconds + moving_seconds(s, main, after_seconds(s, main)) +
         moving_seconds(s, stepping, sequence_seconds(s, stepping, micro_batch, false));
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Every stage runs once and keeps what its backward pass reads. With `all` it drops what it can and
 * computes that anew, except for the last stage: its backward pass comes right after it. */
static ac_status lay_saving(ac_candidates *s, const ac_stage_chain *chain, bool all) {
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

/* Lays down the order of a candidate in s->order, without what its sections repeat. */
static ac_status lay_kept(ac_candidates *s, const ac_candidate *c) {
  const ac_stages *stages = s->problem->stages;
  const ac_candidate_size *size = &s->sizes[c->size];
  bool hinted = stages->hinted && s->problem->desc.recompute != AC_RECOMPUTE_NONE;
  if (c->choice == KEEP_EVERYTHING && !hinted) return ac_order_lay_plain(&s->order, stages);
  const bool guessed = c->choice == GUESSED;
  if (c->choice < 0 && !guessed)
    return lay_saving(s, &size->chain, c->choice == RECOMPUTE_EVERYTHING);
  const ac_chain_operation *operations;
  int count;
  AC_TRY(
      ac_chain_schedule(guessed ? size->frugal : size->solution, c->memory, &operations, &count));
  return ac_order_lay(&s->order, stages, guessed ? &size->guessed : &size->chain, operations,
                      count);
}

/* Lays down the order of a candidate in s->order. */
static ac_status lay_order(ac_candidates *s, const ac_candidate *c) {
  AC_TRY(lay_kept(s, c));
  if (!c->repeats) return AC_OK;
  return ac_order_repeat(&s->order, NULL, s->problem->graph, s->problem->desc.batch, NULL);
}

/* ---- candidates ------------------------------------------------------------------------------ */

static ac_choice choice_of(const ac_candidates *s, const ac_candidate *c) {
  return (ac_choice){s->sizes[c->size].micro_batch, &s->order.nodes, c->way, c->host_state, 0};
}

/* Whether two candidates have the same sequences. These do not depend on the micro-batch, only on
 * whether it is a whole window. */
static bool run_alike(const ac_candidates *s, const ac_candidate *a, const ac_candidate *b) {
  const int64_t x = s->sizes[a->size].micro_batch, y = s->sizes[b->size].micro_batch;
  return a->order == b->order && a->way == b->way && a->host_state == b->host_state &&
         ac_problem_whole_window(s->problem, x) == ac_problem_whole_window(s->problem, y);
}

/* Measures a candidate that has these sequences. */
static ac_status measure(ac_candidates *s, ac_candidate *c, ac_sequence *main,
                         ac_sequence *stepping) {
  const ac_candidate_size *size = &s->sizes[c->size];
  AC_TRY(
      ac_memory_bound(s->problem, size->micro_batch, main, stepping, size->evaluation, &c->bound));
  if (!s->memo) /* where bytes alone are looked for, nobody asks for seconds */
    c->seconds = window_seconds(s, main, stepping, size->micro_batch);
  c->measured = true;
  return AC_OK;
}

/* Measures the i-th candidate, and with it all that run alike. */
static ac_status measure_alike(ac_candidates *s, int i) {
  ac_sequence main = {0}, stepping = {0};
  ac_status status = lay_order(s, &s->list[i]);
  const ac_choice choice = choice_of(s, &s->list[i]);
  if (status == AC_OK) status = ac_passes_build(s->problem, &choice, &main, &stepping);
  for (int k = i; k < s->count && status == AC_OK; k++)
    if (!s->list[k].measured && run_alike(s, &s->list[i], &s->list[k]))
      status = measure(s, &s->list[k], &main, &stepping);
  ac_sequence_free(&main);
  ac_sequence_free(&stepping);
  return status;
}

/* Adds candidates with optimizer state on the device and, if it may be there, on the host. */
static void add_spaces(ac_candidates *s, ac_candidate c, const ac_gradient_way *way) {
  const ac_problem *problem = s->problem;
  c.way = way;
  if (problem->desc.state_space != AC_STATE_ON_HOST) s->list[s->count++] = c;
  c.host_state = true;
  if (ac_problem_may_transfer(problem)) s->list[s->count++] = c;
}

/* Whether the current order, of this hash, is that of a candidate before. */
static bool is_known(const ac_candidates *s, int size, uint64_t order) {
  for (int i = s->count - 1; i >= 0 && s->list[i].size == size; i--)
    if (s->list[i].order == order) return true;
  return false;
}

static ac_status add_order(ac_candidates *s, ac_candidate c) {
  const int size = c.size;
  const ac_gradient_way *asked = s->problem->way;
  const bool whole = ac_problem_whole_window(s->problem, s->sizes[size].micro_batch);
  AC_TRY(lay_order(s, &c));
  const ac_nodes *order = &s->order.nodes;
  c.order = ac_hash(AC_HASH_BEGIN, order->list, (size_t)order->count * sizeof *order->list);
  if (is_known(s, size, c.order)) return AC_OK;
  if (asked->gradients != AC_GRADIENTS_AUTO) add_spaces(s, c, asked);
  for (int i = 0; asked->gradients == AC_GRADIENTS_AUTO && i < AC_GRADIENT_WAYS; i++) {
    const ac_gradient_way *way = ac_gradient_way_of((ac_gradients)i);
    const bool summed = s->problem->desc.ranks < 2 || way->between_ranks;
    if (way->by_auto && summed && (whole || !way->one_micro_batch)) add_spaces(s, c, way);
  }
  return AC_OK;
}

/* In sections with what they repeat as well; what a policy says to keep is kept. */
static ac_status add_candidate(ac_candidates *s, int size, int choice, uint64_t memory) {
  ac_candidate c = {.size = size, .choice = choice, .memory = memory};
  const bool sections = s->problem->in_sections;
  if (!sections || choice != RECOMPUTE_EVERYTHING) AC_TRY(add_order(s, c));
  c.repeats = sections && choice != KEEP_EVERYTHING;
  return c.repeats ? add_order(s, c) : AC_OK;
}

/* All that a solution depends on. */
static uint64_t chain_key(const ac_chain *chain, int slots) {
  uint64_t key = ac_hash(AC_HASH_BEGIN, &slots, sizeof slots);
  key = ac_hash(key, &chain->stages, sizeof chain->stages);
  key = ac_hash(key, &chain->input, sizeof chain->input);
  for (int l = 0; l < chain->stages; l++) {
    const ac_chain_stage *stage = &chain->stage[l];
    const uint64_t sizes[] = {stage->output, stage->forward_peak, (uint64_t)stage->variants};
    key = ac_hash(ac_hash(key, sizes, sizeof sizes), &stage->forward, sizeof stage->forward);
    for (int k = 0; k < stage->variants; k++) {
      const ac_chain_variant *v = &stage->variant[k];
      const uint64_t bytes[] = {v->saved, v->forward_peak, v->backward_peak, v->drops_output};
      const double seconds[] = {v->extra, v->backward};
      key = ac_hash(ac_hash(key, bytes, sizeof bytes), seconds, sizeof seconds);
    }
  }
  return key;
}

static ac_status remember(ac_chain_memo *memo, uint64_t key, ac_chain_solution *solution) {
  if (memo->count == memo->capacity) {
    const int capacity = memo->capacity ? 2 * memo->capacity : 16;
    void *grown = realloc(memo->list, (size_t)capacity * sizeof *memo->list);
    if (!grown) {
      ac_chain_free(solution);
      return ac_fail(AC_ERROR_MEMORY, "no memory for the search");
    }
    memo->list = grown;
    memo->capacity = capacity;
  }
  memo->list[memo->count++] = (ac_solved_chain){key, solution};
  return AC_OK;
}

void ac_chain_memo_free(ac_chain_memo *memo) {
  for (int i = 0; i < memo->count; i++) ac_chain_free(memo->list[i].solution);
  free(memo->list);
  *memo = (ac_chain_memo){0};
}

static ac_status solve_chain(ac_candidates *s, ac_chain_solution **solution, const ac_chain *chain,
                             int slots) {
  if (!s->memo) return ac_chain_solve(solution, chain, UINT64_MAX, slots);
  const uint64_t key = chain_key(chain, slots);
  for (int i = 0; i < s->memo->count; i++)
    if (s->memo->list[i].key == key) {
      *solution = s->memo->list[i].solution;
      return AC_OK;
    }
  ac_chain_solution *solved;
  AC_TRY(ac_chain_solve(&solved, chain, UINT64_MAX, slots));
  AC_TRY(remember(s->memo, key, solved));
  *solution = solved;
  return AC_OK;
}

/* The chains of sizes from `first` on. */
static ac_status make_chains(ac_candidates *s, int first) {
  const ac_problem *problem = s->problem;
  ac_stage_chain_request requests[2 * AC_SEARCH_SIZES];
  const int64_t window = problem->in_sections ? problem->desc.batch : 0;
  int count = 0;
  for (int i = first; i < s->size_count; i++) {
    ac_candidate_size *size = &s->sizes[i];
    requests[count++] =
        (ac_stage_chain_request){size->micro_batch, window, costs_of(s), &size->chain};
    if (problem->desc.recompute == AC_RECOMPUTE_AUTO)
      requests[count++] =
          (ac_stage_chain_request){size->micro_batch, window, &s->guess, &size->guessed};
  }
  return ac_stage_chains_create(requests, count, problem->stages, problem->works,
                                problem->device->info.alignment);
}

static ac_status solve(ac_candidates *s, ac_candidate_size *size) {
  AC_TRY(solve_chain(s, &size->frugal, &size->guessed.chain, GUESSED_SLOTS));
  if (!s->costs) return AC_OK;
  const ac_chain *chain = &size->chain.chain;
  return solve_chain(s, &size->solution, chain, chain->stages > 64 ? 512 : 2048);
}

/* What the solver found, thinned out. */
static ac_status add_choices(ac_candidates *s, int size) {
  const ac_chain_choice *choices;
  int count = ac_chain_choices(s->sizes[size].solution, &choices);
  int taken = count < CHOICES ? count : CHOICES;
  for (int i = 0; i < taken; i++) {
    int choice = taken > 1 ? (int)((int64_t)i * (count - 1) / (taken - 1)) : 0;
    AC_TRY(add_candidate(s, size, choice, choices[choice].memory));
  }
  return AC_OK;
}

/* Adds the choices of least memory. */
static ac_status add_guesses(ac_candidates *s, int size) {
  const ac_chain_choice *choices;
  const int count = ac_chain_choices(s->sizes[size].frugal, &choices);
  for (int i = 0; i < count && i < GUESSES; i++)
    AC_TRY(add_candidate(s, size, GUESSED, choices[i].memory));
  return AC_OK;
}

/* Lists the candidates of a size. */
static ac_status list_size(ac_candidates *s, int index) {
  const ac_recompute policy = s->problem->desc.recompute;
  if (policy == AC_RECOMPUTE_ALL) return add_candidate(s, index, RECOMPUTE_EVERYTHING, 0);
  AC_TRY(add_candidate(s, index, KEEP_EVERYTHING, 0));
  if (policy == AC_RECOMPUTE_NONE) return AC_OK;
  AC_TRY(solve(s, &s->sizes[index]));
  AC_TRY(add_candidate(s, index, RECOMPUTE_EVERYTHING, 0));
  AC_TRY(add_guesses(s, index));
  return s->costs ? add_choices(s, index) : AC_OK;
}

/* Adds sizes and their candidates. */
static ac_status add_sizes(ac_candidates *s, const int64_t *micro_batches, int count) {
  const int first = s->size_count;
  for (int i = 0; i < count; i++) s->sizes[s->size_count++].micro_batch = micro_batches[i];
  if (s->problem->desc.recompute != AC_RECOMPUTE_NONE) AC_TRY(make_chains(s, first));
  for (int i = first; i < s->size_count; i++) {
    ac_candidate_size *size = &s->sizes[i];
    AC_TRY(ac_memory_forward(s->problem, size->micro_batch, &s->evaluation, &size->evaluation));
    size->evaluation = ac_larger_bytes(size->evaluation, s->prediction);
    AC_TRY(list_size(s, i));
  }
  for (int i = 0; i < s->count; i++)
    if (!s->list[i].measured) AC_TRY(measure_alike(s, i));
  return AC_OK;
}

/* Micro-batches that split the batch evenly. The first and the last are always among them. */
int ac_plan_search_sizes(int64_t batch, int64_t sizes[AC_SEARCH_SIZES]) {
  int count = 0;
  double ratio = pow((double)batch, 1.0 / (AC_SEARCH_SIZES - 1));
  double wanted = (double)batch;
  int64_t last = 0;
  for (int i = 0; i < AC_SEARCH_SIZES; i++, wanted /= ratio) {
    int64_t steps = wanted < 1 ? batch : ac_divide_up(batch, (int64_t)(wanted + 0.5));
    if (i == AC_SEARCH_SIZES - 1) steps = batch;
    int64_t size = ac_divide_up(batch, steps);
    if (size != last) sizes[count++] = last = size;
  }
  return count;
}

/* Keeps only sizes that leave every op enough samples. The first is the batch, which always
 * does. */
static int search_sizes(const ac_problem *problem, int64_t sizes[AC_SEARCH_SIZES]) {
  const int all = ac_plan_search_sizes(problem->desc.batch, sizes);
  int count = 0;
  for (int i = 0; i < all; i++)
    if (ac_problem_allows(problem, problem->asked.batch, sizes[i])) sizes[count++] = sizes[i];
  return count;
}

/* The evaluation, and the bytes of a prediction one sample at a time. */
static ac_status begin_forward(ac_candidates *s) {
  const ac_problem *problem = s->problem;
  const ac_storage one = {.one_output = true};
  AC_TRY(ac_sequence_build(&s->evaluation, problem->graph, AC_TARGET_LOSS, one,
                           &problem->evaluation, NULL));
  if (!problem->prediction.count) return AC_OK;
  ac_sequence sequence = {0};
  ac_status status = ac_sequence_build(&sequence, problem->graph, AC_TARGET_OUTPUTS, one,
                                       &problem->prediction, NULL);
  if (status == AC_OK) status = ac_memory_forward(problem, 1, &sequence, &s->prediction);
  ac_sequence_free(&sequence);
  return status;
}

/* Sizes that the description leaves open, and room for their candidates. */
static ac_status begin(ac_candidates *s, int64_t sizes[AC_SEARCH_SIZES], int *count) {
  const ac_plan_desc *desc = &s->problem->desc;
  sizes[0] = desc->micro_batch;
  *count = desc->micro_batch ? 1 : search_sizes(s->problem, sizes);
  s->list = malloc((size_t)*count * 4 * (CHOICES + GUESSES + 2) * sizeof *s->list);
  if (!s->list) return ac_fail(AC_ERROR_MEMORY, "no memory for the search");
  ac_cost_guess(&s->guess);
  AC_TRY(begin_forward(s));
  return ac_order_create(&s->order, s->problem->stages);
}

/* Lists candidates of every size at which the device runs all ops. If it does not run them at the
 * last, which is the smallest, the plan is refused. */
ac_status ac_candidates_list(ac_candidates *s, const ac_problem *problem,
                             const ac_cost_model *costs, double per_transferred_byte) {
  int64_t sizes[AC_SEARCH_SIZES];
  int count, runs = 0;
  *s = (ac_candidates){
      .problem = problem, .costs = costs, .per_transferred_byte = per_transferred_byte};
  AC_TRY(begin(s, sizes, &count));
  for (int i = 0; i < count; i++) {
    ac_status status = ac_problem_check_support(problem, sizes[i]);
    if (status == AC_ERROR_UNSUPPORTED && i < count - 1) continue;
    AC_TRY(status);
    sizes[runs++] = sizes[i];
  }
  return add_sizes(s, sizes, runs);
}

void ac_candidates_free(ac_candidates *s) {
  for (int i = 0; i < s->size_count; i++) {
    ac_stage_chain_free(&s->sizes[i].chain);
    ac_stage_chain_free(&s->sizes[i].guessed);
    if (!s->memo) ac_chain_free(s->sizes[i].solution);
    if (!s->memo) ac_chain_free(s->sizes[i].frugal);
  }
  ac_order_free(&s->order);
  ac_sequence_free(&s->evaluation);
  free(s->list);
}

/* ---- laying down ----------------------------------------------------------------------------- */

ac_status ac_candidates_lay_down(ac_candidates *s, ac_plan *plan, const ac_candidate *c,
                                 uint64_t limit) {
  AC_TRY(lay_order(s, c));
  ac_choice choice = choice_of(s, c);
  choice.limit = limit;
  plan->info.predicted_seconds = c->seconds;
  return ac_plan_lay(plan, &choice);
}

static int by_bound(const void *a, const void *b) {
  const ac_candidate *x = a, *y = b;
  return (x->bound > y->bound) - (x->bound < y->bound);
}

/* Lays down what may need less than *total, and notes what does. */
static ac_status lay_least(ac_candidates *s, ac_plan *board, uint64_t *total,
                           int64_t *micro_batch) {
  qsort(s->list, (size_t)s->count, sizeof *s->list, by_bound);
  for (int i = 0; i < s->count && s->list[i].bound < *total; i++) {
    AC_TRY(ac_candidates_lay_down(s, board, &s->list[i], *total));
    if (board->info.bytes.total >= *total) continue;
    *total = board->info.bytes.total;
    *micro_batch = board->info.micro_batch;
  }
  return AC_OK;
}

ac_status ac_candidates_least(ac_candidates *s, ac_plan *board, uint64_t *total,
                              int64_t *micro_batch) {
  *total = UINT64_MAX;
  return lay_least(s, board, total, micro_batch);
}

/* Bytes that no candidate of a size can go below: what persists, and scratch space of one step. */
static ac_status least_of_size(const ac_problem *problem, int64_t micro_batch, uint64_t *bytes) {
  const ac_run_state run = {.training = true, .batch = micro_batch};
  const ac_device *device = problem->device;
  uint64_t most = 0;
  bool *asked = calloc((size_t)problem->graph->node_count + 1, sizeof *asked);
  if (!asked) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of nodes");
  for (int i = 0; i < problem->main.count; i++) {
    bool *known = &asked[ac_works_kind(problem->works, problem->main.list[i])];
    ac_op_args args;
    if (*known) continue;
    *known = true;
    ac_node_arguments(problem->main.list[i], problem->graph, &run, &args);
    uint64_t own = device->backend->workspace(device->state, &args);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) args.add[j] = true;
    const uint64_t adding = device->backend->workspace(device->state, &args);
    if (adding < own) own = adding;
    if (own > most) most = own;
  }
  free(asked);
  AC_TRY(ac_memory_cells(problem, micro_batch, bytes));
  if (*bytes != UINT64_MAX) *bytes += most;
  return AC_OK;
}

typedef struct sized {
  int64_t micro_batch;
  uint64_t least;
} sized;

static int by_least(const void *a, const void *b) {
  const sized *x = a, *y = b;
  if (x->least != y->least) return x->least < y->least ? -1 : 1;
  return (x->micro_batch > y->micro_batch) - (x->micro_batch < y->micro_batch);
}

/* Bounds for those of `sizes` at which the device runs all ops, as in ac_candidates_list. */
static ac_status bound_sizes(const ac_problem *problem, const int64_t *sizes, int count,
                             sized list[AC_SEARCH_SIZES], int *listed) {
  *listed = 0;
  for (int i = 0; i < count; i++) {
    sized x = {sizes[i], 0};
    ac_status status = ac_problem_check_support(problem, sizes[i]);
    if (status == AC_ERROR_UNSUPPORTED && i < count - 1) continue;
    if (status == AC_OK) status = least_of_size(problem, sizes[i], &x.least);
    AC_TRY(status);
    list[(*listed)++] = x;
  }
  qsort(list, (size_t)*listed, sizeof *list, by_least);
  return AC_OK;
}

/* Tries sizes in the order of their bounds, until a bound is at least the total that was found. */
ac_status ac_candidates_find_least(const ac_problem *problem, const ac_cost_model *costs,
                                   ac_chain_memo *memo, uint64_t *total, int64_t *micro_batch) {
  ac_candidates s = {.problem = problem, .costs = costs, .memo = memo};
  ac_plan board = {.problem = *problem, .graph = problem->graph, .device = problem->device};
  int64_t sizes[AC_SEARCH_SIZES];
  sized list[AC_SEARCH_SIZES];
  int count, listed = 0;
  *total = UINT64_MAX;
  ac_status status = begin(&s, sizes, &count);
  if (status == AC_OK) status = bound_sizes(problem, sizes, count, list, &listed);
  for (int i = 0; i < listed && status == AC_OK && list[i].least < *total; i++) {
    s.count = 0;
    status = add_sizes(&s, &list[i].micro_batch, 1);
    if (status == AC_OK) status = lay_least(&s, &board, total, micro_batch);
  }
  ac_candidates_free(&s);
  ac_plan_clear(&board);
  return status;
}
