/* A window's gradients, as a caller reads and writes them: sums of losses without the loss scale,
 * with which the device holds them; or, while an update is decided, of the mean loss. What is
 * written while it is decided is measured anew (update.c). */
#include "core/error.h"
#include "window/trainer.h"

static ac_status check_kept(const ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  if (plan->way->keeps || (plan->way->shards && trainer->busy.deciding)) return AC_OK;
  if (plan->way->shards)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: gradients are divided among ranks, and each reads or writes its part "
                   "in a function that decides on the update (ac_trainer_desc.decide)");
  return ac_fail(AC_ERROR_STATE,
                 "trainer: the plan keeps no gradients (%s); plan with AC_GRADIENTS_BUFFER to read "
                 "or write them",
                 plan->way->constant);
}

static ac_status check_part(const ac_trainer *trainer, int index, int64_t first, int64_t count) {
  const ac_plan *plan = trainer->instance.plan;
  int64_t own, owned;
  if (!plan->way->shards || !count) return AC_OK;
  ac_shards_own(&plan->problem, index, &own, &owned);
  if (first >= own && first + count <= own + owned) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: of the gradient of parameter %d this rank keeps %lld elements from %lld "
                 "on, not %lld from %lld on (ac_trainer_gradient_part)",
                 index, (long long)owned, (long long)own, (long long)count, (long long)first);
}

ac_status ac_trainer_gradient_part(const ac_trainer *trainer, int index, int64_t *first,
                                   int64_t *count) {
  AC_REQUIRE(trainer, first, count);
  const ac_plan *plan = trainer->instance.plan;
  *first = *count = 0;
  AC_TRY(ac_instance_check_range(&trainer->instance, index, 0, 0));
  if (!ac_trainer_trains(trainer, index)) return AC_OK;
  if (plan->way->shards) ac_shards_own(&plan->problem, index, first, count);
  else *count = ac_shape_count(&ac_tensor_at(plan->graph, plan->graph->parameters[index])->shape);
  return AC_OK;
}

/* The tensor of a parameter's gradient, with something in it. */
static ac_status find_gradient(const ac_trainer *trainer, int index, int64_t first, int64_t count,
                               int *gradient) {
  const ac_plan *plan = trainer->instance.plan;
  if (!trainer->busy.deciding) AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  *gradient = plan->problem.parameters[index].gradient;
  if (*gradient < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "parameter %d is frozen or the loss does not depend on it",
                   index);
  AC_TRY(check_kept(trainer));
  AC_TRY(check_part(trainer, index, first, count));
  if (trainer->run.samples > 0) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: nothing was accumulated since the last update");
}

static ac_status read_gradient(ac_trainer *trainer, int gradient, int64_t first, int64_t count,
                               double divisor, float *data) {
  const ac_instance *instance = &trainer->instance;
  first -= ac_sharded_first(trainer, gradient);
  AC_TRY(ac_instance_read_floats(instance, instance->persistent[gradient],
                                 ac_tensor_at(instance->plan->graph, gradient)->dtype, first, count,
                                 data));
  for (int64_t i = 0; divisor != 1 && i < count; i++) data[i] = (float)((double)data[i] / divisor);
  return AC_OK;
}

ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                  float *data) {
  int gradient;
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(find_gradient(trainer, index, first, count, &gradient));
  const ac_exchange *e = &trainer->exchange;
  if (!ac_exchange_is_alone(e) && e->reduced && !e->gathered && trainer->instance.plan->way->keeps)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: each rank has its part of the window's sum of gradients; all of it is "
                   "read in a function that decides on the update (ac_trainer_desc.decide)");
  return read_gradient(trainer, gradient, first, count, (double)trainer->instance.run.loss_scale,
                       data);
}

ac_status ac_trainer_get_mean_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                       float *data) {
  int gradient;
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(find_gradient(trainer, index, first, count, &gradient));
  if (!trainer->busy.deciding)
    return ac_fail(AC_ERROR_STATE, "trainer: the mean of a window's gradients is known only while "
                                   "its update is being decided");
  if (!(trainer->window.reduced_weight > 0))
    return ac_fail(AC_ERROR_STATE, "trainer: the window weighs nothing, so it has no mean");
  return read_gradient(trainer, gradient, first, count,
                       (double)trainer->instance.run.loss_scale * trainer->window.reduced_weight,
                       data);
}

/* Writes through a small buffer. */
static ac_status write_gradient(ac_instance *instance, int gradient, int64_t first, int64_t count,
                                const float *data) {
  float piece[4096];
  const int64_t most = sizeof piece / sizeof *piece;
  const float scale = instance->run.loss_scale;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t n = count - done < most ? count - done : most;
    for (int64_t i = 0; i < n; i++) piece[i] = data[done + i] * scale;
    AC_TRY(ac_instance_write_floats(instance, gradient, first + done, n, piece));
  }
  return AC_OK;
}

/* Gradients that somebody has written say nothing of how much those of samples differ. */
ac_status ac_trainer_set_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                  const float *data) {
  int gradient;
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(find_gradient(trainer, index, first, count, &gradient));
  if (!ac_exchange_is_alone(&trainer->exchange) && !trainer->busy.deciding)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: where ranks share out windows, gradients can be written only while an "
                   "update is decided, by all ranks alike");
  if (!trainer->busy.deciding) AC_TRY(ac_trainer_check_usable(trainer));
  if (!count) return AC_OK; /* there may be no data to point to */
  ac_watchers_leave(&trainer->run);
  trainer->window.rewritten = true;
  first -= ac_sharded_first(trainer, gradient);
  const ac_status status = write_gradient(&trainer->instance, gradient, first, count, data);
  if (status != AC_OK) trainer->window.broken = true;
  return status;
}
