/* What watchers read of a window (observe/watcher.h), and what callers read of watchers. */
#include "core/error.h"
#include "window/trainer.h"

#include <string.h>

bool ac_view_trains(const ac_window_view *view, int parameter) {
  return ac_trainer_trains(view->source, parameter);
}

double ac_view_squares(const ac_window_view *view, int parameter) {
  const ac_cell *cell = ac_plan_cell(view->plan, AC_ROLE_STATISTICS, parameter, 0);
  return ac_trainer_measure(view->source, cell).squares;
}

double ac_view_norm(const ac_window_view *view, int parameter) {
  return ac_trainer_gradient_norm(view->source, parameter);
}

ac_status ac_view_weights(const ac_window_view *view, int parameter, int64_t first, int64_t count,
                          float *data) {
  return ac_instance_read_parameter((ac_instance *)&view->source->instance, parameter, first, count,
                                    data);
}

ac_status ac_view_gradient(const ac_window_view *view, int parameter, int64_t first, int64_t count,
                           float *data) {
  return ac_trainer_get_gradient((ac_trainer *)view->source, parameter, first, count, data);
}

/* ---- what has come of it --------------------------------------------------------------------- */

ac_status ac_trainer_noise_scale(const ac_trainer *trainer, ac_noise_scale *result) {
  AC_REQUIRE(trainer, result);
  const ac_noise *noise = AC_WATCHED(&trainer->run, noise);
  *result = ac_noise_scale_of(&noise->averages, noise->count);
  return AC_OK;
}

ac_status ac_trainer_noise_scale_of(const ac_trainer *trainer, int index, ac_noise_scale *result) {
  AC_REQUIRE(trainer, result);
  static const ac_noise_averages none;
  const ac_noise_layers *layers = AC_WATCHED(&trainer->run, noise_layers);
  if (index < 0 || index >= layers->parameters)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: parameter %d of %d", index, layers->parameters);
  const bool known = layers->rows && ac_trainer_trains(trainer, index);
  *result =
      ac_noise_scale_of(known ? &layers->of[index].averages : &none, known ? layers->count : 0);
  return AC_OK;
}

ac_status ac_trainer_layer(const ac_trainer *trainer, int index, ac_layer_report *result) {
  AC_REQUIRE(trainer, result);
  const ac_layers *layers = AC_WATCHED(&trainer->run, layers);
  if (!layers->every)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: layers are not measured (ac_trainer_desc.layers_every)");
  AC_TRY(ac_instance_check_range(&trainer->instance, index, 0, 0));
  *result = ac_layers_report(layers, index);
  return AC_OK;
}

ac_status ac_trainer_get_growth(const ac_trainer *trainer,
                                ac_batch_stage stages[AC_MAX_BATCH_STAGES], int *count) {
  AC_REQUIRE(trainer, stages, count);
  const ac_growth *growth = AC_WATCHED(&trainer->run, growth);
  *count = growth->count;
  memcpy(stages, growth->stages, (size_t)*count * sizeof *stages);
  return AC_OK;
}

ac_status ac_trainer_observe_validation(ac_trainer *trainer, double loss) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_deciding(trainer));
  if (trainer->desc.schedule.kind != AC_SCHEDULE_PLATEAU)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: the schedule does not use validations; only AC_SCHEDULE_PLATEAU does");
  ac_plateau_observe(AC_WATCHED(&trainer->run, plateau), loss);
  return AC_OK;
}
