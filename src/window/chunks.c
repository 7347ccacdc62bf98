/* What goes between ranks for each element of a gradient: 4 bytes to the rank that adds it up, and
 * 4 bytes of the weight back. */
#include "window/chunks.h"

#include "core/integers.h"
#include "ranks/transport.h"
#include "window/trainer.h"

#include <string.h>

enum { TAG_PART = 3, TAG_SUM = 4 };

/* What is moved between the device and a chunk: what this rank has of a window, or of a micro-batch
 * with gradients that are divided. */
typedef enum kind { PARTS, SUMS, WEIGHTS } kind;

static const ac_problem *problem_of(const ac_trainer *trainer) {
  return &trainer->instance.plan->problem;
}

static ac_status move_range(ac_trainer *trainer, const ac_streamed *s, int64_t first, int64_t count,
                            kind what, float *data, bool writes) {
  const ac_instance *instance = ac_overlap_instance(trainer);
  void **values = trainer->exchange.sharded.handles;
  const ac_tensor *tensor = ac_tensor_at(instance->plan->graph, s->tensor);
  if (what == WEIGHTS)
    return writes ? ac_instance_put_parameter(instance, tensor->parameter, first, count, data)
                  : ac_instance_take_parameter(instance, tensor->parameter, first, count, data);
  if (what == PARTS && values && values[s->tensor])
    return ac_instance_read_floats(instance, values[s->tensor], tensor->dtype, first, count, data);
  first -= ac_sharded_first(trainer, s->tensor);
  if (writes) return ac_instance_write_floats(instance, s->tensor, first, count, data);
  return ac_instance_read_floats(instance, instance->persistent[s->tensor], tensor->dtype, first,
                                 count, data);
}

/* Elements of the stream, or the weights that their gradients belong to, to or from `data`. */
static ac_status move(ac_trainer *trainer, ac_chunk chunk, kind what, float *data, bool writes) {
  const ac_problem *problem = problem_of(trainer);
  for (int64_t at = chunk.begin; at < chunk.end;) {
    const ac_streamed *s = ac_shards_streamed(problem, at);
    const int64_t skipped = at - s->begin, count = ac_smaller(s->count - skipped, chunk.end - at);
    AC_TRY(
        move_range(trainer, s, s->first + skipped, count, what, data + (at - chunk.begin), writes));
    at += count;
  }
  return AC_OK;
}

static double squares_of(const float *data, int64_t count) {
  enum { LANES = 8 };
  double sums[LANES] = {0}, all = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < LANES; k++) sums[k] += (double)data[i + k] * (double)data[i + k];
  for (; i < count; i++) all += (double)data[i] * (double)data[i];
  for (int k = 0; k < LANES; k++) all += sums[k];
  return all;
}

/* Each chunk of gradients passes once, whichever rank it goes to. */
static void measure(ac_trainer *trainer, ac_chunk chunk, const float *data) {
  const ac_problem *problem = problem_of(trainer);
  for (int64_t at = chunk.begin; at < chunk.end && at < problem->gradient_elements;) {
    const ac_streamed *s = ac_shards_streamed(problem, at);
    const int64_t end = ac_smaller(s->begin + s->count, chunk.end);
    trainer->exchange.squares[ac_tensor_at(problem->graph, s->tensor)->parameter] +=
        squares_of(data + (at - chunk.begin), end - at);
    at = end;
  }
}

/* Of this rank; without a sample of the window it has none, whatever is in its memory. */
static ac_status read_own_sums(ac_trainer *trainer, ac_chunk chunk, float *data) {
  if (!trainer->exchange.empty) AC_TRY(move(trainer, chunk, PARTS, data, false));
  else memset(data, 0, (size_t)ac_chunk_bytes(chunk));
  if (trainer->exchange.measures) measure(trainer, chunk, data);
  return AC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Each round that is under way has memory and transfers of its own. */
static size_t place_of(int64_t round) {
  return (size_t)(round % AC_ROUNDS_AT_ONCE);
}

/* Memory of a round's chunks: what comes from rank r, goes to it, and this rank's own. */
static float *room(const ac_exchange *e, int64_t round, int n) {
  const size_t rooms = 2 * (size_t)e->ranks - 1;
  return e->memory + (place_of(round) * rooms + (size_t)n) * (size_t)e->rounds.chunk;
}

static float *coming(const ac_exchange *e, int64_t round, int rank) {
  return room(e, round, rank - (rank > e->rank));
}

static float *going(const ac_exchange *e, int64_t round, int rank) {
  return room(e, round, e->ranks - 1 + rank - (rank > e->rank));
}

static float *of_own(const ac_exchange *e, int64_t round) {
  return room(e, round, 2 * (e->ranks - 1));
}

static ac_transfer *transfers_of(const ac_exchange *e, int64_t round) {
  return e->transfers + place_of(round) * 2 * (size_t)e->ranks;
}

static int *count_of(ac_exchange *e, int64_t round) {
  return &e->counts[place_of(round)];
}

static ac_transfer *next_transfer(ac_exchange *e, int64_t round) {
  return transfers_of(e, round) + (*count_of(e, round))++;
}

static ac_status wait_for(ac_exchange *e, int64_t round) {
  return ac_transport_wait(e->transport, transfers_of(e, round), *count_of(e, round));
}

/* To whom a rank sends its k-th message, from 1 on: if all began with rank 0, its link would have
 * to take all of them while the others' are idle. */
static int nth_other(const ac_exchange *e, int k) {
  return (e->rank + k) % e->ranks;
}

static ac_chunk chunk_of(const ac_trainer *trainer, int rank, int64_t n) {
  return ac_shards_chunk_of(problem_of(trainer), &trainer->exchange.rounds, rank, n);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Each rank's part of the chunk that this rank owns, in the order of ranks. */
static void add_parts(const ac_exchange *e, int64_t n, int64_t count) {
  float *own = of_own(e, n), sums[1024];
  const int64_t most = sizeof sums / sizeof *sums;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t size = ac_smaller(count - first, most);
    memcpy(sums, (e->rank ? coming(e, n, 0) : own) + first, (size_t)size * sizeof *sums);
    for (int r = 1; r < e->ranks; r++) {
      const float *part = (r == e->rank ? own : coming(e, n, r)) + first;
      for (int64_t i = 0; i < size; i++) sums[i] += part[i];
    }
    memcpy(own + first, sums, (size_t)size * sizeof *sums);
  }
}

/* What the micro-batches before this one have come to. */
static ac_status add_before(ac_trainer *trainer, int64_t n, ac_chunk own) {
  const ac_exchange *e = &trainer->exchange;
  float *before = room(e, n, 0), *sum = of_own(e, n);
  if (!ac_sharded_is_on(&e->sharded) || !e->sharded.summed) return AC_OK;
  AC_TRY(move(trainer, own, SUMS, before, false));
  for (int64_t i = 0; i < own.end - own.begin; i++) sum[i] = before[i] + sum[i];
  return AC_OK;
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

static void pool_parts(const ac_exchange *e, int64_t n, int64_t count) {
  float *own = of_own(e, n);
  for (int64_t i = 0; i < count; i += 3) {
    float sum[3] = {0};
    for (int r = 0; r < e->ranks; r++) pool(sum, (r == e->rank ? own : coming(e, n, r)) + i);
    memcpy(own + i, sum, sizeof sum);
  }
}

static ac_status receive_parts(ac_exchange *e, int64_t n, ac_chunk own) {
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank && ac_chunk_bytes(own))
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_PART, coming(e, n, r),
                                        ac_chunk_bytes(own), next_transfer(e, n)));
  return AC_OK;
}

static ac_status send_parts(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const ac_chunk theirs = chunk_of(trainer, r, n);
    if (!ac_chunk_bytes(theirs)) continue;
    AC_TRY(read_own_sums(trainer, theirs, going(e, n, r)));
    AC_TRY(ac_transport_begin_send(e->transport, r, TAG_PART, going(e, n, r),
                                   ac_chunk_bytes(theirs), next_transfer(e, n)));
  }
  return AC_OK;
}

/* Parts of the n-th chunk of each rank are on their way to it, */
static ac_status begin_reduce(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  const ac_chunk own = chunk_of(trainer, e->rank, n);
  *count_of(e, n) = 0;
  AC_TRY(receive_parts(e, n, own));
  AC_TRY(ac_overlap_await(trainer, n));
  AC_TRY(send_parts(trainer, n));
  return read_own_sums(trainer, own, of_own(e, n));
}

/* and the sum takes the place of its own part. */
static ac_status end_reduce(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  const ac_chunk own = chunk_of(trainer, e->rank, n);
  AC_TRY(wait_for(e, n));
  if (n < e->rounds.gradients) {
    add_parts(e, n, own.end - own.begin);
    AC_TRY(add_before(trainer, n, own));
  } else {
    pool_parts(e, n, own.end - own.begin);
  }
  return move(trainer, own, SUMS, of_own(e, n), true);
}

/* ---- wholes ---------------------------------------------------------------------------------- */

/* The n-th chunk of each rank is on its way to all others. */
static ac_status begin_gather(ac_trainer *trainer, int64_t n, kind what) {
  ac_exchange *e = &trainer->exchange;
  const ac_chunk own = chunk_of(trainer, e->rank, n);
  *count_of(e, n) = 0;
  AC_TRY(move(trainer, own, what, of_own(e, n), false));
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const uint64_t theirs = ac_chunk_bytes(chunk_of(trainer, r, n));
    if (theirs)
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_SUM, coming(e, n, r), theirs,
                                        next_transfer(e, n)));
    if (ac_chunk_bytes(own))
      AC_TRY(ac_transport_begin_send(e->transport, r, TAG_SUM, of_own(e, n), ac_chunk_bytes(own),
                                     next_transfer(e, n)));
  }
  return AC_OK;
}

/* And has come. */
static ac_status end_gather(ac_trainer *trainer, int64_t n, kind what) {
  const ac_exchange *e = &trainer->exchange;
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank) AC_TRY(move(trainer, chunk_of(trainer, r, n), what, coming(e, n, r), true));
  return AC_OK;
}

/* The k-th round is that of the k-th last chunks, from 0 on. */
static ac_status advance(ac_trainer *trainer, kind what, bool *done) {
  ac_exchange *e = &trainer->exchange;
  ac_arriving *a = &e->arriving;
  const int64_t last = e->rounds.gradients - 1;
  for (;;) {
    for (; a->begun <= last && a->begun < a->arrived + AC_ROUNDS_AT_ONCE; a->begun++)
      AC_TRY(begin_gather(trainer, last - a->begun, what));
    *done = a->arrived > last;
    if (*done) return AC_OK;
    const int64_t n = last - a->arrived;
    if (!ac_transfers_are_done(transfers_of(e, n), *count_of(e, n))) return AC_OK;
    AC_TRY(end_gather(trainer, n, what));
    a->arrived++;
  }
}

static ac_status wait_for_next(ac_exchange *e) {
  return wait_for(e, e->rounds.gradients - 1 - e->arriving.arrived);
}

static ac_status gather_all(ac_trainer *trainer, kind what) {
  bool done = false;
  trainer->exchange.arriving = (ac_arriving){0};
  for (;;) {
    AC_TRY(advance(trainer, what, &done));
    if (done) return AC_OK;
    AC_TRY(wait_for_next(&trainer->exchange));
  }
}

/* ---- what is called -------------------------------------------------------------------------- */

/* All need the whole of what is pooled. */
static ac_status reduce_pools(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  AC_TRY(begin_reduce(trainer, n));
  AC_TRY(end_reduce(trainer, n));
  AC_TRY(begin_gather(trainer, n, SUMS));
  AC_TRY(wait_for(e, n));
  return end_gather(trainer, n, SUMS);
}

static ac_status reduce_gradients(ac_trainer *trainer) {
  const int64_t rounds = trainer->exchange.rounds.gradients;
  for (int64_t n = 0; n < rounds; n++) {
    AC_TRY(begin_reduce(trainer, n));
    if (n > 0) AC_TRY(end_reduce(trainer, n - 1));
  }
  return rounds ? end_reduce(trainer, rounds - 1) : AC_OK;
}

/* Gradients that are divided have been exchanged. */
static ac_status reduce_all(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_rounds *rounds = &e->rounds;
  memset(e->squares, 0,
         (size_t)trainer->instance.plan->graph->parameter_count * sizeof *e->squares);
  if (!ac_sharded_is_on(&e->sharded)) AC_TRY(reduce_gradients(trainer));
  for (int64_t n = rounds->gradients; n < rounds->all; n++) AC_TRY(reduce_pools(trainer, n));
  return AC_OK;
}

ac_status ac_chunks_reduce(ac_trainer *trainer) {
  AC_TRY(ac_exchange_parts(trainer));
  return ac_exchange_end_transfers(&trainer->exchange, reduce_all(trainer));
}

ac_status ac_chunks_begin_round(ac_trainer *trainer, int64_t round) {
  return begin_reduce(trainer, round);
}

ac_status ac_chunks_test_round(ac_trainer *trainer, int64_t round, bool *come) {
  ac_exchange *e = &trainer->exchange;
  return ac_transport_test(e->transport, transfers_of(e, round), *count_of(e, round), come);
}

ac_status ac_chunks_end_round(ac_trainer *trainer, int64_t round) {
  return end_reduce(trainer, round);
}

ac_status ac_chunks_gather_gradients(ac_trainer *trainer) {
  return ac_exchange_end_transfers(&trainer->exchange, gather_all(trainer, SUMS));
}

ac_status ac_chunks_gather_weights(ac_trainer *trainer) {
  return gather_all(trainer, WEIGHTS);
}

void ac_chunks_begin_weights(ac_trainer *trainer) {
  trainer->exchange.arriving = (ac_arriving){0};
}

ac_status ac_chunks_advance_weights(ac_trainer *trainer, bool *done) {
  return advance(trainer, WEIGHTS, done);
}

ac_status ac_chunks_wait_for_weights(ac_trainer *trainer) {
  return wait_for_next(&trainer->exchange);
}
