#include "window/overlap.h"

#include "core/integers.h"
#include "core/platform/clock.h"
#include "core/platform/threads.h"
#include "ranks/engine.h"
#include "window/lane.h"
#include "window/chunks.h"
#include "window/trainer.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* Seconds between two looks at what has come, while steps run: of so few transfers, and with more
 * of them longer, because each look asks for all. */
#define PAUSE 5e-4
enum { FEW = 64 };
enum { SIGNS_OF_LIFE = 64 }; /* of a thread without work, within a timeout */

static bool is_simulated(const ac_exchange *e) {
  return ac_transport_engine(e->transport)->simulated;
}

/* ---- the trainer's thread: gradients --------------------------------------------------------- */

static void set_steps(ac_overlap *o, int steps) {
  ac_monitor_lock(o->lock);
  o->steps = steps;
  o->moved = ac_clock();
  if (steps >= o->awaited) ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

static ac_status follow(void *user, int steps) {
  ac_overlap *o = user;
  if (!o->on) return AC_OK;
  if (o->marked[steps]) ac_lane_mark(o->lane, steps);
  set_steps(o, steps);
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
  if (!is_simulated(&trainer->exchange)) o->covered += fmax(o->waited - (ac_clock() - begun), 0);
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

/* ---- the trainer's thread: weights ----------------------------------------------------------- */

void ac_overlap_start_weights(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  ac_chunks_begin_weights(trainer);
  ac_monitor_lock(o->lock);
  o->arrived = 0;
  o->gathered = AC_OK;
  o->gathers = o->lent = o->owed = true;
  ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

ac_status ac_overlap_await_weights(ac_overlap *o, int64_t rounds) {
  ac_monitor_lock(o->lock);
  if (o->gathers && o->arrived < rounds) {
    const double begun = ac_clock();
    while (o->gathers && o->arrived < rounds) ac_monitor_wait(o->lock);
    o->blocked += ac_clock() - begun;
    o->waits++;
  }
  const ac_status status = o->gathers ? AC_OK : o->gathered;
  if (status != AC_OK) ac_error_restore(&o->gathered_error);
  ac_monitor_unlock(o->lock);
  return status;
}

ac_status ac_overlap_end_weights(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  const ac_status status = ac_overlap_await_weights(o, INT64_MAX);
  ac_monitor_lock(o->lock);
  o->lent = false;
  ac_monitor_unlock(o->lock);
  o->owed = false;
  return status;
}

bool ac_overlap_has_weights(ac_overlap *o) {
  ac_monitor_lock(o->lock);
  const bool has = !o->gathers;
  ac_monitor_unlock(o->lock);
  return has;
}

ac_status ac_overlap_meet(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  const double begun = ac_clock();
  ac_monitor_lock(o->lock);
  o->meets = true;
  ac_monitor_wake(o->lock);
  while (o->meets) ac_monitor_wait(o->lock);
  ac_monitor_unlock(o->lock);
  o->blocked += fmax(ac_clock() - begun - o->counted, 0);
  if (o->met != AC_OK) ac_error_restore(&o->met_error);
  return o->met;
}

/* In simulated time the transport has counted all, and steps take none. */
double ac_overlap_waited(const ac_trainer *trainer) {
  const ac_overlap *o = &trainer->exchange.overlap;
  return o->thread && !is_simulated(&trainer->exchange) ? o->blocked - o->covered : 0;
}

/* ---- the communication thread ---------------------------------------------------------------- */

typedef enum work { NOTHING, LEAVE, WEIGHTS, POINT, GRADIENTS } work;

static work work_of(const ac_overlap *o) {
  if (o->gathers) return WEIGHTS;
  if (o->meets) return POINT;
  if (o->works) return GRADIENTS;
  return o->leaves ? LEAVE : NOTHING;
}

/* What there is to do. Until there is something, it shows life if nobody else does. */
static work take_up(ac_exchange *e) {
  ac_overlap *o = &e->overlap;
  work next;
  ac_monitor_lock(o->lock);
  while ((next = work_of(o)) == NOTHING) {
    if (o->lent && !is_simulated(e)) {
      (void)ac_transport_show_life(e->transport); /* what fails is found by the next call */
      ac_monitor_wait_for(o->lock, ac_transport_timeout(e->transport) / SIGNS_OF_LIFE);
    } else {
      ac_monitor_wait(o->lock);
    }
  }
  ac_monitor_unlock(o->lock);
  return next;
}

static double waited_by(const ac_exchange *e) {
  return ac_transport_count(e->transport).waited;
}

static void come_to_point(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_overlap *o = &e->overlap;
  const double before = waited_by(e);
  const ac_status status = ac_exchange_point(trainer);
  const ac_kept_error error = ac_error_keep();
  ac_monitor_lock(o->lock);
  o->counted = waited_by(e) - before;
  o->met = status;
  o->met_error = error;
  o->meets = false;
  ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

/* Lets weights go on, after a short rest if nothing has come. In simulated time computing takes
 * none, so there it waits as without overlap. */
static ac_status try_to_go_on(ac_trainer *trainer, int idle, bool *done) {
  ac_exchange *e = &trainer->exchange;
  ac_overlap *o = &e->overlap;
  ac_engine *engine = ac_transport_engine(e->transport);
  bool all;
  AC_TRY(ac_chunks_advance_weights(trainer, done));
  ac_monitor_lock(o->lock);
  if (o->arrived != e->arriving.arrived) ac_monitor_wake(o->lock);
  o->arrived = e->arriving.arrived;
  ac_monitor_unlock(o->lock);
  if (*done) return AC_OK;
  if (engine->simulated) return ac_chunks_wait_for_weights(trainer);
  engine->functions->rest(engine, engine->functions->clock(engine) + PAUSE, idle);
  return ac_transport_test(e->transport, e->transfers, e->transfer_count, &all);
}

/* A failure stays. */
static ac_status go_on(ac_trainer *trainer, int idle, bool *done) {
  ac_arriving *w = &trainer->exchange.arriving;
  if (w->status == AC_OK) {
    w->status = try_to_go_on(trainer, idle, done);
    if (w->status != AC_OK) w->error = ac_error_keep();
  } else {
    ac_error_restore(&w->error);
  }
  return w->status;
}

static ac_status gather(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_overlap *o = &e->overlap;
  bool done = false;
  for (int idle = 0; !done; idle++) {
    const int64_t arrived = e->arriving.arrived;
    ac_monitor_lock(o->lock);
    const bool meets = o->meets && !is_simulated(e);
    ac_monitor_unlock(o->lock);
    if (meets) come_to_point(trainer);
    AC_TRY(go_on(trainer, idle, &done));
    if (meets || e->arriving.arrived != arrived) idle = 0;
  }
  return AC_OK;
}

ac_status ac_overlap_wait(ac_trainer *trainer, ac_transfer *list, int count) {
  ac_exchange *e = &trainer->exchange;
  bool all_weights = !e->overlap.gathering || is_simulated(e);
  for (int idle = 0; !all_weights && !ac_transfers_are_done(list, count); idle++)
    AC_TRY(go_on(trainer, idle, &all_weights));
  return ac_transport_wait(e->transport, list, count);
}

static void bring_weights(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  ac_engine *engine = ac_transport_engine(trainer->exchange.transport);
  o->gathering = o->at_work = engine->sleeps = true;
  const ac_status status = gather(trainer);
  o->gathering = o->at_work = engine->sleeps = false;
  const ac_kept_error error = ac_error_keep();
  ac_monitor_lock(o->lock);
  o->gathered = status;
  o->gathered_error = error;
  o->gathers = false;
  ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

/* Without the weights that it owes the others they do not come so far. */
static ac_status reduce(ac_trainer *trainer) {
  const ac_overlap *o = &trainer->exchange.overlap;
  if (o->gathered != AC_OK) ac_error_restore(&o->gathered_error);
  return o->gathered != AC_OK ? o->gathered : ac_chunks_reduce(trainer);
}

static void exchange_gradients(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_overlap *o = &e->overlap;
  ac_engine *engine = ac_transport_engine(e->transport);
  const double before = waited_by(e);
  o->at_work = engine->sleeps = true;
  const ac_status status = reduce(trainer);
  o->at_work = engine->sleeps = false;
  const ac_kept_error error = ac_error_keep();
  ac_monitor_lock(o->lock);
  o->waited = waited_by(e) - before;
  o->status = status;
  o->error = error;
  o->works = false;
  ac_monitor_wake(o->lock);
  ac_monitor_unlock(o->lock);
}

static void run(void *user) {
  ac_trainer *trainer = user;
  for (work next; (next = take_up(&trainer->exchange)) != LEAVE;) {
    if (next == WEIGHTS) bring_weights(trainer);
    else if (next == POINT) come_to_point(trainer);
    else exchange_gradients(trainer);
  }
}

/* Whether so many steps have run, after a short sleep if they have not; *stuck: none has ended for
 * so long that others should find this rank silent. In simulated time computing takes none, so
 * there the sleep is as long as the step. */
static ac_status have_run(ac_exchange *e, int steps, bool *done, bool *stuck) {
  ac_overlap *o = &e->overlap;
  const bool simulated = is_simulated(e);
  const double pause = PAUSE * (1 + e->transfer_count / FEW);
  ac_monitor_lock(o->lock);
  o->awaited = steps;
  if (o->steps < steps && simulated) ac_monitor_wait(o->lock);
  else if (o->steps < steps) ac_monitor_wait_for(o->lock, pause);
  *done = o->steps >= steps;
  *stuck = simulated || ac_clock() - o->moved > ac_transport_timeout(e->transport);
  ac_monitor_unlock(o->lock);
  if (!*done) return AC_OK;
  AC_TRY(ac_lane_has_run(o->lane, steps, done));
  if (!*done) ac_sleep(pause); /* it was handed to the device */
  return AC_OK;
}

/* Whether the micro-batch goes on when a round begins. */
static ac_status count_early(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  const int end = ac_sequence_end(&trainer->instance.plan->main);
  bool over;
  ac_monitor_lock(o->lock);
  over = o->steps >= end;
  o->moved = ac_clock(); /* what it has waited for has run */
  ac_monitor_unlock(o->lock);
  if (over) AC_TRY(ac_lane_has_run(o->lane, end, &over));
  ac_monitor_lock(o->lock);
  o->early += !over;
  ac_monitor_unlock(o->lock);
  return AC_OK;
}

/* The thread tests while it waits for steps: so it answers that this rank is busy. */
ac_status ac_overlap_await(ac_trainer *trainer, int64_t round) {
  ac_exchange *e = &trainer->exchange;
  const ac_overlap *o = &e->overlap;
  bool stuck, done, all;
  if (!o->on) return AC_OK;
  for (;;) {
    AC_TRY(have_run(e, o->final[round], &done, &stuck));
    if (done) return count_early(trainer);
    if (!stuck) AC_TRY(ac_transport_test(e->transport, e->transfers, e->transfer_count, &all));
  }
}

const ac_instance *ac_overlap_instance(const ac_trainer *trainer) {
  const ac_overlap *o = &trainer->exchange.overlap;
  return o->at_work ? ac_lane_instance(o->lane) : &trainer->instance;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static ac_status all_weights(void *trainer) {
  return ac_exchange_settle(trainer);
}

static ac_status weights_of_step(void *user, int step) {
  ac_overlap *o = &((ac_trainer *)user)->exchange.overlap;
  return o->owed && o->needed[step] ? ac_overlap_await_weights(o, o->needed[step]) : AC_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status find_steps(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_rounds *rounds = &trainer->exchange.rounds;
  const size_t tensors = (size_t)plan->graph->tensor_count + 1;
  const int steps = ac_sequence_end(&plan->main);
  ac_overlap *o = &trainer->exchange.overlap;
  int *touched = calloc(tensors, sizeof *touched);
  int64_t *rounds_of = calloc(tensors, sizeof *rounds_of);
  o->final = calloc((size_t)rounds->all + 1, sizeof *o->final);
  o->needed = calloc((size_t)steps + 1, sizeof *o->needed);
  o->marked = calloc((size_t)steps + 1, sizeof *o->marked);
  const bool room = touched && rounds_of && o->final && o->needed && o->marked;
  if (room) {
    ac_shards_touched(plan->graph, &plan->main, touched);
    ac_shards_arrivals(&plan->problem, rounds, rounds_of);
  }
  for (int64_t n = 0; room && n < rounds->all; n++) {
    o->final[n] = ac_shards_final(&plan->problem, touched, rounds, n);
    o->marked[o->final[n]] = true;
  }
  if (room) o->marked[steps] = true;
  for (int i = 0; room && i < steps; i++)
    o->needed[i] = ac_shards_needed(plan->graph, &plan->main.steps[i], rounds_of);
  free(touched);
  free(rounds_of);
  return room ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
}

ac_status ac_overlap_create(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  /* Its steps meet the other ranks themselves. */
  if (trainer->instance.plan->problem.in_sections) return AC_OK;
  if (ac_sharded_is_on(&trainer->exchange.sharded)) return AC_OK;
  AC_TRY(ac_lane_create(trainer, &o->lane));
  if (!o->lane) return AC_OK;
  AC_TRY(find_steps(trainer));
  o->lock = ac_monitor_create();
  if (!o->lock) return ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
  trainer->instance.follower = (ac_follower){follow, o};
  trainer->instance.arrival = (ac_arrival){all_weights, weights_of_step, trainer};
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
  ac_lane_free(o->lane);
  free(o->final);
  free(o->marked);
  free(o->needed);
}
