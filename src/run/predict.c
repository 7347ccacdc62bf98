/* Outputs of a graph for any number of samples. The sequence to all outputs is run as far as the
 * one that is asked for, without the steps that it does not need, and the output is read right
 * after the step that makes it. So no output has to live longer than the ops want it. */
#include "run/instance.h"

#include "core/error.h"

#include <string.h>

int ac_instance_find_output(const ac_instance *instance, const char *name) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->output_count; i++)
    if (!strcmp(graph->outputs[i].name, name)) return i;
  return -1;
}

int64_t ac_instance_output_count(const ac_instance *instance, int tensor, int64_t samples) {
  const ac_shape *shape = &ac_tensor_at(instance->plan->graph, tensor)->shape;
  return ac_shape_count(shape) * (shape->batched ? samples : 1);
}

/* Forward only, each storage is filled once. */
static int value_of(const ac_instance *instance, const ac_sequence *sequence, int tensor) {
  const int storage = ac_tensor_at(instance->plan->graph, tensor)->storage;
  for (int i = sequence->value_count - 1; i >= 0; i--)
    if (sequence->values[i].tensor == storage) return i;
  return -1;
}

const void *ac_instance_output_handle(const ac_instance *instance, const ac_prepared *prepared,
                                      int tensor) {
  const int value = value_of(instance, prepared->sequence, tensor);
  return value < 0 ? NULL : prepared->handles[ac_sequence_root(prepared->sequence, value)];
}

static void need(const ac_instance *instance, ac_needed *needed, ac_slot slot) {
  const ac_graph *graph = instance->plan->graph;
  if (slot.value >= 0) needed->values[slot.value] = true;
  if (slot.tensor < 0 || slot.value >= 0) return;
  for (int i = 0; i < graph->input_count; i++)
    if (graph->inputs[i] == ac_tensor_at(graph, slot.tensor)->storage) needed->inputs[i] = true;
}

/* Whether the step writes a cache that a later step which is needed reads. */
static bool writes_needed_cache(const ac_instance *instance, const ac_sequence *sequence, int step,
                                const ac_needed *needed) {
  const ac_graph *graph = instance->plan->graph;
  const ac_tensor *out = ac_tensor_at(graph, sequence->steps[step].out[0].tensor);
  if (!out || out->role != AC_ROLE_CACHE) return false;
  for (int s = step + 1; s <= needed->last; s++)
    for (int i = 0; i < AC_MAX_INPUTS && needed->steps[s]; i++) {
      const int tensor = sequence->steps[s].in[i].tensor;
      if (tensor >= 0 && ac_tensor_at(graph, tensor)->storage == out->id) return true;
    }
  return false;
}

/* One backward sweep from the output. */
static void find_needed(const ac_instance *instance, const ac_sequence *sequence, int value,
                        ac_needed *needed) {
  memset(needed->steps, 0, (size_t)sequence->step_count * sizeof *needed->steps);
  memset(needed->values, 0, (size_t)sequence->value_count * sizeof *needed->values);
  memset(needed->inputs, 0, sizeof needed->inputs);
  needed->values[value] = true;
  needed->last = -1;
  for (int s = sequence->step_count - 1; s >= 0; s--) {
    const ac_step *step = &sequence->steps[s];
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      needed->steps[s] |= step->out[j].value >= 0 && needed->values[step->out[j].value];
    needed->steps[s] |= writes_needed_cache(instance, sequence, s, needed);
    if (!needed->steps[s]) continue;
    if (needed->last < 0) needed->last = s;
    for (int i = 0; i < AC_MAX_INPUTS; i++) need(instance, needed, step->in[i]);
    need(instance, needed, step->copy);
  }
}

static ac_status check(const ac_instance *instance, const ac_prediction *wanted, int tensor) {
  if (wanted->count < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: %lld samples were given to predict", wanted->caller,
                   (long long)wanted->count);
  const int64_t each = ac_instance_output_count(instance, tensor, 1);
  const bool fits = wanted->count <= PTRDIFF_MAX / 4 / each;
  const int64_t elements =
      fits ? ac_instance_output_count(instance, tensor, wanted->count) : INT64_MAX;
  if (wanted->elements == elements) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "%s: output \"%s\" of %lld samples has %lld elements, %lld for each, but there is "
                 "room for %lld",
                 wanted->caller, wanted->name, (long long)wanted->count, (long long)elements,
                 (long long)each, (long long)wanted->elements);
}

ac_status ac_instance_predict(ac_instance *instance, ac_prepared *prepared, int64_t piece,
                              const ac_prediction *wanted, const ac_feed *feeds, int feed_count) {
  const int index = ac_instance_find_output(instance, wanted->name);
  if (index < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: no output \"%s\" (ac_graph_set_output)", wanted->caller,
                   wanted->name);
  const int tensor = instance->plan->graph->outputs[index].tensor;
  const void *data[AC_MAX_GRAPH_INPUTS];
  ac_needed *needed = &instance->needed;
  AC_TRY(check(instance, wanted, tensor));
  const ac_tensor *output = ac_tensor_at(instance->plan->graph, tensor);
  find_needed(instance, prepared->sequence, value_of(instance, prepared->sequence, tensor), needed);
  AC_TRY(ac_instance_match_feeds(instance, needed->inputs, wanted->count, feeds, feed_count, data));
  const void *handle = ac_instance_output_handle(instance, prepared, tensor);
  /* What does not depend on samples is the same for all. */
  const int64_t count = output->shape.batched ? wanted->count : 1;
  float *to = wanted->data;
  for (int64_t first = 0; first < count; first += piece) {
    instance->run.batch = count - first < piece ? count - first : piece;
    const int64_t elements = ac_instance_output_count(instance, tensor, instance->run.batch);
    AC_TRY(ac_instance_upload(instance, data, first, instance->run.batch));
    AC_TRY(ac_instance_run_needed(instance, prepared, needed));
    AC_TRY(ac_instance_read_floats(instance, handle, output->dtype, 0, elements, to));
    to += elements;
  }
  return AC_OK;
}
