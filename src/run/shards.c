/* Measures of gradients where ranks share them out: of the part that this rank owns, which is the
 * sum of all ranks. A window's first micro-batch is measured whole (ac_instance_run_phase), so the
 * steps of the sequence stay as they are. */
#include "plan/shards.h"

#include "core/error.h"
#include "run/instance.h"

#include <stdlib.h>

/* Whether a step measures a gradient, and the part of it. */
static bool is_of_gradient(const ac_instance *instance, const ac_step *step, ac_part *part) {
  const ac_tensor *tensor = ac_tensor_at(instance->plan->graph, step->in[0].tensor);
  if (tensor->role != AC_ROLE_GRADIENT) return false;
  ac_shards_own(&instance->plan->problem, tensor->parameter, &part->first, &part->count);
  return true;
}

static int64_t elements_of(const ac_instance *instance, const ac_step *step) {
  return ac_shape_count(&ac_tensor_at(instance->plan->graph, step->in[0].tensor)->shape);
}

ac_status ac_instance_prepare_shards(ac_instance *instance) {
  const ac_sequence *sequence = &instance->plan->main;
  const int begin = sequence->begin[AC_PHASE_REDUCE],
            count = sequence->begin[AC_PHASE_REDUCE + 1] - begin;
  if (!sequence->shards) return AC_OK;
  instance->measured = calloc((size_t)count + 1, sizeof *instance->measured);
  if (!instance->measured) return ac_fail(AC_ERROR_MEMORY, "no memory for parts of gradients");
  for (int i = 0; i < count; i++) {
    const ac_step *step = &sequence->steps[begin + i];
    ac_part part;
    if (is_of_gradient(instance, step, &part) && part.count &&
        part.count < elements_of(instance, step))
      AC_TRY(ac_transfers_view(instance, sequence, step->in[0], part, &instance->measured[i]));
  }
  return AC_OK;
}

void ac_instance_discard_shards(ac_instance *instance) {
  const ac_sequence *sequence = &instance->plan->main;
  const int count = sequence->begin[AC_PHASE_REDUCE + 1] - sequence->begin[AC_PHASE_REDUCE];
  for (int i = 0; instance->measured && i < count; i++)
    ac_instance_drop_view(instance, instance->measured[i]);
  free(instance->measured);
}

ac_status ac_instance_measure_shards(ac_instance *instance) {
  const ac_sequence *sequence = &instance->plan->main;
  const ac_device *device = instance->device;
  const int begin = sequence->begin[AC_PHASE_REDUCE], end = sequence->begin[AC_PHASE_REDUCE + 1];
  for (int i = begin; i < end; i++) {
    const ac_step *step = &sequence->steps[i];
    ac_op_args args = instance->main.args[i];
    ac_part part = {0, elements_of(instance, step)};
    AC_TRY(ac_instance_meanwhile(instance));
    if (is_of_gradient(instance, step, &part) && !part.count) continue;
    if (instance->measured[i - begin]) {
      args.in[0].data = instance->measured[i - begin];
      args.in[0].rank = 1;
      args.in[0].dim[0] = args.in[0].count = part.count;
    }
    AC_TRY(device->backend->run(device->state, &args));
  }
  return AC_OK;
}
