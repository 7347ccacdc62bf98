#include "rank_traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/random.h"

enum { MOST_RANKS = 64, MOST_MESSAGES = 6, MOST_CHUNK = 40 };

/* A number below `limit` that all ranks know. */
static uint32_t known(const traffic *what, int round, int from, int to, uint32_t which,
                      uint32_t limit) {
  const ac_philox_block bits = ac_philox(
      what->seed, (uint32_t)round, (uint32_t)(from + 1) * 1024 + (uint32_t)(to + 1), which, 7);
  return (uint32_t)(((uint64_t)bits.v[0] * limit) >> 32);
}

typedef struct message {
  ac_transfer *transfer;
  unsigned char *bytes;
  uint32_t size, tag;
  int from, to, number;
} message;

typedef struct round_of_messages {
  message sent[MOST_RANKS * MOST_MESSAGES], received[MOST_RANKS * MOST_MESSAGES];
  ac_transfer sends[MOST_RANKS * MOST_MESSAGES], receives[MOST_RANKS * MOST_MESSAGES];
  int sent_count, received_count;
} round_of_messages;

static unsigned char content(const message *m, const traffic *what, int round, uint32_t at) {
  return (unsigned char)(what->seed + (uint64_t)round * 31 + (uint64_t)m->from * 7 +
                         (uint64_t)m->to * 3 + (uint64_t)m->number * 101 + at * 13 + (at >> 8));
}

static bool lay(message *m, const traffic *what, int round, int from, int to, int number) {
  *m = (message){.from = from, .to = to, .number = number};
  const uint32_t kind = known(what, round, from, to, (uint32_t)number * 4 + 1, 8);
  m->size = kind == 0 ? 0
                      : 1 + known(what, round, from, to, (uint32_t)number * 4 + 2,
                                  kind < 6 ? 64 : (uint32_t)what->most_bytes);
  m->tag = known(what, round, from, to, (uint32_t)number * 4 + 3, 3) * 1000 + 1;
  m->bytes = malloc(m->size + 1);
  return m->bytes != NULL;
}

/* Receives in another order of ranks than sends, each pair and tag in its own. */
static bool lay_round(round_of_messages *all, const traffic *what, int round, int rank, int size) {
  for (int step = 0; step < size; step++) {
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    const int out = (int)known(what, round, rank, to, 0, MOST_MESSAGES);
    const int in = (int)known(what, round, from, rank, 0, MOST_MESSAGES);
    for (int n = 0; n < out; n++) {
      message *m = &all->sent[all->sent_count];
      if (!lay(m, what, round, rank, to, n)) return false;
      for (uint32_t at = 0; at < m->size; at++) m->bytes[at] = content(m, what, round, at);
      m->transfer = &all->sends[all->sent_count++];
    }
    for (int n = 0; n < in; n++) {
      message *m = &all->received[all->received_count];
      if (!lay(m, what, round, from, rank, n)) return false;
      m->transfer = &all->receives[all->received_count++];
    }
  }
  return true;
}

static ac_status wait_for(ac_transport *t, ac_transfer *list, int count, bool polls) {
  bool done = !polls;
  while (!done) {
    ac_status status = ac_transport_test(t, list, count, &done);
    if (status != AC_OK) return status;
  }
  return polls ? AC_OK : ac_transport_wait(t, list, count);
}

static ac_status move_messages(ac_transport *t, const traffic *what, int round,
                               round_of_messages *all) {
  const bool receives_first = known(what, round, ac_transport_rank(t), 0, 99, 2);
  for (int pass = 0; pass < 2; pass++) {
    const bool receives = (pass == 0) == receives_first;
    message *list = receives ? all->received : all->sent;
    for (int i = 0; i < (receives ? all->received_count : all->sent_count); i++) {
      message *m = &list[i];
      ac_status status =
          receives ? ac_transport_begin_receive(t, m->from, m->tag, m->bytes, m->size, m->transfer)
                   : ac_transport_begin_send(t, m->to, m->tag, m->bytes, m->size, m->transfer);
      if (status != AC_OK) return status;
    }
  }
  const bool polls = what->polls && known(what, round, 0, 0, 98, 4) == 0;
  ac_status status = wait_for(t, all->receives, all->received_count, polls);
  return status == AC_OK ? wait_for(t, all->sends, all->sent_count, false) : status;
}

static void check_messages(const traffic *what, int round, const round_of_messages *all,
                           traffic_result *result) {
  for (int i = 0; i < all->received_count; i++) {
    const message *m = &all->received[i];
    for (uint32_t at = 0; at < m->size; at++)
      result->wrong += m->bytes[at] != content(m, what, round, at);
    result->hash = ac_hash(result->hash, m->bytes, m->size);
  }
}

static float gradient(int rank, int round, int at) {
  return (float)(1 + (rank * 37 + round * 11 + at * 5) % 97) / 7.0f;
}

/* Each rank owns a chunk, sums it in the order of ranks, and sends it to all. */
static ac_status sum_chunks(ac_transport *t, int round, int chunk, traffic_result *result) {
  const int rank = ac_transport_rank(t), size = ac_transport_size(t);
  float own[MOST_RANKS * MOST_CHUNK], parts[MOST_RANKS * MOST_CHUNK], sum[MOST_CHUNK];
  ac_transfer list[2 * MOST_RANKS];
  const uint64_t bytes = (uint64_t)chunk * sizeof(float);
  for (int i = 0; i < size * chunk; i++) own[i] = gradient(rank, round, i);
  ac_status status = AC_OK;
  for (int r = 0; r < size && status == AC_OK; r++)
    status = ac_transport_begin_receive(t, r, 5, parts + r * chunk, bytes, &list[r]);
  for (int r = 0; r < size && status == AC_OK; r++)
    status = ac_transport_begin_send(t, r, 5, own + r * chunk, bytes, &list[size + r]);
  if (status == AC_OK) status = ac_transport_wait(t, list, 2 * size);
  if (status != AC_OK) return status;
  for (int i = 0; i < chunk; i++) {
    sum[i] = 0;
    for (int r = 0; r < size; r++) sum[i] += parts[r * chunk + i];
  }
  for (int r = 0; r < size && status == AC_OK; r++)
    status = ac_transport_begin_receive(t, r, 6, own + r * chunk, bytes, &list[r]);
  for (int r = 0; r < size && status == AC_OK; r++)
    status = ac_transport_begin_send(t, r, 6, sum, bytes, &list[size + r]);
  if (status == AC_OK) status = ac_transport_wait(t, list, 2 * size);
  if (status != AC_OK) return status;
  for (int i = 0; i < size * chunk; i++) {
    float expected = 0;
    for (int r = 0; r < size; r++) expected += gradient(r, round, i);
    result->wrong += own[i] != expected;
  }
  result->hash = ac_hash(result->hash, own, (size_t)size * bytes);
  return AC_OK;
}

static ac_status run_round(ac_transport *t, const traffic *what, int round,
                           traffic_result *result) {
  round_of_messages *all = calloc(1, sizeof *all);
  const int rank = ac_transport_rank(t), size = ac_transport_size(t);
  ac_status status = AC_ERROR_MEMORY;
  if (all && lay_round(all, what, round, rank, size)) status = move_messages(t, what, round, all);
  if (status == AC_OK) check_messages(what, round, all, result);
  if (status == AC_OK)
    status = ac_transport_work(t, 0.001 * known(what, round, rank, rank, 97, 100));
  if (status == AC_OK)
    status = sum_chunks(t, round, 1 + (int)known(what, round, 0, 0, 96, MOST_CHUNK), result);
  if (status == AC_OK && round % 3 == 2) status = ac_transport_barrier(t);
  for (int i = 0; all && i < MOST_RANKS * MOST_MESSAGES; i++) {
    free(all->sent[i].bytes);
    free(all->received[i].bytes);
  }
  free(all);
  if (status != AC_OK) {
    result->status = status;
    snprintf(result->sentence, sizeof result->sentence, "%s", ac_last_error());
  }
  return status;
}

void run_traffic(ac_transport *t, const traffic *what, traffic_result *result) {
  *result = (traffic_result){.hash = AC_HASH_BEGIN};
  for (int round = 0; round < what->rounds; round++) {
    if (run_round(t, what, round, result) != AC_OK) return;
    result->rounds++;
  }
}
