/* Points at which ranks meet, and the sums of a window over ranks.
 *
 * At a point every rank tells rank 0 its status and some numbers. Rank 0 adds them up in the order
 * of ranks and tells everybody the result. So all ranks have the same bits, and decide the same. */
#include "window/exchange.h"

#include "core/error.h"
#include "core/hash.h"
#include "core/share.h"
#include "ranks/ranks.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_POINT = 1, TAG_RESULT, TAG_PART, TAG_SUM, TAG_WEIGHTS, TAG_QUESTION, TAG_ANSWER };

/* What goes before the numbers of a message. */
typedef struct head {
  uint64_t met;
  int64_t count;
  int32_t meeting, status;
  char sentence[AC_SENTENCE_BYTES];
} head;

/* ---- points ---------------------------------------------------------------------------------- */

static size_t message_bytes(int64_t count) {
  return sizeof(head) + (size_t)count * sizeof(double);
}

static char *message_of(const ac_exchange *e, int rank) {
  return e->messages + (size_t)rank * message_bytes(e->most_values);
}

static const char *name_of(int meeting) {
  static const char *const names[] = {"an unknown point",
                                      "the end of a window",
                                      "a decision",
                                      "the time between two windows",
                                      "the end of an evaluation",
                                      "a state",
                                      "the weights of a window",
                                      "the norms of gradients"};
  return meeting >= AC_MEET_WINDOW && meeting <= AC_MEET_MEASURES ? names[meeting] : names[0];
}

/* Rank 0 judges what a rank has told. */
static void judge(head *result, const head *theirs, int rank) {
  if (result->status != AC_OK) return;
  if (theirs->status != AC_OK) {
    result->status = theirs->status;
    snprintf(result->sentence, sizeof result->sentence, "rank %d: %.*s", rank,
             (int)sizeof theirs->sentence - 32, theirs->sentence);
    return;
  }
  if (theirs->met == result->met && theirs->meeting == result->meeting &&
      theirs->count == result->count)
    return;
  result->status = AC_ERROR_STATE;
  snprintf(result->sentence, sizeof result->sentence,
           "ranks: rank %d has come to %s, and rank 0 to %s; all ranks must make the same calls",
           rank, name_of(theirs->meeting), name_of(result->meeting));
}

static ac_status wait_all(ac_exchange *e, int count) {
  return ac_transport_wait(e->transport, e->transfers, count);
}

/* All messages have room for the most numbers, so that ranks that are out of step are found out. */
static ac_status gather_at_0(ac_exchange *e) {
  const size_t bytes = message_bytes(e->most_values);
  int count = 0;
  if (e->rank) return ac_transport_send(e->transport, 0, TAG_POINT, message_of(e, 0), bytes);
  for (int r = 1; r < e->ranks; r++)
    AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_POINT, message_of(e, r), bytes,
                                      &e->transfers[count++]));
  return wait_all(e, count);
}

static ac_status give_result(ac_exchange *e) {
  return ac_transport_tell(e->transport, TAG_RESULT, message_of(e, 0),
                           message_bytes(e->most_values));
}

static void add_up(ac_exchange *e, bool sums) {
  head *result = (head *)message_of(e, 0);
  double *values = (double *)(result + 1);
  for (int r = 1; r < e->ranks; r++) {
    const head *theirs = (const head *)message_of(e, r);
    const double *more = (const double *)(theirs + 1);
    judge(result, theirs, r);
    for (int64_t i = 0; sums && result->status == AC_OK && i < result->count; i++)
      values[i] += more[i];
  }
}

static ac_status meet(ac_exchange *e, ac_meeting meeting, ac_status status, double *values,
                      int64_t count, bool sums) {
  head *own = (head *)message_of(e, 0);
  memset(own, 0, message_bytes(e->most_values));
  *own = (head){.met = ++e->met, .count = count, .meeting = meeting, .status = status};
  if (status != AC_OK) snprintf(own->sentence, sizeof own->sentence, "%s", ac_last_error());
  if (count) memcpy(own + 1, values, (size_t)count * sizeof *values);
  AC_TRY(gather_at_0(e));
  if (!e->rank) add_up(e, sums);
  AC_TRY(give_result(e));
  if (own->status != AC_OK)
    return status != AC_OK ? status : ac_fail((ac_status)own->status, "%s", own->sentence);
  if (count) memcpy(values, own + 1, (size_t)count * sizeof *values);
  return AC_OK;
}

/* After this, whatever has failed, there is nobody left to tell. */
static ac_status meet_once(ac_exchange *e, ac_meeting meeting, ac_status status, double *values,
                           int64_t count, bool sums) {
  const ac_kept_error own = ac_error_keep();
  const ac_status met = meet(e, meeting, status, values, count, sums);
  e->told = met != AC_OK;
  if (status == AC_OK) return met;
  ac_error_restore(&own);
  return status;
}

ac_status ac_exchange_sum(ac_exchange *e, ac_meeting meeting, ac_status status, double *values,
                          int64_t count) {
  if (ac_exchange_is_alone(e)) return status;
  return meet_once(e, meeting, status, values, count, true);
}

ac_status ac_exchange_take(ac_exchange *e, ac_meeting meeting, double *values, int64_t count) {
  if (ac_exchange_is_alone(e)) return AC_OK;
  return meet_once(e, meeting, AC_OK, values, count, false);
}

void ac_exchange_fail(ac_exchange *e, ac_status status) {
  if (ac_exchange_is_alone(e) || e->told || status == AC_OK) return;
  meet_once(e, AC_MEET_TURN, status, NULL, 0, true);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int64_t window_values(const ac_trainer *trainer) {
  return 1 + 3 * AC_MAX_SUMS + AC_MAX_LOSSES + 2 * trainer->exchange.ranks +
         ac_watchers_get_sums(&trainer->run, NULL);
}

/* Bytes of the host's copy of all measures, as numbers of a point; to it or from it. */
static int64_t move_measures(const ac_instance *instance, double *values, bool back) {
  const ac_plan *plan = instance->plan;
  int64_t count = 0;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS) continue;
    float *copy = instance->control_copy + (cell->address - plan->control) / sizeof(float);
    if (values && back) memcpy(copy, values + count, (size_t)cell->bytes);
    else if (values) memcpy(values + count, copy, (size_t)cell->bytes);
    count += ac_ceil_div((int64_t)cell->bytes, (int64_t)sizeof *values);
  }
  return count;
}

static ac_status make_room(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_plan *plan = trainer->instance.plan;
  const size_t ranks = (size_t)e->ranks;
  e->chunk = ac_shards_chunk(&plan->problem);
  e->most_values =
      ac_larger(window_values(trainer), move_measures(&trainer->instance, NULL, false));
  e->memory = malloc((size_t)plan->info.transfer_bytes + 1);
  e->transfers = calloc(2 * ranks, sizeof *e->transfers);
  e->values = calloc((size_t)e->most_values, sizeof *e->values);
  e->reports = calloc(2 * ranks, sizeof *e->reports);
  e->messages = calloc(e->rank ? 1 : ranks, message_bytes(e->most_values));
  if (e->memory && e->transfers && e->values && e->reports && e->messages) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "trainer: no memory on the host for transfers between ranks");
}

/* All ranks train one model in the same way. */
static ac_status agree(const ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_graph *graph = plan->graph;
  const ac_plan_desc *asked = &plan->problem.asked;
  uint64_t hash = AC_HASH_BEGIN;
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[i]);
    hash = ac_hash(hash, tensor->name, strlen(tensor->name));
    hash = ac_hash(hash, tensor->shape.dim, (size_t)tensor->shape.rank * sizeof *tensor->shape.dim);
    hash = ac_hash(hash, &(int){plan->problem.parameters[i].gradient >= 0}, sizeof(int));
  }
  const ac_optimizer_desc *optimizer = &trainer->desc.optimizer;
  char model[64], batch[32], seed[32], rate[64], decay[64], clip[64];
  snprintf(model, sizeof model, "%d parameters (%016llx)", graph->parameter_count,
           (unsigned long long)hash);
  snprintf(batch, sizeof batch, "%lld", (long long)asked->batch);
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)trainer->desc.seed);
  snprintf(rate, sizeof rate, "%.17g", trainer->desc.schedule.lr);
  snprintf(decay, sizeof decay, "%.17g", optimizer->weight_decay);
  snprintf(clip, sizeof clip, "%.17g", optimizer->clip);
  const ac_ranks_fact facts[] = {
      {"the version of Accrue", ac_version()},
      {"the model", model},
      {"the batch", batch},
      {"the precision", ac_precision_name(plan->info.precision)},
      {"the optimizer", ac_optimizer_row_of(plan->problem.desc.optimizer.kind)->words},
      {"the optimizer's state", plan->info.optimizer_state == AC_STATE_8BIT ? "8 bits" : "f32"},
      {"the weight decay", decay},
      {"the clipping", clip},
      {"the seed", seed},
      {"the learning rate", rate}};
  return ac_ranks_agree(trainer->desc.ranks, facts, sizeof facts / sizeof *facts);
}

ac_status ac_exchange_show_life(ac_exchange *e) {
  return ac_exchange_is_alone(e) ? AC_OK : ac_transport_show_life(e->transport);
}

void ac_exchange_begin_absence(ac_exchange *e) {
  if (!ac_exchange_is_alone(e)) ac_transport_begin_absence(e->transport);
}

void ac_exchange_end_absence(ac_exchange *e) {
  if (!ac_exchange_is_alone(e)) ac_transport_end_absence(e->transport);
}

static ac_status show_life(void *exchange) {
  return ac_exchange_show_life(exchange);
}

ac_status ac_exchange_begin(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_plan_info *info = &trainer->instance.plan->info;
  ac_ranks *ranks = trainer->desc.ranks;
  const int size = ranks ? ac_ranks_size(ranks) : 1, rank = ranks ? ac_ranks_rank(ranks) : 0;
  if (size != info->ranks || rank != info->rank)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the plan is for rank %d of %d, but this is rank %d of %d "
                   "(ac_plan_desc.ranks)",
                   info->rank, info->ranks, rank, size);
  if (size < 2) return AC_OK;
  e->rank = rank;
  e->ranks = size;
  AC_TRY(make_room(trainer));
  AC_TRY(agree(trainer));
  e->transport = ac_ranks_transport(ranks);
  trainer->instance.meanwhile = (ac_meanwhile){show_life, e};
  return AC_OK;
}

void ac_exchange_release(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  free(e->memory);
  free(e->transfers);
  free(e->values);
  free(e->reports);
  free(e->messages);
}

void ac_exchange_lay(ac_exchange *e, int64_t first) {
  e->first = first;
  e->laid = true;
}

void ac_exchange_leave(ac_exchange *e) {
  e->summed = e->laid = false;
}

/* ---- small sums of a window ------------------------------------------------------------------ */

static void put_values(double *values, const ac_all_sums *sums) {
  for (int k = 0; k < AC_MAX_SUMS; k++) {
    values[3 * k] = sums->of[k].loss;
    values[3 * k + 1] = sums->of[k].weight;
    values[3 * k + 2] = sums->of[k].correct;
  }
}

static void take_values(const double *values, ac_all_sums *sums) {
  for (int k = 0; k < AC_MAX_SUMS; k++)
    sums->of[k] = (ac_loss_sums){values[3 * k], values[3 * k + 1], values[3 * k + 2]};
}

/* As the device has them: two floats each, which together have the digits of most of a double. */
static void put_pair(float *pair, double x) {
  pair[0] = (float)x;
  pair[1] = isfinite(pair[0]) ? (float)(x - (double)pair[0]) : 0;
}

/* The sums of all ranks in the place of this one's, on the device. */
static ac_status put_sums(ac_instance *instance, const ac_all_sums *sums) {
  const ac_plan *plan = instance->plan;
  const ac_device *device = instance->device;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_LOSS) continue;
    const ac_loss_sums *own = &sums->of[cell->owner];
    float pairs[AC_LOSS_SUMS] = {0};
    put_pair(pairs, own->loss);
    put_pair(pairs + 2, own->weight);
    put_pair(pairs + 4, own->correct);
    AC_TRY(device->backend->upload(device->state, instance->persistent[cell->tensor], 0, pairs,
                                   sizeof pairs));
  }
  return AC_OK;
}

static ac_status sum_window(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_run *run = &trainer->run;
  ac_all_sums sums = {0};
  double *values = e->values, *losses = values + 1, *fed = losses + 3 * AC_MAX_SUMS,
         *reports = fed + AC_MAX_LOSSES, *watched = reports + 2 * e->ranks;
  const ac_transport_counts counts = ac_transport_count(e->transport);
  ac_status status = AC_OK;
  const int64_t count = window_values(trainer);
  memset(values, 0, (size_t)count * sizeof *values);
  if (run->samples > 0) {
    status = ac_instance_fetch_control(&trainer->instance);
    if (status == AC_OK) sums = ac_instance_all_sums(&trainer->instance);
    memcpy(fed, run->fed_weight, sizeof run->fed_weight);
    ac_watchers_get_sums(run, watched);
  }
  if (!run->samples) ac_trainer_begin(trainer);
  values[0] = (double)run->samples;
  reports[2 * e->rank] = (double)counts.bytes;
  reports[2 * e->rank + 1] = counts.waited;
  put_values(losses, &sums);
  AC_TRY(ac_exchange_sum(e, AC_MEET_WINDOW, status, values, count));
  e->empty = run->samples == 0;
  run->samples = (int64_t)values[0];
  if (!run->samples) return AC_OK;
  take_values(losses, &sums);
  memcpy(e->reports, reports, 2 * (size_t)e->ranks * sizeof *reports);
  memcpy(run->fed_weight, fed, sizeof run->fed_weight);
  ac_watchers_set_sums(run, watched);
  return put_sums(&trainer->instance, &sums);
}

ac_status ac_exchange_counts(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_run *run = &trainer->run;
  double values[AC_MAX_LOSSES + 1];
  if (ac_exchange_is_alone(e) || !ac_trainer_knows_weights(trainer)) return AC_OK;
  values[0] = (double)run->whole_samples;
  memcpy(values + 1, run->whole_weight, sizeof run->whole_weight);
  AC_TRY(ac_exchange_sum(e, AC_MEET_COUNTS, AC_OK, values, AC_MAX_LOSSES + 1));
  run->whole_samples = (int64_t)values[0];
  memcpy(run->whole_weight, values + 1, sizeof run->whole_weight);
  return AC_OK;
}

ac_status ac_exchange_window(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e) || e->summed) return AC_OK;
  const ac_status status = sum_window(trainer);
  if (status != AC_OK) trainer->window.broken = true;
  return status;
}

ac_status ac_exchange_measures(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e)) return AC_OK;
  const int64_t count = move_measures(&trainer->instance, e->values, false);
  AC_TRY(ac_exchange_take(e, AC_MEET_MEASURES, e->values, count));
  move_measures(&trainer->instance, e->values, true);
  return AC_OK;
}

ac_status ac_exchange_decision(ac_exchange *e, ac_decision *decision) {
  double values[] = {decision->factor, decision->skip};
  AC_TRY(ac_exchange_take(e, AC_MEET_DECISION, values, 2));
  decision->factor = values[0];
  decision->skip = values[1] != 0;
  return AC_OK;
}

ac_status ac_exchange_evaluation(ac_exchange *e, ac_status status, ac_all_sums *sums,
                                 bool *stopped) {
  double values[3 * AC_MAX_SUMS + 1];
  if (ac_exchange_is_alone(e)) return status;
  put_values(values, sums);
  values[3 * AC_MAX_SUMS] = *stopped;
  AC_TRY(ac_exchange_sum(e, AC_MEET_EVALUATION, status, values, 3 * AC_MAX_SUMS + 1));
  take_values(values, sums);
  *stopped = values[3 * AC_MAX_SUMS] != 0;
  return AC_OK;
}

ac_status ac_trainer_rank_report(const ac_trainer *trainer, int rank, ac_rank_report *result) {
  AC_REQUIRE(trainer, result);
  const ac_exchange *e = &trainer->exchange;
  const int ranks = trainer->instance.plan->info.ranks;
  *result = (ac_rank_report){0};
  if (rank < 0 || rank >= ranks)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: there is no rank %d of %d", rank, ranks);
  if (ac_exchange_is_alone(e)) return AC_OK;
  *result =
      (ac_rank_report){.bytes = (uint64_t)e->reports[2 * rank], .waited = e->reports[2 * rank + 1]};
  return AC_OK;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The tensor with an element of the stream. */
static const ac_streamed *find_streamed(const ac_problem *problem, int64_t at) {
  int low = 0, high = problem->streamed_count - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (problem->streamed[middle].begin <= at) low = middle;
    else high = middle - 1;
  }
  return &problem->streamed[low];
}

/* Elements [begin, end) of the stream, to or from `data`. */
static ac_status move(ac_instance *instance, int64_t begin, int64_t end, float *data, bool writes) {
  const ac_problem *problem = &instance->plan->problem;
  for (int64_t at = begin; at < end;) {
    const ac_streamed *s = find_streamed(problem, at);
    const int64_t first = at - s->begin, count = ac_smaller(s->count - first, end - at);
    float *part = data + (at - begin);
    if (writes) AC_TRY(ac_instance_write_floats(instance, s->tensor, first, count, part));
    else
      AC_TRY(ac_instance_read_floats(instance, instance->persistent[s->tensor],
                                     ac_tensor_at(problem->graph, s->tensor)->dtype, first, count,
                                     part));
    at += count;
  }
  return AC_OK;
}

/* Where the n-th chunk of a rank's stretch lies. */
typedef struct chunk {
  int64_t begin, end; /* the same: there is none */
} chunk;

/* Where the gradients of a rank's stretch end, and what is pooled begins. */
static int64_t end_of_gradients(const ac_problem *problem, int rank) {
  return ac_smaller(problem->bounds[rank + 1], problem->gradient_elements);
}

static int64_t gradient_chunks(const ac_exchange *e, const ac_problem *problem, int rank) {
  const int64_t begin = ac_smaller(problem->bounds[rank], problem->gradient_elements);
  return ac_ceil_div(end_of_gradients(problem, rank) - begin, e->chunk);
}

/* No chunk has some of both. */
static chunk chunk_of(const ac_exchange *e, const ac_problem *problem, int rank, int64_t n) {
  const int64_t gradients = gradient_chunks(e, problem, rank),
                pools = end_of_gradients(problem, rank);
  const int64_t from = n < gradients ? problem->bounds[rank] + n * e->chunk
                                     : pools + (n - gradients) * e->chunk,
                to = n < gradients ? pools : problem->bounds[rank + 1];
  const int64_t begin = ac_smaller(from, to);
  return (chunk){begin, ac_smaller(begin + e->chunk, to)};
}

static uint64_t bytes_of(chunk c) {
  return (uint64_t)(c.end - c.begin) * sizeof(float);
}

/* Of this rank; without a sample of the window it has none, whatever is in its memory. */
static ac_status read_own(ac_trainer *trainer, chunk c, float *data) {
  if (!trainer->exchange.empty) return move(&trainer->instance, c.begin, c.end, data, false);
  memset(data, 0, (size_t)bytes_of(c));
  return AC_OK;
}

/* Memory of a chunk: what comes from rank r, goes to it, and this rank's own. */
static float *room(const ac_exchange *e, int n) {
  return e->memory + (size_t)n * (size_t)e->chunk;
}

static float *coming(const ac_exchange *e, int rank) {
  return room(e, rank - (rank > e->rank));
}

static float *going(const ac_exchange *e, int rank) {
  return room(e, e->ranks - 1 + rank - (rank > e->rank));
}

static float *of_own(const ac_exchange *e) {
  return room(e, 2 * (e->ranks - 1));
}

/* Each rank's part of the chunk that this rank owns, in the order of ranks. */
static void add_parts(const ac_exchange *e, int64_t count) {
  float *own = of_own(e);
  for (int64_t i = 0; i < count; i++) {
    float sum = (e->rank ? coming(e, 0) : own)[i];
    for (int r = 1; r < e->ranks; r++) sum += (r == e->rank ? own : coming(e, r))[i];
    own[i] = sum;
  }
}

/* Of a channel: number, mean, sum of squared differences from it (ops/norm/batch_norm.h). */
static void pool(float *sum, const float *part) {
  const double n = (double)part[0], before = (double)sum[0], total = before + n;
  if (!(n > 0)) return;
  const double apart = (double)part[1] - (double)sum[1];
  sum[2] = (float)((double)sum[2] + (double)part[2] + apart * apart * before * n / total);
  sum[1] = before > 0 ? (float)((double)sum[1] + apart * n / total) : part[1];
  sum[0] = (float)total;
}

static void pool_parts(const ac_exchange *e, int64_t count) {
  float *own = of_own(e);
  for (int64_t i = 0; i < count; i += 3) {
    float sum[3] = {0};
    for (int r = 0; r < e->ranks; r++) pool(sum, (r == e->rank ? own : coming(e, r)) + i);
    memcpy(own + i, sum, sizeof sum);
  }
}

/* To whom a rank sends its k-th message, from 1 on: if all began with rank 0, its link would have
 * to take all of them while the others' are idle. */
static int nth_other(const ac_exchange *e, int k) {
  return (e->rank + k) % e->ranks;
}

/* The n-th chunk of each rank: parts go to its owner, and the sum to everybody. */
static ac_status exchange_chunks(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  ac_instance *instance = &trainer->instance;
  const ac_problem *problem = &instance->plan->problem;
  const chunk own = chunk_of(e, problem, e->rank, n);
  int count = 0;
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank && bytes_of(own))
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_PART, coming(e, r), bytes_of(own),
                                        &e->transfers[count++]));
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const chunk theirs = chunk_of(e, problem, r, n);
    if (!bytes_of(theirs)) continue;
    AC_TRY(read_own(trainer, theirs, going(e, r)));
    AC_TRY(ac_transport_begin_send(e->transport, r, TAG_PART, going(e, r), bytes_of(theirs),
                                   &e->transfers[count++]));
  }
  AC_TRY(read_own(trainer, own, of_own(e)));
  AC_TRY(wait_all(e, count));
  if (own.begin < problem->gradient_elements) add_parts(e, own.end - own.begin);
  else pool_parts(e, own.end - own.begin);
  count = 0;
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const chunk theirs = chunk_of(e, problem, r, n);
    if (bytes_of(theirs))
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_SUM, coming(e, r), bytes_of(theirs),
                                        &e->transfers[count++]));
    if (bytes_of(own))
      AC_TRY(ac_transport_begin_send(e->transport, r, TAG_SUM, of_own(e), bytes_of(own),
                                     &e->transfers[count++]));
  }
  AC_TRY(move(instance, own.begin, own.end, of_own(e), true));
  AC_TRY(wait_all(e, count));
  for (int r = 0; r < e->ranks; r++) {
    const chunk theirs = chunk_of(e, problem, r, n);
    if (r != e->rank) AC_TRY(move(instance, theirs.begin, theirs.end, coming(e, r), true));
  }
  return AC_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Of a chunk: what is of gradients. */
static chunk weights_of(const ac_exchange *e, const ac_problem *problem, int rank, int64_t n) {
  const chunk c = chunk_of(e, problem, rank, n);
  return (chunk){ac_smaller(c.begin, problem->gradient_elements),
                 ac_smaller(c.end, problem->gradient_elements)};
}

/* Weights in the place of their gradients. */
static ac_status move_weights(ac_instance *instance, chunk c, float *data, bool writes) {
  const ac_problem *problem = &instance->plan->problem;
  for (int64_t at = c.begin; at < c.end;) {
    const ac_streamed *s = find_streamed(problem, at);
    const int parameter = ac_tensor_at(problem->graph, s->tensor)->parameter;
    const int64_t first = at - s->begin, count = ac_smaller(s->count - first, c.end - at);
    float *part = data + (at - c.begin);
    if (writes) AC_TRY(ac_instance_write_parameter(instance, parameter, first, count, part));
    else AC_TRY(ac_instance_read_parameter(instance, parameter, first, count, part));
    at += count;
  }
  return AC_OK;
}

static ac_status exchange_weights(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  ac_instance *instance = &trainer->instance;
  const ac_problem *problem = &instance->plan->problem;
  const chunk own = weights_of(e, problem, e->rank, n);
  int count = 0;
  AC_TRY(move_weights(instance, own, of_own(e), false));
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const chunk theirs = weights_of(e, problem, r, n);
    if (bytes_of(theirs))
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_WEIGHTS, coming(e, r),
                                        bytes_of(theirs), &e->transfers[count++]));
    if (bytes_of(own))
      AC_TRY(ac_transport_begin_send(e->transport, r, TAG_WEIGHTS, of_own(e), bytes_of(own),
                                     &e->transfers[count++]));
  }
  AC_TRY(wait_all(e, count));
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank)
      AC_TRY(move_weights(instance, weights_of(e, problem, r, n), coming(e, r), true));
  return AC_OK;
}

static int64_t chunks_of(const ac_exchange *e, const ac_problem *problem) {
  int64_t most = 0;
  for (int r = 0; r < e->ranks; r++) {
    const int64_t pools = problem->bounds[r + 1] - end_of_gradients(problem, r);
    most = ac_larger(most, gradient_chunks(e, problem, r) + ac_ceil_div(pools, e->chunk));
  }
  return most;
}

/* A rank that fails half way cannot tell so at a point, because the others wait for its parts. Its
 * caller ends them. */
static ac_status end_transfers(ac_exchange *e, ac_status status) {
  if (status != AC_OK) e->told = true;
  return status;
}

ac_status ac_exchange_weights(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const int64_t chunks = chunks_of(e, &trainer->instance.plan->problem);
  ac_status status = AC_OK;
  for (int64_t n = 0; n < chunks && status == AC_OK; n++) status = exchange_weights(trainer, n);
  return end_transfers(e, status);
}

ac_status ac_exchange_gradients(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e) || e->summed) return AC_OK;
  const int64_t chunks = chunks_of(e, &trainer->instance.plan->problem);
  ac_status status = AC_OK;
  for (int64_t n = 0; n < chunks && status == AC_OK; n++) status = exchange_chunks(trainer, n);
  e->summed = status == AC_OK;
  return end_transfers(e, status);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* What rank 0 asks of all others: elements of a cell; count 0: nothing more. */
typedef struct question {
  int64_t cell, first, count;
} question;

static ac_status ask(ac_exchange *e, question q) {
  return ac_exchange_is_alone(e) ? AC_OK
                                 : ac_transport_tell(e->transport, TAG_QUESTION, &q, sizeof q);
}

/* The part of [first, first + count) that a cell has here: elements of its tensor. */
static ac_part held(const ac_cell *cell, int64_t first, int64_t count) {
  const int64_t begin = ac_larger(first, cell->first),
                end = ac_smaller(first + count, cell->first + cell->count);
  return (ac_part){begin, ac_larger(end - begin, 0)};
}

/* Each rank answers with what it has: how much, and the bytes. */
ac_status ac_exchange_read(ac_trainer *trainer, const ac_cell *cell, int64_t first, int64_t count,
                           void *data) {
  ac_exchange *e = &trainer->exchange;
  const ac_plan *plan = trainer->instance.plan;
  const uint64_t size = ac_dtype_bytes(cell->dtype);
  const ac_part own = held(cell, first, count);
  AC_TRY(ac_exchange_show_life(e)); /* what was written before may have taken long */
  if (own.count)
    AC_TRY(ac_instance_read_elements(&trainer->instance, cell, own.first - cell->first, own.count,
                                     (char *)data + (uint64_t)(own.first - first) * size));
  if (ac_exchange_is_alone(e) || cell->role != AC_ROLE_STATE || !count) return AC_OK;
  AC_TRY(ask(e, (question){cell - plan->cells, first, count}));
  for (int r = 1; r < e->ranks; r++) {
    ac_part theirs;
    AC_TRY(ac_transport_receive(e->transport, r, TAG_ANSWER, &theirs, sizeof theirs));
    if (theirs.count)
      AC_TRY(ac_transport_receive(e->transport, r, TAG_ANSWER,
                                  (char *)data + (uint64_t)(theirs.first - first) * size,
                                  (uint64_t)theirs.count * size));
  }
  return AC_OK;
}

static ac_status answer(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_plan *plan = trainer->instance.plan;
  const uint64_t room = (uint64_t)e->chunk * sizeof(float);
  for (;;) {
    question q;
    AC_TRY(ac_transport_tell(e->transport, TAG_QUESTION, &q, sizeof q));
    if (!q.count) return AC_OK;
    const ac_cell *cell = &plan->cells[q.cell];
    const ac_part own = held(cell, q.first, q.count);
    const uint64_t bytes = (uint64_t)own.count * ac_dtype_bytes(cell->dtype);
    void *data = bytes > room ? malloc(bytes) : e->memory;
    if (!data) return ac_fail(AC_ERROR_MEMORY, "no memory to send a part of a state");
    ac_status status = ac_transport_send(e->transport, 0, TAG_ANSWER, &own, sizeof own);
    if (status == AC_OK && bytes)
      status = ac_instance_read_elements(&trainer->instance, cell, own.first - cell->first,
                                         own.count, data);
    if (status == AC_OK && bytes)
      status = ac_transport_send(e->transport, 0, TAG_ANSWER, data, bytes);
    if (data != e->memory) free(data);
    AC_TRY(status);
  }
}

ac_status ac_exchange_answer(ac_trainer *trainer) {
  return end_transfers(&trainer->exchange, answer(trainer));
}

ac_status ac_exchange_end_answers(ac_trainer *trainer) {
  return ask(&trainer->exchange, (question){0, 0, 0});
}
