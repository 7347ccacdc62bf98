#include "window/sharded.h"

#include "core/error.h"
#include "window/chunks.h"
#include "window/trainer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- rounds ---------------------------------------------------------------------------------- */

static ac_status end_round(ac_trainer *trainer) {
  return ac_chunks_end_round(trainer, trainer->exchange.sharded.ended++);
}

static ac_status end_rounds(ac_trainer *trainer) {
  const ac_sharded *s = &trainer->exchange.sharded;
  while (s->ended < s->begun) AC_TRY(end_round(trainer));
  return AC_OK;
}

/* Begins the rounds that may begin after so many steps, and ends what has come. */
static ac_status advance(ac_trainer *trainer, int steps) {
  ac_sharded *s = &trainer->exchange.sharded;
  while (s->begun < trainer->exchange.rounds.gradients && s->places[s->begun] <= steps) {
    if (s->begun == s->ended + AC_ROUNDS_AT_ONCE) AC_TRY(end_round(trainer));
    AC_TRY(ac_chunks_begin_round(trainer, s->begun++));
  }
  for (bool done = true; s->ended < s->begun;) {
    AC_TRY(ac_chunks_test_round(trainer, s->ended, &done));
    if (!done) return AC_OK;
    AC_TRY(end_round(trainer));
  }
  return AC_OK;
}

static ac_status advance_to_end(ac_trainer *trainer) {
  AC_TRY(advance(trainer, INT_MAX));
  return end_rounds(trainer);
}

ac_status ac_sharded_follow(void *user, int steps) {
  ac_trainer *trainer = user;
  if (!trainer->exchange.sharded.on) return AC_OK;
  return ac_exchange_end_transfers(&trainer->exchange, advance(trainer, steps));
}

static ac_status exchange_rest(ac_trainer *trainer) {
  return ac_exchange_end_transfers(&trainer->exchange, advance_to_end(trainer));
}

/* The rest of a micro-batch's rounds, without anything of this rank. */
static ac_status exchange_nothing(ac_trainer *trainer) {
  trainer->exchange.empty = true;
  return exchange_rest(trainer);
}

/* *ranks: how many have a micro-batch. */
static ac_status meet(ac_trainer *trainer, bool has_one, double *ranks) {
  ac_exchange *e = &trainer->exchange;
  e->empty = !has_one;
  e->sharded.begun = e->sharded.ended = 0;
  memset(e->squares, 0,
         (size_t)trainer->instance.plan->graph->parameter_count * sizeof *e->squares);
  *ranks = has_one;
  return ac_exchange_sum(trainer, AC_MEET_PIECE, AC_OK, ranks, 1);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void leave(ac_trainer *trainer) {
  const ac_kept_error own = ac_error_keep();
  if (!trainer->exchange.told) exchange_nothing(trainer);
  ac_error_restore(&own);
}

ac_status ac_sharded_run(ac_trainer *trainer, bool fresh) {
  ac_exchange *e = &trainer->exchange;
  double ranks;
  e->measures = fresh && ac_watchers_want_first(&trainer->window.view);
  AC_TRY(meet(trainer, true, &ranks));
  e->sharded.on = true;
  ac_status status = ac_instance_run(&trainer->instance, &trainer->instance.main, fresh);
  e->sharded.on = false;
  if (status == AC_OK) status = exchange_rest(trainer);
  else leave(trainer);
  e->sharded.summed++;
  return status;
}

ac_status ac_sharded_finish(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  double ranks;
  if (!ac_sharded_is_on(&e->sharded)) return AC_OK;
  for (;;) {
    AC_TRY(meet(trainer, false, &ranks));
    if (ranks == 0) return AC_OK;
    AC_TRY(exchange_nothing(trainer));
    e->sharded.summed++;
  }
}

ac_status ac_sharded_discard(ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  return e->told || e->reduced ? AC_OK : ac_sharded_finish(trainer);
}

int64_t ac_sharded_first(const ac_trainer *trainer, int tensor) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_tensor *sum = ac_tensor_at(plan->graph, tensor);
  if (!plan->way->shards || sum->role != AC_ROLE_GRADIENT) return 0;
  return plan->problem.parameters[sum->parameter].own_first;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void find_handles(ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  const ac_sequence *sequence = &instance->plan->main;
  for (int i = 0; i < sequence->value_count; i++) {
    const int tensor = sequence->values[i].tensor;
    if (tensor >= 0 && ac_tensor_at(instance->plan->graph, tensor)->role == AC_ROLE_GRADIENT)
      trainer->exchange.sharded.handles[tensor] =
          instance->main.handles[ac_sequence_root(sequence, i)];
  }
}

ac_status ac_sharded_create(ac_trainer *trainer) {
  ac_sharded *s = &trainer->exchange.sharded;
  const ac_plan *plan = trainer->instance.plan;
  const ac_rounds *rounds = &trainer->exchange.rounds;
  const size_t tensors = (size_t)plan->graph->tensor_count + 1;
  if (!plan->way->shards) return AC_OK;
  int *touched = calloc(tensors, sizeof *touched);
  s->handles = calloc(tensors, sizeof *s->handles);
  s->places = calloc((size_t)rounds->gradients + 1, sizeof *s->places);
  const bool room = touched && s->handles && s->places;
  if (room) {
    ac_shards_touched(plan->graph, &plan->main, touched);
    ac_shards_places(&plan->problem, touched, rounds, s->places);
    find_handles(trainer);
    trainer->instance.follower = (ac_follower){ac_sharded_follow, trainer};
  }
  free(touched);
  return room ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
}

void ac_sharded_free(ac_trainer *trainer) {
  free(trainer->exchange.sharded.places);
  free(trainer->exchange.sharded.handles);
}
