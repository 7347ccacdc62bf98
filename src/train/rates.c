/* What the schedule makes of the update that comes next: its rate, and its momentum. */
#include "core/error.h"
#include "train/trainer.h"

/* A schedule counts from the update at which it begins, which is 0 except in a range test. */
static int64_t scheduled_update(const ac_trainer *trainer) {
  return trainer->updates - trainer->schedule_begin;
}

double ac_trainer_rate(const ac_trainer *trainer) {
  if (!trainer) return 0;
  const ac_schedule *schedule = &trainer->desc.schedule;
  const int64_t reductions = trainer->plateau.reductions;
  double rate = ac_schedule_reduced_rate(schedule, reductions, scheduled_update(trainer)) *
                ac_schedule_scale(schedule, trainer->batch);
  if (trainer->desc.rate) rate = trainer->desc.rate(trainer->desc.user, trainer->updates, rate);
  return rate * trainer->spikes.rate;
}

ac_optimizer_desc ac_trainer_optimizer(const ac_trainer *trainer) {
  ac_optimizer_desc optimizer = trainer->desc.optimizer;
  const double moved = ac_schedule_momentum(&trainer->desc.schedule, scheduled_update(trainer));
  if (moved >= 0) optimizer.momentum = optimizer.beta1 = moved;
  return optimizer;
}

double ac_trainer_momentum(const ac_trainer *trainer) {
  const ac_optimizer_row *row = ac_optimizer_row_of(trainer->desc.optimizer.kind);
  return row->moves ? row->moves(&trainer->optimizer) : 0;
}

ac_status ac_trainer_observe_validation(ac_trainer *trainer, double loss) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_deciding(trainer));
  if (trainer->desc.schedule.kind != AC_SCHEDULE_PLATEAU)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: the schedule does not use validations; only AC_SCHEDULE_PLATEAU does");
  ac_plateau_observe(&trainer->plateau, &trainer->desc.schedule, loss);
  return AC_OK;
}
