#include "window/overlap.h"

#include "core/platform/clock.h"
#include "core/platform/threads.h"
#include "ranks/engine.h"
#include "window/chunks.h"
#include "window/trainer.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* Seconds between two looks at what has come, while steps run: of so few transfers, and with more
 * of them longer, because each look asks for all. */
#define PAUSE 5e-4
enum { FEW = 64 };

/* ---- the trainer's thread -------------------------------------------------------------------- */

static void set_steps(ac_overlap *o, int steps) {
  ac_monitor_lock(o->lock);
  o->steps = steps;
  o->moved = ac_clock();
  if (steps >= o->awaited) ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

static ac_status follow(void *user, int steps) {
  ac_overlap *o = user;
  if (o->on) set_steps(o, steps);
  return AC_OK;
}

void ac_overlap_start(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  ac_monitor_lock(o->lock);
  o->steps = o->awaited = 0;
  o->moved = ac_clock();
  o->status = AC_OK;
  o->works = o->on = true;
  ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

ac_status ac_overlap_end(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  const double begun = ac_clock();
  set_steps(o, INT_MAX);
  ac_monitor_lock(o->lock);
  while (o->works) ac_monitor_wait(o->lock);
  ac_monitor_unlock(o->lock);
  o->on = false;
  if (!ac_transport_engine(trainer->exchange.transport)->simulated)
    o->covered += fmax(o->waited - (ac_clock() - begun), 0);
  if (o->status != AC_OK) ac_error_restore(&o->error);
  return o->status;
}

ac_status ac_overlap_check(ac_overlap *o) {
  ac_monitor_lock(o->lock);
  const ac_status status = o->works ? AC_OK : o->status;
  if (status != AC_OK) ac_error_restore(&o->error);
  ac_monitor_unlock(o->lock);
  return status;
}

/* ---- the communication thread ---------------------------------------------------------------- */

/* Whether there is something to exchange; false: the thread is to end. */
static bool take_up(ac_overlap *o) {
  ac_monitor_lock(o->lock);
  while (!o->works && !o->leaves) ac_monitor_wait(o->lock);
  const bool works = o->works;
  ac_monitor_unlock(o->lock);
  return works;
}

static void run(void *user) {
  ac_trainer *trainer = user;
  ac_overlap *o = &trainer->exchange.overlap;
  while (take_up(o)) {
    ac_engine *engine = ac_transport_engine(trainer->exchange.transport);
    const double before = ac_transport_count(trainer->exchange.transport).waited;
    engine->sleeps = true;
    const ac_status status = ac_chunks_reduce(trainer);
    engine->sleeps = false;
    const ac_kept_error error = ac_error_keep();
    ac_monitor_lock(o->lock);
    o->waited = ac_transport_count(trainer->exchange.transport).waited - before;
    o->status = status;
    o->error = error;
    o->works = false;
    ac_monitor_wake(o->lock);
    ac_monitor_unlock(o->lock);
  }
}

/* Whether so many steps have run, after a short sleep if they have not; *stuck: none has ended for
 * so long that others should find this rank silent. In simulated time computing takes none, so
 * there the sleep is as long as the step. */
static bool have_run(ac_overlap *o, const ac_transport *transport, int steps, int transfers,
                     bool *stuck) {
  const bool simulated = ac_transport_engine(transport)->simulated;
  ac_monitor_lock(o->lock);
  o->awaited = steps;
  if (o->steps < steps && simulated) ac_monitor_wait(o->lock);
  else if (o->steps < steps) ac_monitor_wait_for(o->lock, PAUSE * (1 + transfers / FEW));
  const bool done = o->steps >= steps;
  *stuck = simulated || ac_clock() - o->moved > ac_transport_timeout(transport);
  ac_monitor_unlock(o->lock);
  return done;
}

/* The thread tests while it waits for steps: so it answers that this rank is busy. */
ac_status ac_overlap_await(ac_trainer *trainer, int64_t round, int count) {
  ac_exchange *e = &trainer->exchange;
  ac_overlap *o = &e->overlap;
  bool stuck, done;
  if (!o->on) return AC_OK;
  while (!have_run(o, e->transport, o->final[round], count, &stuck))
    if (!stuck) AC_TRY(ac_transport_test(e->transport, e->transfers, count, &done));
  ac_monitor_lock(o->lock);
  o->early += o->steps < ac_sequence_end(&trainer->instance.plan->main);
  ac_monitor_unlock(o->lock);
  return AC_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status find_final(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_rounds *rounds = &trainer->exchange.rounds;
  ac_overlap *o = &trainer->exchange.overlap;
  int *touched = calloc((size_t)plan->graph->tensor_count + 1, sizeof *touched);
  o->final = calloc((size_t)rounds->all + 1, sizeof *o->final);
  const bool room = touched && o->final;
  if (room) ac_shards_touched(plan->graph, &plan->main, touched);
  for (int64_t n = 0; room && n < rounds->all; n++)
    o->final[n] = ac_shards_final(&plan->problem, touched, rounds, n);
  free(touched);
  return room ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
}

ac_status ac_overlap_create(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  if (!trainer->instance.device->backend->is_host) return AC_OK;
  /* Its steps meet the other ranks themselves. */
  if (trainer->instance.plan->problem.in_sections) return AC_OK;
  if (ac_sharded_is_on(&trainer->exchange.sharded)) return AC_OK;
  AC_TRY(find_final(trainer));
  o->lock = ac_monitor_create();
  if (!o->lock) return ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
  trainer->instance.follower = (ac_follower){follow, o};
  return ac_thread_start(&o->thread, run, trainer);
}

void ac_overlap_free(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  if (o->lock) {
    ac_monitor_lock(o->lock);
    o->leaves = true;
    ac_monitor_wake(o->lock);
    ac_monitor_unlock(o->lock);
  }
  ac_thread_join(o->thread);
  ac_monitor_free(o->lock);
  free(o->final);
}
