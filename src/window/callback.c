/* A caller's own optimizer (AC_OPTIMIZER_CALLBACK). The last op of an update that sees a
 * parameter's gradient (ops/update/clip.h) leaves it divided and clipped. After that op the caller
 * gets this gradient, the weights and the optimizer's state, part by part, on the host.
 *
 * If the device is the host, the caller gets the plan's own memory. Otherwise gradient, weights and
 * states are copied into `views`, which has room for the largest part, and weights and states are
 * copied back. States in host memory (plan/transfers.c) need no copy. */
#include "core/error.h"
#include "window/trainer.h"

#include <stdlib.h>

enum { VIEWS = 2 + AC_MAX_CALLBACK_STATES };

/* One of the things that are handed over. */
typedef struct view {
  void *handle;  /* on the device */
  char *on_host; /* where all of it is, or NULL: it is copied */
  bool written;
} view;

static int list_views(const ac_instance *instance, int parameter, const void *gradient,
                      view list[VIEWS]) {
  const ac_plan *plan = instance->plan;
  const bool is_host = plan->device->backend->is_host;
  const int states = plan->problem.desc.optimizer.callback_states;
  list[0] = (view){.handle = (void *)gradient};
  list[1] = (view){instance->persistent[plan->problem.parameters[parameter].tensor], NULL, true};
  for (int k = 0; k < states; k++) {
    const ac_cell *cell = ac_plan_cell(plan, AC_ROLE_STATE, parameter, k);
    const bool on_host = cell->space == AC_SPACE_HOST;
    list[2 + k] = (view){instance->persistent[cell->tensor],
                         on_host ? instance->transferred[cell->tensor].data : NULL, true};
  }
  for (int i = 0; i < 2 + states && is_host; i++) list[i].on_host = list[i].handle;
  return 2 + states;
}

/* Elements [first, first + count) of a view where the caller finds them; `room` moves on. */
static ac_status show(const ac_device *device, const view *v, int64_t first, int64_t count,
                      float **room, float **shown) {
  const uint64_t offset = (uint64_t)first * sizeof **room, bytes = (uint64_t)count * sizeof **room;
  *shown = v->on_host ? (float *)(void *)(v->on_host + offset) : *room;
  if (v->on_host) return AC_OK;
  *room += count;
  return device->backend->download(device->state, v->handle, offset, *shown, bytes);
}

static ac_status take_back(const ac_device *device, const view *v, int64_t first, int64_t count,
                           const float *shown) {
  if (v->on_host || !v->written) return AC_OK;
  return device->backend->upload(device->state, v->handle, (uint64_t)first * sizeof *shown, shown,
                                 (uint64_t)count * sizeof *shown);
}

static ac_status call(ac_trainer *trainer, const ac_parameter_step *step) {
  trainer->busy.handing_over = true;
  const char *why = trainer->desc.optimizer.step(trainer->desc.user, step);
  trainer->busy.handing_over = false;
  if (!why) return AC_OK;
  return ac_fail(AC_ERROR_STOPPED, "trainer: the optimizer's callback failed at parameter %s: %s",
                 step->name, why);
}

static ac_status step_part(ac_trainer *trainer, const view *views, int view_count,
                           ac_parameter_step *step) {
  ac_instance *instance = &trainer->instance;
  const ac_parameter_tensors *own = &instance->plan->problem.parameters[step->parameter];
  float *room = trainer->scratch.views, *shown[VIEWS];
  for (int i = 0; i < view_count; i++)
    AC_TRY(show(instance->device, &views[i], step->first, step->count, &room, &shown[i]));
  step->gradient = shown[0];
  step->weights = shown[1];
  for (int k = 0; k < step->state_count; k++) step->state[k] = shown[2 + k];
  AC_TRY(call(trainer, step));
  for (int i = 0; i < view_count; i++)
    AC_TRY(take_back(instance->device, &views[i], step->first, step->count, shown[i]));
  if (own->working < 0) return AC_OK;
  return ac_instance_write_floats(instance, own->working, step->first, step->count, shown[1]);
}

/* An ac_hand_over. */
static ac_status step_parameter(void *user, int parameter, const void *gradient) {
  ac_trainer *trainer = user;
  const ac_instance *instance = &trainer->instance;
  const ac_plan *plan = instance->plan;
  const ac_tensor *tensor = ac_tensor_at(plan->graph, plan->graph->parameters[parameter]);
  const ac_callback_arguments *arguments = &instance->updates[parameter].step.callback;
  ac_parameter_step step = {.parameter = parameter,
                            .name = tensor->name,
                            .rank = tensor->shape.rank,
                            .update = trainer->run.updates + 1,
                            .rate = arguments->rate,
                            .weight_decay = arguments->weight_decay,
                            .optimizer = trainer->window.optimizer,
                            .state_count = plan->problem.desc.optimizer.callback_states};
  view views[VIEWS];
  const int count = list_views(instance, parameter, gradient, views);
  const int64_t all = ac_shape_count(&tensor->shape),
                part = ac_problem_callback_part(&plan->problem, parameter);
  for (int d = 0; d < step.rank; d++) step.shape[d] = tensor->shape.dim[d];
  for (step.first = 0; step.first < all; step.first += part) {
    step.count = all - step.first < part ? all - step.first : part;
    AC_TRY(step_part(trainer, views, count, &step));
  }
  return AC_OK;
}

ac_status ac_callback_check_desc(const ac_trainer_desc *desc) {
  const bool has = desc->optimizer.step,
             needs = ac_optimizer_row_of(desc->optimizer.kind)->hands_over;
  if (has == needs) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, needs ? "trainer: the plan is for an optimizer of the caller's "
                                            "own; give it (ac_optimizer_desc.step)"
                                          : "trainer: an optimizer of the caller's own was given, "
                                            "but the plan is not for one (AC_OPTIMIZER_CALLBACK)");
}

ac_status ac_callback_begin(ac_trainer *trainer) {
  const uint64_t bytes = trainer->instance.plan->info.callback_bytes;
  if (!trainer->desc.optimizer.step) return AC_OK;
  trainer->instance.hand_over = (ac_hand_over){step_parameter, trainer};
  if (bytes && !(trainer->scratch.views = malloc(bytes)))
    return ac_fail(AC_ERROR_MEMORY, "no memory to hand over parameters");
  return AC_OK;
}
