/* Outputs that are handed to a caller while windows run. Each is read right after the step of the
 * micro-batch that makes it, before another value can take its memory, so plans do not depend on
 * what is watched. */
#include "run/instance.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

static ac_watched *find(ac_instance *instance, int tensor) {
  for (int i = 0; i < instance->watched_count; i++)
    if (instance->watched[i].tensor == tensor) return &instance->watched[i];
  return NULL;
}

void ac_watched_free(ac_instance *instance) {
  for (int i = 0; i < instance->watched_count; i++) free(instance->watched[i].copy);
  instance->watched_count = 0;
}

static void leave(ac_instance *instance, ac_watched *watched) {
  if (!watched) return;
  free(watched->copy);
  *watched = instance->watched[--instance->watched_count];
}

/* The step that makes it first, and where; false: none does. */
static bool find_step(const ac_instance *instance, ac_watched *watched) {
  const ac_sequence *main = instance->main.sequence;
  const ac_graph *graph = instance->plan->graph;
  const int storage = ac_tensor_at(graph, watched->tensor)->storage;
  for (int s = 0; s < ac_sequence_end(main); s++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      const ac_slot *out = &main->steps[s].out[j];
      if (out->tensor < 0 || out->value < 0) continue;
      if (ac_tensor_at(graph, out->tensor)->storage != storage) continue;
      watched->step = s;
      watched->made = *out;
      return true;
    }
  return false;
}

ac_status ac_instance_watch(ac_instance *instance, const char *name, ac_tensor_callback callback,
                            void *user) {
  const int output = ac_instance_find_output(instance, name);
  if (output < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: no output \"%s\" (ac_graph_set_output)", name);
  const ac_graph *graph = instance->plan->graph;
  const int tensor = graph->outputs[output].tensor;
  ac_watched new = {graph->outputs[output].name, tensor, -1, {-1, -1}, callback, user, NULL};
  if (!callback) {
    leave(instance, find(instance, tensor));
    return AC_OK;
  }
  if (!find_step(instance, &new))
    return ac_fail(AC_ERROR_STATE,
                   "trainer: output \"%s\" is not computed in windows, because no loss depends on "
                   "it; ac_trainer_predict computes it",
                   name);
  if (!find(instance, tensor) && instance->watched_count == AC_MAX_WATCHED)
    return ac_fail(AC_ERROR_STATE, "trainer: %d tensors are watched, which is the most",
                   (int)AC_MAX_WATCHED);
  const int64_t count =
      ac_instance_output_count(instance, tensor, instance->plan->info.micro_batch);
  new.copy = malloc((size_t)count * sizeof *new.copy);
  if (!new.copy)
    return ac_fail(AC_ERROR_MEMORY, "trainer: no memory on the host to watch \"%s\"", name);
  leave(instance, find(instance, tensor));
  instance->watched[instance->watched_count++] = new;
  return AC_OK;
}

static ac_status hand_out(ac_instance *instance, const ac_watched *watched) {
  const ac_tensor *tensor = ac_tensor_at(instance->plan->graph, watched->tensor);
  const int64_t all = ac_instance_output_count(instance, watched->tensor, instance->run.batch);
  const void *handle = ac_instance_handle(instance, &instance->main, watched->made);
  AC_TRY(ac_instance_read_floats(instance, handle, tensor->dtype, 0, all, watched->copy));
  const ac_tensor_view view = {.name = watched->name,
                               .update = instance->run.update,
                               .first = instance->run.sample,
                               .count = instance->run.batch,
                               .elements = ac_instance_output_count(instance, watched->tensor, 1),
                               .batched = tensor->shape.batched,
                               .data = watched->copy};
  instance->hands_out = true;
  watched->callback(watched->user, &view);
  instance->hands_out = false;
  return AC_OK;
}

ac_status ac_watched_after(ac_instance *instance, int step) {
  for (int i = 0; i < instance->watched_count; i++)
    if (instance->watched[i].step == step) AC_TRY(hand_out(instance, &instance->watched[i]));
  return AC_OK;
}
