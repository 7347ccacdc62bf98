#include "ranks/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/processors.h"

enum { NOTICE_TAG = 2 * AC_TRANSPORT_TAGS };
enum { WAITS, TAKEN }; /* ac_transfer.engine of a send */

static ac_world_rank *rank_of(ac_engine *engine) {
  return (ac_world_rank *)engine;
}

static ac_status fail(ac_world_rank *rank, ac_status status, const char *sentence) {
  snprintf(rank->engine.why, sizeof rank->engine.why, "%s", sentence);
  return status;
}

/* ---- bells ----------------------------------------------------------------------------------- */

void ac_world_ring(ac_world_rank *rank) {
  ac_monitor_lock(rank->bell);
  rank->rung = true;
  ac_monitor_wake(rank->bell);
  ac_monitor_unlock(rank->bell);
}

void ac_world_sleep(ac_world_rank *rank, double seconds) {
  const double until = ac_clock() + seconds;
  ac_monitor_lock(rank->bell);
  for (double left = seconds; !rank->rung && left > 0; left = until - ac_clock())
    ac_monitor_wait_for(rank->bell, left);
  rank->rung = false;
  ac_monitor_unlock(rank->bell);
}

/* ---- messages -------------------------------------------------------------------------------- */

static ac_world_message *take_spare(ac_world *world) {
  ac_world_message *message = world->spare;
  if (!message) return malloc(sizeof *message);
  world->spare = message->next;
  return message;
}

static void put_back(ac_world *world, ac_world_message *message) {
  free(message->copy);
  message->copy = NULL;
  message->next = world->spare;
  world->spare = message;
}

static ac_world_queue *queue_of(ac_world_rank *to, int from, uint32_t tag) {
  return &to->queues[tag == NOTICE_TAG ? AC_WORLD_SENDERS : from % AC_WORLD_SENDERS];
}

static void append(ac_world_rank *to, ac_world_message *message) {
  ac_world_queue *queue = queue_of(to, message->from, message->tag);
  message->next = NULL;
  if (queue->last) queue->last->next = message;
  else queue->first = message;
  queue->last = message;
  if (to->world->desc.seed) ac_simulation_add(to, message);
  else ac_world_ring(to);
}

static void unlink_message(ac_world_rank *to, ac_world_message *message) {
  ac_world_queue *queue = queue_of(to, message->from, message->tag);
  ac_world_message *before = NULL;
  for (ac_world_message *m = queue->first; m != message; m = m->next) before = m;
  if (before) before->next = message->next;
  else queue->first = message->next;
  if (queue->last == message) queue->last = before;
}

static ac_status send_now(ac_world_rank *rank, ac_transfer *transfer) {
  ac_world *world = rank->world;
  ac_world_message *message = take_spare(world);
  if (!message) return fail(rank, AC_ERROR_MEMORY, "no memory for a message");
  *message = (ac_world_message){.from = rank->engine.rank,
                                .tag = transfer->tag,
                                .size = transfer->size,
                                .bytes = transfer->bytes,
                                .send = transfer};
  if (world->desc.seed) {
    message->head = ac_simulation_head(rank, transfer->peer, transfer->size);
    message->arrives = HUGE_VAL;
    if (ac_simulation_copies(rank, transfer->size)) {
      message->copy = malloc(transfer->size + 1);
      if (!message->copy) {
        put_back(world, message);
        return fail(rank, AC_ERROR_MEMORY, "no memory for a copy of a message");
      }
      if (transfer->size) memcpy(message->copy, transfer->bytes, transfer->size);
      message->bytes = message->copy;
      message->send = NULL;
      ac_engine_remove(&rank->engine, transfer);
    }
  }
  if (message->head == HUGE_VAL) put_back(world, message);
  else append(&world->ranks[transfer->peer], message);
  return AC_OK;
}

static ac_status begin(ac_engine *engine, ac_transfer *transfer) {
  ac_world_rank *rank = rank_of(engine);
  ac_monitor_lock(rank->world->lock);
  ac_status status = AC_OK;
  if (rank->world->desc.seed) status = ac_simulation_begin(rank, transfer->sends, transfer->peer);
  if (status == AC_OK && transfer->sends) status = send_now(rank, transfer);
  ac_monitor_unlock(rank->world->lock);
  return status;
}

/* Copies without the lock. */
static void read_message(ac_world_rank *rank, ac_world_message *message, ac_transfer *transfer) {
  ac_world *world = rank->world;
  ac_world_rank *from = &world->ranks[message->from];
  unlink_message(rank, message);
  from->being_read++;
  ac_monitor_unlock(world->lock);
  if (message->size) memcpy(transfer->bytes, message->bytes, message->size);
  ac_monitor_lock(world->lock);
  from->being_read--;
  const double time = ac_simulation_known(rank); /* drawn whether the sender still waits or not */
  if (message->send) {
    message->send->engine = TAKEN;
    message->send->time = time;
    if (world->desc.seed) ac_simulation_expect(from, message->send->time);
    else ac_world_ring(from);
  }
  if (from->detaching) ac_monitor_wake(world->lock);
  put_back(world, message);
  ac_engine_remove(&rank->engine, transfer);
}

static ac_world_message *find(ac_world_rank *rank, const ac_transfer *transfer) {
  ac_world_message *m = queue_of(rank, transfer->peer, transfer->tag)->first;
  while (m && (m->from != transfer->peer || m->tag != transfer->tag)) m = m->next;
  return m;
}

static ac_status fail_by_size(ac_world_rank *rank, const ac_world_message *message,
                              const ac_transfer *transfer) {
  char text[AC_ENGINE_WHY];
  snprintf(text, sizeof text,
           "rank %d expects %llu bytes from rank %d with tag %u, which has sent %llu",
           rank->engine.rank, (unsigned long long)transfer->size, transfer->peer, transfer->tag,
           (unsigned long long)message->size);
  return fail(rank, AC_ERROR_FORMAT, text);
}

static ac_status fail_by_closed(ac_world_rank *rank, const ac_transfer *transfer) {
  char text[AC_ENGINE_WHY];
  snprintf(text, sizeof text, "rank %d has ended, and rank %d still has a message %s it",
           transfer->peer, rank->engine.rank, transfer->sends ? "for" : "to get from");
  return fail(rank, AC_ERROR_IO, text);
}

/* One transfer, if it can go on: `done`, and then all others must be looked at anew, because their
 * messages may have come in the meantime. */
static ac_status advance_one(ac_world_rank *rank, ac_transfer *transfer, bool *done) {
  const ac_world *world = rank->world;
  const bool closed = ac_simulation_sees(world, world->ranks[transfer->peer].closed_at);
  *done = false;
  if (transfer->sends) {
    *done = transfer->engine == TAKEN && ac_simulation_sees(world, transfer->time);
    if (*done) ac_engine_remove(&rank->engine, transfer);
    else if (closed && transfer->engine != TAKEN) return fail_by_closed(rank, transfer);
    return AC_OK;
  }
  ac_world_message *message = find(rank, transfer);
  if (!message) return closed ? fail_by_closed(rank, transfer) : AC_OK;
  if (!ac_simulation_sees(world, message->arrives)) return AC_OK;
  if (message->size != transfer->size) return fail_by_size(rank, message, transfer);
  read_message(rank, message, transfer);
  *done = true;
  return AC_OK;
}

static ac_status advance(ac_engine *engine) {
  ac_world_rank *rank = rank_of(engine);
  ac_world *world = rank->world;
  ac_status status = AC_OK;
  ac_monitor_lock(world->lock);
  if (ac_simulation_sees(world, world->ended_at)) status = fail(rank, AC_ERROR_STOPPED, world->why);
  ac_transfer *transfer = engine->first;
  while (status == AC_OK && transfer) {
    ac_transfer *next = transfer->next;
    bool done;
    status = advance_one(rank, transfer, &done);
    transfer = done ? engine->first : next;
  }
  ac_monitor_unlock(world->lock);
  return status;
}

static double clock_of(ac_engine *engine) {
  const ac_world_rank *rank = rank_of(engine);
  if (!rank->world->desc.seed) return ac_clock();
  ac_monitor_lock(rank->world->lock);
  const double now = rank->world->now;
  ac_monitor_unlock(rank->world->lock);
  return now;
}

static void rest(ac_engine *engine, double until, int idle) {
  (void)idle;
  ac_world_rank *rank = rank_of(engine);
  if (!rank->world->desc.seed) {
    ac_world_sleep(rank, until - ac_clock());
    return;
  }
  ac_monitor_lock(rank->world->lock);
  ac_simulation_rest(rank, until, false);
  ac_monitor_unlock(rank->world->lock);
}

static ac_status work(ac_engine *engine, double seconds) {
  ac_world_rank *rank = rank_of(engine);
  if (!rank->world->desc.seed) return AC_OK;
  ac_monitor_lock(rank->world->lock);
  ac_simulation_rest(rank, rank->world->now + seconds, true);
  ac_monitor_unlock(rank->world->lock);
  return AC_OK;
}

/* ---- notices --------------------------------------------------------------------------------- */

static void notify(ac_engine *engine, int to, const ac_notice *notice) {
  ac_world_rank *rank = rank_of(engine);
  ac_world *world = rank->world;
  ac_monitor_lock(world->lock);
  ac_world_message *message = take_spare(world);
  if (message) {
    *message = (ac_world_message){.from = engine->rank, .tag = NOTICE_TAG, .notice = *notice};
    if (world->desc.seed) {
      message->head = ac_simulation_head(rank, to, 0);
      message->arrives = HUGE_VAL;
    }
    if (message->head == HUGE_VAL) put_back(world, message);
    else append(&world->ranks[to], message);
  }
  ac_monitor_unlock(world->lock);
}

/* The earliest, and among those of one time that of the lowest rank. */
static bool notified(ac_engine *engine, int *from, ac_notice *notice) {
  ac_world_rank *rank = rank_of(engine);
  ac_world *world = rank->world;
  ac_monitor_lock(world->lock);
  ac_world_message *found = NULL;
  for (ac_world_message *m = queue_of(rank, 0, NOTICE_TAG)->first; m; m = m->next) {
    if (!ac_simulation_sees(world, m->arrives)) continue;
    if (!found || m->arrives < found->arrives ||
        (m->arrives == found->arrives && m->from < found->from))
      found = m;
  }
  if (found) {
    *from = found->from;
    *notice = found->notice;
    unlink_message(rank, found);
    put_back(world, found);
  }
  ac_monitor_unlock(world->lock);
  return found != NULL;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Without memory for a copy it is as if the message had never come. */
static void detach_message(ac_world_rank *to, ac_world_message *m) {
  m->send = NULL;
  m->copy = malloc(m->size + 1);
  if (m->copy && m->size) memcpy(m->copy, m->bytes, m->size);
  m->bytes = m->copy;
  if (m->copy) return;
  unlink_message(to, m);
  ac_simulation_remove(to, m);
  put_back(to->world, m);
}

void ac_world_detach(ac_world_rank *rank) {
  ac_world *world = rank->world;
  const int own = rank->engine.rank;
  rank->detaching = true;
  while (rank->being_read) ac_monitor_wait(world->lock);
  rank->detaching = false;
  for (int r = 0; r < world->size; r++) {
    ac_world_rank *to = &world->ranks[r];
    for (ac_world_message *m = queue_of(to, own, 0)->first, *next; m; m = next) {
      next = m->next;
      if (m->from == own && m->send) detach_message(to, m);
    }
  }
}

static void cancel(ac_engine *engine) {
  ac_world_rank *rank = rank_of(engine);
  ac_monitor_lock(rank->world->lock);
  ac_world_detach(rank);
  engine->first = engine->last = NULL;
  ac_monitor_unlock(rank->world->lock);
}

static void tell_all(ac_world_rank *rank, double time) {
  ac_world *world = rank->world;
  for (int r = 0; r < world->size; r++) {
    if (r == rank->engine.rank) continue;
    if (world->desc.seed) ac_simulation_expect(&world->ranks[r], time);
    else ac_world_ring(&world->ranks[r]);
  }
}

static void end_all(ac_engine *engine, const char *why) {
  ac_world_rank *rank = rank_of(engine);
  ac_world *world = rank->world;
  ac_monitor_lock(world->lock);
  const double time = ac_simulation_known(rank);
  rank->has_ended = true;
  /* Of several the first, and at one time that of the lowest rank. */
  if (!rank->killed &&
      (time < world->ended_at || (time == world->ended_at && engine->rank < world->ended_by))) {
    world->ended_at = time;
    world->ended_by = engine->rank;
    snprintf(world->why, sizeof world->why, "rank %d has ended the run: %s", engine->rank, why);
    tell_all(rank, time);
  }
  ac_monitor_unlock(world->lock);
}

static void free_messages(ac_world_message *first) {
  for (ac_world_message *m = first, *next; m; m = next) {
    next = m->next;
    free(m->copy);
    free(m);
  }
}

static void world_free(ac_world *world) {
  for (int r = 0; world->ranks && r < world->size; r++) {
    for (int q = 0; q < AC_WORLD_QUEUES; q++) free_messages(world->ranks[r].queues[q].first);
    ac_monitor_free(world->ranks[r].bell);
  }
  free_messages(world->spare);
  ac_monitor_free(world->lock);
  free(world->ranks);
  free(world);
}

static void close_rank(ac_engine *engine, bool in_order) {
  (void)in_order;
  ac_world_rank *rank = rank_of(engine);
  ac_world *world = rank->world;
  ac_monitor_lock(world->lock);
  if (!rank->gone) {
    rank->gone = true;
    world->present--;
    ac_world_detach(rank);
    if (!rank->has_ended) {
      rank->closed_at = ac_simulation_known(rank);
      tell_all(rank, rank->closed_at);
    }
    if (world->desc.seed) ac_simulation_step(world);
  }
  const bool last = --world->open == 0;
  ac_monitor_unlock(world->lock);
  if (last) world_free(world);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const ac_engine_functions functions = {
    .begin = begin,
    .advance = advance,
    .rest = rest,
    .clock = clock_of,
    .notify = notify,
    .notified = notified,
    .work = work,
    .cancel = cancel,
    .end_all = end_all,
    .close = close_rank,
};

static bool prepare(ac_world *world) {
  world->lock = ac_monitor_create();
  world->ranks = calloc((size_t)world->size, sizeof *world->ranks);
  if (!world->lock || !world->ranks) return false;
  for (int r = 0; r < world->size; r++) {
    ac_world_rank *rank = &world->ranks[r];
    *rank = (ac_world_rank){
        .engine = {.functions = &functions,
                   .rank = r,
                   .size = world->size,
                   .local_rank = r,
                   .local_size = world->size,
                   .processors = (double)ac_processor_count() / world->size,
                   .simulated = world->desc.seed != 0},
        .world = world,
        .bell = ac_monitor_create(),
        .closed_at = HUGE_VAL,
        .first_head = HUGE_VAL,
        .lost_peer = -1,
    };
    if (!rank->bell) return false;
    snprintf(rank->engine.name, sizeof rank->engine.name, "%s",
             world->size > 1 ? "threads" : "alone");
  }
  return true;
}

ac_status ac_threads_create(ac_engine **engines, int count, const ac_ranks_threads_desc *desc) {
  ac_world *world = calloc(1, sizeof *world);
  if (!world) return ac_fail(AC_ERROR_MEMORY, "no memory for %d ranks", count);
  *world = (ac_world){
      .size = count, .open = count, .present = count, .ended_at = HUGE_VAL, .desc = *desc};
  if (!prepare(world)) {
    world_free(world);
    return ac_fail(AC_ERROR_MEMORY, "no memory for %d ranks", count);
  }
  for (int r = 0; r < count; r++) engines[r] = &world->ranks[r].engine;
  return AC_OK;
}
