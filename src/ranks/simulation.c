/* Time of simulated ranks. See threads.h.
 *
 * A message leaves its sender when the sender's link is free, is on its way for a random time
 * around the latency, and comes in when the receiver's link is free; each link moves `bandwidth`
 * bytes per second. When the first byte of several messages has come, the link takes them in this
 * order. Short messages do not wait for long ones: networks move packets of all in turn.
 *
 * Time does not pass while a rank computes. Once all rest, it goes on to the first of: a rank's own
 * time to wake, or the first byte of a message. So what happens depends on seed and program alone.
 */
#include <math.h>
#include <stdio.h>

#include "core/random.h"
#include "ranks/threads.h"

#define LATENCY 1e-4                /* seconds, unless the caller gives them */
enum { SHORT = 4096 };              /* bytes of a message that fits a few packets */
enum { LARGEST_COPY = 256 * 1024 }; /* bytes of a message that may be copied when it is sent */
#define MEAN (25.0 / 16)            /* of a delay, in those times */
enum { DELAYS, COPIES };            /* streams of random numbers */

bool ac_simulation_sees(const ac_world *world, double time) {
  return time != HUGE_VAL && (!world->desc.seed || time <= world->now);
}

static ac_philox_block draw(ac_world_rank *rank, uint32_t stream) {
  const uint64_t number = (uint64_t)rank->drawn++;
  return ac_philox(rank->world->desc.seed, (uint32_t)number, (uint32_t)(number >> 32),
                   (uint32_t)rank->engine.rank, stream);
}

/* A quarter to seven quarters of a time, and one of sixteen takes ten times as long. */
static double delay(ac_world_rank *rank) {
  const ac_philox_block bits = draw(rank, DELAYS);
  const double latency = rank->world->desc.latency > 0 ? rank->world->desc.latency : LATENCY;
  if (rank->world->desc.steady) return latency;
  const double part = 0.25 + 1.5 * (double)ac_uniform24(bits.v[0]);
  return latency / MEAN * part * (bits.v[1] % 16 == 0 ? 10 : 1);
}

static double link_seconds(const ac_world *world, uint64_t size) {
  return world->desc.bandwidth > 0 ? (double)size / world->desc.bandwidth : 0;
}

ac_status ac_simulation_begin(ac_world_rank *rank, bool sends, int peer) {
  ac_world *world = rank->world;
  const ac_ranks_threads_desc *desc = &world->desc;
  const int self = rank->engine.rank;
  rank->begun++;
  rank->sent += sends;
  if (self == desc->stalled_rank && rank->begun == desc->stalled_at)
    ac_simulation_rest(rank, world->now + desc->stalled_seconds, true);
  if (sends && self == desc->lost_rank && rank->sent == desc->lost_at) rank->lost_peer = peer;
  if (self != desc->killed_rank || rank->begun != desc->killed_at) return AC_OK;
  rank->gone = rank->killed = true;
  world->present--;
  ac_world_detach(rank);
  ac_simulation_step(world);
  snprintf(rank->engine.why, sizeof rank->engine.why,
           "rank %d was killed at its message %lld, as the simulation asks", self,
           (long long)desc->killed_at);
  return AC_ERROR_STOPPED;
}

double ac_simulation_head(ac_world_rank *rank, int to, uint64_t size) {
  const ac_world *world = rank->world;
  const double way = delay(rank);
  if (rank->killed || rank->lost_peer == to) return HUGE_VAL;
  if (size <= SHORT) return world->now + way;
  const double leaves = fmax(world->now, rank->sends_until);
  rank->sends_until = leaves + link_seconds(world, size);
  return leaves + way;
}

bool ac_simulation_copies(ac_world_rank *rank, uint64_t size) {
  return (draw(rank, COPIES).v[0] & 1) && size <= LARGEST_COPY;
}

double ac_simulation_known(ac_world_rank *rank) {
  return rank->world->desc.seed ? rank->world->now + delay(rank) : 0;
}

void ac_simulation_expect(ac_world_rank *rank, double time) {
  if (!rank->working) rank->wakes = ac_world_earlier(rank->wakes, time);
}

void ac_simulation_add(ac_world_rank *to, ac_world_message *message) {
  message->next_coming = NULL;
  if (to->coming.last) to->coming.last->next_coming = message;
  else to->coming.first = message;
  to->coming.last = message;
  to->first_head = ac_world_earlier(to->first_head, message->head);
}

void ac_simulation_remove(ac_world_rank *to, const ac_world_message *message) {
  ac_world_message *before = NULL, *m = to->coming.first;
  for (; m && m != message; m = m->next_coming) before = m;
  if (!m) return; /* something of it has come */
  if (before) before->next_coming = m->next_coming;
  else to->coming.first = m->next_coming;
  if (to->coming.last == m) to->coming.last = before;
}

/* What the rank may see later than now; `until` else. */
static double next_event(const ac_world_rank *rank, double until) {
  const ac_world *world = rank->world;
  double next = until;
  if (world->ended_at > world->now) next = ac_world_earlier(next, world->ended_at);
  for (int q = 0; q < AC_WORLD_QUEUES; q++)
    for (const ac_world_message *m = rank->queues[q].first; m; m = m->next)
      if (m->arrives > world->now) next = ac_world_earlier(next, m->arrives);
  for (const ac_transfer *t = rank->engine.first; t; t = t->next) {
    const double closed = world->ranks[t->peer].closed_at;
    if (t->sends && t->engine && t->time > world->now) next = ac_world_earlier(next, t->time);
    if (closed > world->now) next = ac_world_earlier(next, closed);
  }
  return next;
}

void ac_simulation_rest(ac_world_rank *rank, double until, bool working) {
  ac_world *world = rank->world;
  rank->working = working;
  rank->wakes = working ? until : next_event(rank, until);
  rank->resting = true;
  world->resting++;
  ac_simulation_step(world);
  while (rank->resting) {
    ac_monitor_unlock(world->lock);
    ac_world_sleep(rank, 1);
    ac_monitor_lock(world->lock);
  }
  rank->working = false;
}

/* The first byte of messages has come: in their order the link takes them. */
static bool take_first_head(ac_world *world, ac_world_rank *to) {
  ac_world_message *first = NULL;
  double next = HUGE_VAL;
  for (ac_world_message *m = to->coming.first; m; m = m->next_coming) {
    next = ac_world_earlier(next, m->head);
    if (m->head > world->now) continue;
    if (!first || m->head < first->head || (m->head == first->head && m->from < first->from))
      first = m;
  }
  to->first_head = next;
  if (!first) return false;
  ac_simulation_remove(to, first);
  const bool is_short = first->size <= SHORT;
  first->arrives = (is_short ? first->head : fmax(first->head, to->reads_until)) +
                   link_seconds(world, first->size);
  if (!is_short) to->reads_until = first->arrives;
  ac_simulation_expect(to, first->arrives);
  return true;
}

static double next_time(const ac_world *world) {
  double next = HUGE_VAL;
  for (int r = 0; r < world->size; r++) {
    const ac_world_rank *rank = &world->ranks[r];
    if (!rank->gone) next = ac_world_earlier(next, ac_world_earlier(rank->wakes, rank->first_head));
  }
  return next;
}

void ac_simulation_step(ac_world *world) {
  if (!world->present || world->resting < world->present) return;
  while (world->resting == world->present) {
    world->now = fmax(world->now, next_time(world));
    for (int r = 0; r < world->size; r++)
      if (world->ranks[r].first_head <= world->now)
        while (take_first_head(world, &world->ranks[r])) continue;
    for (int r = 0; r < world->size; r++) {
      ac_world_rank *rank = &world->ranks[r];
      if (rank->gone || rank->wakes > world->now) continue;
      rank->resting = false;
      world->resting--;
      ac_world_ring(rank);
    }
  }
}
