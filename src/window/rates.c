/* What the schedule makes of the update that comes next: its rate, and its momentum. */
#include "window/trainer.h"

/* A schedule counts from the update at which it begins, which is 0 except in a range test. */
static int64_t scheduled_update(const ac_trainer *trainer) {
  return trainer->run.updates - trainer->schedule_begin;
}

double ac_trainer_rate(const ac_trainer *trainer) {
  if (!trainer) return 0;
  const ac_schedule *schedule = &trainer->desc.schedule;
  const int64_t reductions = AC_WATCHED(&trainer->run, plateau)->reductions;
  double rate = ac_schedule_reduced_rate(schedule, reductions, scheduled_update(trainer)) *
                ac_schedule_scale(schedule, trainer->run.batch);
  if (trainer->desc.rate) rate = trainer->desc.rate(trainer->desc.user, trainer->run.updates, rate);
  return rate * AC_WATCHED(&trainer->run, spikes)->rate;
}

ac_optimizer_desc ac_trainer_optimizer(const ac_trainer *trainer) {
  ac_optimizer_desc optimizer = trainer->desc.optimizer;
  const double moved = ac_schedule_momentum(&trainer->desc.schedule, scheduled_update(trainer));
  if (moved >= 0) optimizer.momentum = optimizer.beta1 = moved;
  return optimizer;
}

double ac_trainer_momentum(const ac_trainer *trainer) {
  const ac_optimizer_row *row = ac_optimizer_row_of(trainer->desc.optimizer.kind);
  return row->moves ? row->moves(&trainer->window.optimizer) : 0;
}
