/* Whether a state is of a run that had the same parameters frozen, told by what the optimizer
 * keeps, which is of those that are trained. Where it keeps nothing any state will do. */
#include "core/error.h"
#include "state/cells.h"

#include <stdlib.h>
#include <string.h>

static const char kept[] = "accrue/state."; /* and a number, and a slash */

static const char *name_of(const ac_trainer *trainer, int parameter) {
  const ac_graph *graph = trainer->instance.plan->graph;
  return ac_tensor_at(graph, graph->parameters[parameter])->name;
}

/* Finds those that the file's run has trained; *any: there is one. */
static ac_status find_trained(const ac_trainer *trainer, const ac_model_file *file,
                              const char *path, bool *trained, bool *any) {
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *name = ac_model_file_tensor(file, i)->name;
    const char *owner =
        strncmp(name, kept, sizeof kept - 1) ? NULL : strchr(name + sizeof kept - 1, '/');
    const int index = owner ? ac_instance_find_parameter(&trainer->instance, owner + 1) : -1;
    if (index < 0) continue; /* nothing that is kept, or another model's */
    *any = trained[index] = true;
    if (!ac_trainer_trains(trainer, index))
      return ac_fail(AC_ERROR_FORMAT, "%s is of a run that trained %s, which is frozen here", path,
                     name_of(trainer, index));
  }
  return AC_OK;
}

ac_status ac_state_check_frozen(const ac_trainer *trainer, const ac_model_file *file,
                                const char *path) {
  const ac_plan *plan = trainer->instance.plan;
  bool *trained = calloc((size_t)plan->graph->parameter_count + 1, sizeof *trained), any = false;
  if (!trained) return ac_fail(AC_ERROR_MEMORY, "no memory to load %s", path);
  ac_status status = find_trained(trainer, file, path, trained, &any);
  for (int i = 0; i < plan->graph->parameter_count && status == AC_OK && any; i++) {
    const bool there = ac_model_file_find(file, name_of(trainer, i)) >= 0;
    if (there && !trained[i] && ac_plan_cell(plan, AC_ROLE_STATE, i, 0))
      status = ac_fail(AC_ERROR_FORMAT, "%s is of a run that had %s frozen, which is trained here",
                       path, name_of(trainer, i));
  }
  free(trained);
  return status;
}
