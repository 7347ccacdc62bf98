/* Points at which ranks meet.
 *
 * At a point every rank tells rank 0 its status and some numbers. Rank 0 adds them up in the order
 * of ranks and tells everybody the result. So all ranks have the same bits, and decide the same.
 *
 * Rank 0 speaks to each rank, so messages have just what they need: a head of always the same size,
 * with the first few numbers, so that ranks that are out of step are found out; and if there is
 * more, numbers or a sentence, a second message that does not wait for an answer. */
#include "window/exchange.h"

#include "core/error.h"
#include "core/hash.h"
#include "core/integers.h"
#include "core/share.h"
#include "ranks/ranks.h"
#include "window/trainer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 3 and 4 are those of chunks.c. */
enum { TAG_POINT = 1, TAG_RESULT = 2, TAG_QUESTION = 5, TAG_ANSWER = 6 };

enum { FEW_VALUES = 8 };

/* What a rank tells, with its first numbers; more of them follow in memory, or if it has failed a
 * sentence. */
typedef struct head {
  uint64_t met;
  int64_t count, listed; /* numbers of it, the last ones not to be added up but to be listed */
  int32_t meeting, status;
  double values[FEW_VALUES];
} head;

/* ---- points ---------------------------------------------------------------------------------- */

/* Room for so many numbers or a sentence. */
static size_t message_bytes(int64_t count) {
  const size_t bytes = (size_t)count * sizeof(double);
  return sizeof(head) + (bytes > AC_SENTENCE_BYTES ? bytes : AC_SENTENCE_BYTES);
}

/* The own one is the result's also. */
static head *message_of(const ac_exchange *e, int rank) {
  if (!rank) return (head *)e->messages;
  return (head *)(e->messages + message_bytes(e->most_values) +
                  (size_t)(rank - 1) * message_bytes(e->most_told));
}

static double *values_of(head *message) {
  return (double *)((char *)message + offsetof(head, values));
}

static char *sentence_of(head *message) {
  return (char *)(message + 1);
}

/* What follows a head that comes with so many numbers. */
static uint64_t rest_bytes(const head *message, int64_t count) {
  if (message->status != AC_OK) return AC_SENTENCE_BYTES;
  return count > FEW_VALUES ? (uint64_t)(count - FEW_VALUES) * sizeof(double) : 0;
}

static int64_t result_count(const ac_exchange *e, const head *told) {
  return told->count + (e->ranks - 1) * told->listed;
}

static const char *name_of(int meeting) {
  static const char *const names[] = {"an unknown point",
                                      "the end of a window",
                                      "a decision",
                                      "the time between two windows",
                                      "the end of an evaluation",
                                      "a state",
                                      "the weights of a window",
                                      "the last micro-batch of a window",
                                      "gradients that were written",
                                      "a batch norm",
                                      "a micro-batch with divided gradients"};
  return meeting >= AC_MEET_WINDOW && meeting <= AC_MEET_PIECE ? names[meeting] : names[0];
}

/* Rank 0 judges what a rank has told. */
static void judge(head *result, head *theirs, int rank) {
  if (result->status != AC_OK) return;
  if (theirs->status != AC_OK) {
    result->status = theirs->status;
    snprintf(sentence_of(result), AC_SENTENCE_BYTES, "rank %d: %.*s", rank, AC_SENTENCE_BYTES - 32,
             sentence_of(theirs));
    return;
  }
  if (theirs->met == result->met && theirs->meeting == result->meeting &&
      theirs->count == result->count)
    return;
  result->status = AC_ERROR_STATE;
  snprintf(sentence_of(result), AC_SENTENCE_BYTES,
           "ranks: rank %d has come to %s, and rank 0 to %s; all ranks must make the same calls",
           rank, name_of(theirs->meeting), name_of(result->meeting));
}

/* Transfers of points; those before them may be of weights on their way, as many for each round. */
static ac_transfer *transfers_of(const ac_exchange *e) {
  return e->transfers + AC_ROUNDS_AT_ONCE * 2 * (size_t)e->ranks;
}

static ac_status begin_send(ac_exchange *e, int to, uint32_t tag, head *message, uint64_t rest,
                            int *count) {
  AC_TRY(ac_transport_begin_send(e->transport, to, tag, message, sizeof *message,
                                 &transfers_of(e)[(*count)++]));
  if (!rest) return AC_OK;
  return ac_transport_begin_send(e->transport, to, tag, message + 1, rest,
                                 &transfers_of(e)[(*count)++]);
}

static ac_status wait_all(ac_trainer *trainer, int count) {
  return ac_overlap_wait(trainer, transfers_of(&trainer->exchange), count);
}

/* The heads of all, and then what follows them. */
static ac_status hear_all(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  int count = 0;
  for (int r = 1; r < e->ranks; r++)
    AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_POINT, message_of(e, r), sizeof(head),
                                      &transfers_of(e)[count++]));
  AC_TRY(wait_all(trainer, count));
  count = 0;
  for (int r = 1; r < e->ranks; r++) {
    head *theirs = message_of(e, r);
    const uint64_t rest = rest_bytes(theirs, theirs->count);
    if (theirs->count < 0 || sizeof *theirs + rest > message_bytes(e->most_told))
      return ac_fail(AC_ERROR_FORMAT, "ranks: rank %d tells more than there is room for", r);
    if (rest)
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_POINT, theirs + 1, rest,
                                        &transfers_of(e)[count++]));
  }
  return wait_all(trainer, count);
}

static ac_status tell_all(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  head *result = message_of(e, 0);
  const uint64_t rest = rest_bytes(result, result->count);
  int count = 0;
  for (int r = 1; r < e->ranks; r++) AC_TRY(begin_send(e, r, TAG_RESULT, result, rest, &count));
  return wait_all(trainer, count);
}

/* What this rank tells and then what it hears are in the same memory. */
static ac_status ask_0(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  head *own = message_of(e, 0);
  const int64_t results = result_count(e, own);
  int count = 0;
  AC_TRY(begin_send(e, 0, TAG_POINT, own, rest_bytes(own, own->count), &count));
  AC_TRY(wait_all(trainer, count));
  AC_TRY(
      ac_transport_begin_receive(e->transport, 0, TAG_RESULT, own, sizeof *own, transfers_of(e)));
  AC_TRY(wait_all(trainer, 1));
  const uint64_t rest = rest_bytes(own, results);
  if (!rest) return AC_OK;
  AC_TRY(ac_transport_begin_receive(e->transport, 0, TAG_RESULT, own + 1, rest, transfers_of(e)));
  return wait_all(trainer, 1);
}

/* Numbers that are listed come after the sums, one rank after another. */
static void add_up(ac_exchange *e) {
  head *result = message_of(e, 0);
  double *values = values_of(result);
  const int64_t summed = result->count - result->listed;
  for (int r = 1; r < e->ranks; r++) {
    head *theirs = message_of(e, r);
    const double *more = values_of(theirs);
    judge(result, theirs, r);
    if (!e->sums || result->status != AC_OK) continue;
    for (int64_t i = 0; i < summed; i++) values[i] += more[i];
    memcpy(values + summed + r * result->listed, more + summed,
           (size_t)result->listed * sizeof *values);
  }
  result->count = result_count(e, result);
}

ac_status ac_exchange_point(ac_trainer *trainer) {
  if (trainer->exchange.rank) return ask_0(trainer);
  AC_TRY(hear_all(trainer));
  add_up(&trainer->exchange);
  return tell_all(trainer);
}

typedef ac_status (*come_to_point)(ac_trainer *trainer);

static ac_status meet(ac_trainer *trainer, come_to_point come, const head *told, double *values) {
  ac_exchange *e = &trainer->exchange;
  head *own = message_of(e, 0);
  const ac_status status = (ac_status)told->status;
  const int64_t results = result_count(e, told);
  *own = *told;
  own->met = ++e->met;
  if (status != AC_OK) snprintf(sentence_of(own), AC_SENTENCE_BYTES, "%s", ac_last_error());
  else if (told->count) memcpy(values_of(own), values, (size_t)told->count * sizeof *values);
  AC_TRY(come(trainer));
  if (own->status != AC_OK)
    return status != AC_OK ? status : ac_fail((ac_status)own->status, "%s", sentence_of(own));
  if (results) memcpy(values, values_of(own), (size_t)results * sizeof *values);
  return AC_OK;
}

/* After this, whatever has failed, there is nobody left to tell. */
static ac_status meet_once(ac_trainer *trainer, come_to_point come, const head *told,
                           double *values) {
  const ac_kept_error own = ac_error_keep();
  const ac_status status = (ac_status)told->status, met = meet(trainer, come, told, values);
  trainer->exchange.told = met != AC_OK;
  if (status == AC_OK) return met;
  ac_error_restore(&own);
  return status;
}

/* While weights are on their way the thread that brings them has the transport. */
static ac_status meet_others(ac_trainer *trainer, const head *told, double *values, bool sums) {
  ac_exchange *e = &trainer->exchange;
  e->sums = sums;
  if (!e->overlap.owed) ac_transport_take_back(e->transport); /* from another trainer's */
  return meet_once(trainer, e->overlap.owed ? ac_overlap_meet : ac_exchange_point, told, values);
}

ac_status ac_exchange_parts(ac_trainer *trainer) {
  trainer->exchange.sums = true;
  return meet_once(trainer, ac_exchange_point, &(head){.meeting = AC_MEET_PARTS}, NULL);
}

ac_status ac_exchange_sum(ac_trainer *trainer, ac_meeting meeting, ac_status status, double *values,
                          int64_t count) {
  return ac_exchange_sum_and_list(trainer, meeting, status, values, count, 0);
}

ac_status ac_exchange_sum_and_list(ac_trainer *trainer, ac_meeting meeting, ac_status status,
                                   double *values, int64_t count, int64_t listed) {
  if (ac_exchange_is_alone(&trainer->exchange)) return status;
  const head told = {
      .count = count + listed, .listed = listed, .meeting = meeting, .status = status};
  return meet_others(trainer, &told, values, true);
}

ac_status ac_exchange_take(ac_trainer *trainer, ac_meeting meeting, double *values, int64_t count) {
  if (ac_exchange_is_alone(&trainer->exchange)) return AC_OK;
  return meet_others(trainer, &(head){.count = count, .meeting = meeting}, values, false);
}

void ac_exchange_fail(ac_trainer *trainer, ac_status status) {
  const ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e) || e->told || status == AC_OK) return;
  meet_others(trainer, &(head){.meeting = AC_MEET_TURN, .status = status}, NULL, true);
}

void ac_exchange_copy_sentence(char *text, size_t size) {
  const ac_kept_error told = ac_error_keep();
  int rank, skipped = 0;
  (void)sscanf(told.sentence, "rank %d: %n", &rank, &skipped);
  snprintf(text, size, "%s", told.sentence + skipped);
}

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status make_room(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_plan *plan = trainer->instance.plan;
  const size_t ranks = (size_t)e->ranks;
  e->rounds = ac_shards_rounds(&plan->problem);
  e->window_values = ac_exchange_window_values(trainer);
  e->most_values = ac_larger(e->window_values, ac_exchange_norm_values(trainer));
  e->most_told = ac_larger(e->window_values - AC_RANK_REPORT * (e->ranks - 1),
                           ac_exchange_norm_values(trainer));
  e->memory = malloc((size_t)plan->info.transfer_bytes + 1);
  e->transfer_count = (AC_ROUNDS_AT_ONCE + 1) * 2 * e->ranks;
  e->transfers = calloc((size_t)e->transfer_count, sizeof *e->transfers);
  e->values = calloc((size_t)e->most_values, sizeof *e->values);
  e->squares = calloc((size_t)plan->graph->parameter_count + 1, sizeof *e->squares);
  e->reports = calloc(AC_RANK_REPORT * ranks, sizeof *e->reports);
  e->messages = calloc(1, message_bytes(e->most_values) +
                              (e->rank ? 0 : ranks - 1) * message_bytes(e->most_told));
  if (e->memory && e->transfers && e->values && e->squares && e->reports && e->messages)
    return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "trainer: no memory on the host for transfers between ranks");
}

/* What goes to each rank, and in which order. */
static uint64_t hash_shares(const ac_problem *problem) {
  uint64_t hash = AC_HASH_BEGIN;
  for (int i = 0; i < problem->streamed_count; i++) {
    const ac_streamed *s = &problem->streamed[i];
    const int64_t numbers[] = {ac_tensor_at(problem->graph, s->tensor)->parameter, s->first,
                               s->begin, s->count};
    hash = ac_hash(hash, numbers, sizeof numbers);
  }
  return hash;
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
  char model[64], shares[32], batch[32], seed[32], rate[64], decay[64], clip[64];
  snprintf(model, sizeof model, "%d parameters (%016llx)", graph->parameter_count,
           (unsigned long long)hash);
  snprintf(shares, sizeof shares, "%016llx", (unsigned long long)hash_shares(&plan->problem));
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
      {"the batch norm", plan->problem.in_sections ? "exact" : "of micro-batches, if any"},
      {"the seed", seed},
      {"the learning rate", rate},
      {"the order of gradients", shares},
      {"the gradients", plan->way->shards ? "divided among ranks" : "kept by each rank"}};
  return ac_ranks_agree(trainer->desc.ranks, facts, sizeof facts / sizeof *facts);
}

/* A thread that has the transport answers by itself. */
ac_status ac_exchange_show_life(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e)) return AC_OK;
  if (e->overlap.on) return ac_overlap_check(&e->overlap);
  if (e->overlap.owed && !ac_overlap_has_weights(&e->overlap)) return AC_OK;
  AC_TRY(ac_exchange_take_transport(trainer));
  return ac_transport_show_life(e->transport);
}

/* While the last micro-batch runs, as where a program saves in a function that is handed a tensor,
 * the transport is not this thread's; that of the exchange answers. */
static bool has_transport(const ac_exchange *e) {
  return !ac_exchange_is_alone(e) && !e->overlap.on;
}

void ac_exchange_begin_absence(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (!has_transport(e)) return;
  ac_transport_take_back(e->transport);
  ac_transport_begin_absence(e->transport);
}

void ac_exchange_end_absence(ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  if (has_transport(e)) ac_transport_end_absence(e->transport);
}

static ac_status show_life(void *trainer) {
  return ac_exchange_show_life(trainer);
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
  trainer->instance.meanwhile = (ac_meanwhile){show_life, trainer};
  AC_TRY(ac_exchange_begin_norms(trainer));
  AC_TRY(ac_sharded_create(trainer));
  return ac_overlap_create(trainer);
}

void ac_exchange_release(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (e->overlap.owed) ac_transport_take_back(e->transport); /* nobody asks how it ended */
  if (e->transport && !ac_transfers_are_done(e->transfers, e->transfer_count))
    ac_transport_give_up(e->transport);
  ac_overlap_free(trainer);
  ac_sharded_free(trainer);
  free(e->memory);
  free(e->transfers);
  free(e->values);
  free(e->squares);
  free(e->reports);
  free(e->norm);
  free(e->messages);
}

void ac_exchange_lay(ac_exchange *e, int64_t first) {
  e->first = first;
  e->laid = true;
}

void ac_exchange_leave(ac_exchange *e) {
  e->reduced = e->gathered = e->summed = e->laid = e->measures = false;
  e->sharded.summed = 0;
}

ac_status ac_exchange_end_transfers(ac_exchange *e, ac_status status) {
  if (status != AC_OK) e->told = true;
  return status;
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
  AC_TRY(ac_exchange_settle(trainer));
  AC_TRY(ac_exchange_show_life(trainer)); /* what was written before may have taken long */
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
  const uint64_t room = (uint64_t)e->rounds.chunk * sizeof(float);
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
  AC_TRY(ac_exchange_take_transport(trainer));
  return ac_exchange_end_transfers(&trainer->exchange, answer(trainer));
}

ac_status ac_exchange_end_answers(ac_trainer *trainer) {
  AC_TRY(ac_exchange_take_transport(trainer));
  return ask(&trainer->exchange, (question){0, 0, 0});
}
