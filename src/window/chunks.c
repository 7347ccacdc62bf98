/* What goes between ranks for each element of a gradient: 4 bytes to the rank that adds it up, and
 * 4 bytes of the weight back. */
#include "window/chunks.h"

#include "core/integers.h"
#include "ranks/transport.h"
#include "window/trainer.h"

#include <string.h>

enum { TAG_PART = 3, TAG_SUM = 4 };

/* What is moved between the device and a chunk. */
typedef enum kind { SUMS, WEIGHTS } kind;

static const ac_problem *problem_of(const ac_trainer *trainer) {
  return &trainer->instance.plan->problem;
}

static ac_status move_range(const ac_instance *instance, const ac_streamed *s, int64_t first,
                            int64_t count, kind what, float *data, bool writes) {
  const ac_tensor *tensor = ac_tensor_at(instance->plan->graph, s->tensor);
  if (what == WEIGHTS)
    return writes ? ac_instance_put_parameter(instance, tensor->parameter, first, count, data)
                  : ac_instance_take_parameter(instance, tensor->parameter, first, count, data);
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
    AC_TRY(move_range(ac_overlap_instance(trainer), s, s->first + skipped, count, what,
                      data + (at - chunk.begin), writes));
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
  if (!trainer->exchange.empty) AC_TRY(move(trainer, chunk, SUMS, data, false));
  else memset(data, 0, (size_t)ac_chunk_bytes(chunk));
  if (trainer->exchange.measures) measure(trainer, chunk, data);
  return AC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory of a chunk: what comes from rank r, goes to it, and this rank's own. */
static float *room(const ac_exchange *e, int n) {
  return e->memory + (size_t)n * (size_t)e->rounds.chunk;
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
static void add_parts(const ac_exchange *e, int64_t count) {
  float *own = of_own(e), sums[1024];
  const int64_t most = sizeof sums / sizeof *sums;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t n = ac_smaller(count - first, most);
    memcpy(sums, (e->rank ? coming(e, 0) : own) + first, (size_t)n * sizeof *sums);
    for (int r = 1; r < e->ranks; r++) {
      const float *part = (r == e->rank ? own : coming(e, r)) + first;
      for (int64_t i = 0; i < n; i++) sums[i] += part[i];
    }
    memcpy(own + first, sums, (size_t)n * sizeof *sums);
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

/* ---- rounds ---------------------------------------------------------------------------------- */

static ac_status receive_parts(ac_exchange *e, ac_chunk own, int *count) {
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank && ac_chunk_bytes(own))
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_PART, coming(e, r),
                                        ac_chunk_bytes(own), &e->transfers[(*count)++]));
  return AC_OK;
}

static ac_status send_parts(ac_trainer *trainer, int64_t n, int *count) {
  ac_exchange *e = &trainer->exchange;
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const ac_chunk theirs = chunk_of(trainer, r, n);
    if (!ac_chunk_bytes(theirs)) continue;
    AC_TRY(read_own_sums(trainer, theirs, going(e, r)));
    AC_TRY(ac_transport_begin_send(e->transport, r, TAG_PART, going(e, r), ac_chunk_bytes(theirs),
                                   &e->transfers[(*count)++]));
  }
  return AC_OK;
}

/* Parts of the n-th chunk of each rank go to it, and the sum takes the place of its own part. */
static ac_status reduce(ac_trainer *trainer, int64_t n) {
  ac_exchange *e = &trainer->exchange;
  const ac_chunk own = chunk_of(trainer, e->rank, n);
  int count = 0;
  AC_TRY(receive_parts(e, own, &count));
  AC_TRY(ac_overlap_await(trainer, n, count));
  AC_TRY(send_parts(trainer, n, &count));
  AC_TRY(read_own_sums(trainer, own, of_own(e)));
  AC_TRY(ac_transport_wait(e->transport, e->transfers, count));
  if (n < e->rounds.gradients) add_parts(e, own.end - own.begin);
  else pool_parts(e, own.end - own.begin);
  return move(trainer, own, SUMS, of_own(e), true);
}

/* The n-th chunk of each rank is on its way to all others: so many transfers. */
static ac_status begin_gather(ac_trainer *trainer, int64_t n, kind what, int *count) {
  ac_exchange *e = &trainer->exchange;
  const ac_chunk own = chunk_of(trainer, e->rank, n);
  *count = 0;
  AC_TRY(move(trainer, own, what, of_own(e), false));
  for (int k = 1; k < e->ranks; k++) {
    const int r = nth_other(e, k);
    const uint64_t theirs = ac_chunk_bytes(chunk_of(trainer, r, n));
    if (theirs)
      AC_TRY(ac_transport_begin_receive(e->transport, r, TAG_SUM, coming(e, r), theirs,
                                        &e->transfers[(*count)++]));
    if (ac_chunk_bytes(own))
      AC_TRY(ac_transport_begin_send(e->transport, r, TAG_SUM, of_own(e), ac_chunk_bytes(own),
                                     &e->transfers[(*count)++]));
  }
  return AC_OK;
}

/* And has come. */
static ac_status end_gather(ac_trainer *trainer, int64_t n, kind what) {
  const ac_exchange *e = &trainer->exchange;
  for (int r = 0; r < e->ranks; r++)
    if (r != e->rank) AC_TRY(move(trainer, chunk_of(trainer, r, n), what, coming(e, r), true));
  return AC_OK;
}

static ac_status gather(ac_trainer *trainer, int64_t n, kind what) {
  ac_exchange *e = &trainer->exchange;
  int count;
  AC_TRY(begin_gather(trainer, n, what, &count));
  AC_TRY(ac_transport_wait(e->transport, e->transfers, count));
  return end_gather(trainer, n, what);
}

/* ---- what is called -------------------------------------------------------------------------- */

static ac_status reduce_all(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_rounds *rounds = &e->rounds;
  memset(e->squares, 0,
         (size_t)trainer->instance.plan->graph->parameter_count * sizeof *e->squares);
  for (int64_t n = 0; n < rounds->all; n++) {
    AC_TRY(reduce(trainer, n));
    if (n >= rounds->gradients) AC_TRY(gather(trainer, n, SUMS));
  }
  return AC_OK;
}

ac_status ac_chunks_reduce(ac_trainer *trainer) {
  AC_TRY(ac_exchange_parts(trainer));
  return ac_exchange_end_transfers(&trainer->exchange, reduce_all(trainer));
}

static ac_status gather_all(ac_trainer *trainer) {
  for (int64_t n = 0; n < trainer->exchange.rounds.gradients; n++) AC_TRY(gather(trainer, n, SUMS));
  return AC_OK;
}

ac_status ac_chunks_gather_gradients(ac_trainer *trainer) {
  return ac_exchange_end_transfers(&trainer->exchange, gather_all(trainer));
}

void ac_chunks_begin_weights(ac_trainer *trainer) {
  trainer->exchange.weights = (ac_arriving){0};
}

ac_status ac_chunks_advance_weights(ac_trainer *trainer, bool *done) {
  ac_exchange *e = &trainer->exchange;
  ac_arriving *w = &e->weights;
  while (w->arrived < e->rounds.gradients) {
    const int64_t n = e->rounds.gradients - 1 - w->arrived;
    if (!w->begun) AC_TRY(begin_gather(trainer, n, WEIGHTS, &w->count));
    w->begun = true;
    *done = false;
    if (!ac_transfers_are_done(e->transfers, w->count)) return AC_OK;
    AC_TRY(end_gather(trainer, n, WEIGHTS));
    w->begun = false;
    w->arrived++;
  }
  *done = true;
  return AC_OK;
}

ac_status ac_chunks_wait_for_weights(ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  return ac_transport_wait(e->transport, e->transfers, e->weights.count);
}
