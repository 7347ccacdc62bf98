/* What holds of every plan, checked when one is made, whatever laid it down:
 *
 *   - each node that adds to sums (gradients, loss, pooled statistics) does so in one step, the
 *     first in which it runs, and what yields nothing but sums runs once;
 *   - every trained parameter's gradient is a sum that some step adds to;
 *   - values that are alive at the same step do not overlap, and all lie within the plan's bytes.
 *
 * Linear in steps but for the last, which is quadratic in the values alive at once. */
#include "plan/plan.h"

#include "core/error.h"

#include <stdlib.h>

static ac_status broken(const ac_plan *plan, const ac_step *step, const char *what) {
  char text[128];
  ac_node_text(text, sizeof text, plan->graph, ac_node_at(plan->graph, step->node));
  return ac_fail(AC_ERROR_INTERNAL, "plan: %s %s", text, what);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static ac_role role_of(const ac_plan *plan, int tensor) {
  return ac_tensor_at(plan->graph, ac_tensor_at(plan->graph, tensor)->storage)->role;
}

/* `ran`: by node; `summed`: by parameter, whether a step adds to its gradient. */
static ac_status check_step(const ac_plan *plan, const ac_step *step, bool *ran, bool *summed) {
  const ac_node *node = ac_node_at(plan->graph, step->node);
  bool again = ran[step->node], yields = false;
  ran[step->node] = true;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    bool sum = ac_role_is_sum(role_of(plan, node->out[j])), writes = step->out[j].tensor >= 0;
    yields |= !sum;
    if (sum && writes && again) return broken(plan, step, "would add to its sums twice");
    if (sum && !writes && !again) return broken(plan, step, "would not add to its sums");
    const ac_tensor *tensor = ac_tensor_at(plan->graph, node->out[j]);
    if (tensor->role == AC_ROLE_GRADIENT && writes) summed[tensor->parameter] = true;
  }
  if (again && !yields) return broken(plan, step, "yields sums alone and would run twice");
  return AC_OK;
}

static ac_status check_steps(const ac_plan *plan, bool *ran, bool *summed) {
  const ac_graph *graph = plan->graph;
  for (int i = 0; i < plan->main.step_count; i++)
    AC_TRY(check_step(plan, &plan->main.steps[i], ran, summed));
  for (int i = 0; i < graph->parameter_count; i++)
    if (plan->parameters[i].gradient >= 0 && !summed[i])
      return ac_fail(AC_ERROR_INTERNAL, "plan: no step would yield the gradient of \"%s\"",
                     ac_tensor_at(graph, graph->parameters[i])->name);
  return AC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int by_first_step(const void *a, const void *b) {
  const ac_value *x = *(const ac_value *const *)a, *y = *(const ac_value *const *)b;
  return x->first != y->first ? x->first - y->first : (x > y) - (x < y);
}

static bool overlap(const ac_value *a, const ac_value *b) {
  return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/* `alive` has room for twice as many values as there are: by first step, and those alive now. */
static ac_status check_values(const ac_plan *plan, const ac_sequence *sequence,
                              const ac_value **alive) {
  const ac_value **all = alive + sequence->value_count;
  int count = 0, own = 0;
  for (int i = 0; i < sequence->value_count; i++)
    if (sequence->values[i].shares == i && sequence->values[i].bytes)
      all[own++] = &sequence->values[i];
  qsort(all, (size_t)own, sizeof *all, by_first_step);
  for (int i = 0; i < own; i++) {
    const ac_value *value = all[i];
    if (value->address + value->bytes > plan->info.bytes.total)
      return ac_fail(AC_ERROR_INTERNAL, "plan: a value would lie beyond the plan's %llu bytes",
                     (unsigned long long)plan->info.bytes.total);
    int still = 0;
    for (int k = 0; k < count; k++) {
      if (alive[k]->last < value->first) continue;
      alive[still++] = alive[k];
      if (overlap(alive[k], value))
        return ac_fail(AC_ERROR_INTERNAL, "plan: two values would share memory at step %d",
                       value->first);
    }
    count = still;
    alive[count++] = value;
  }
  return AC_OK;
}

static ac_status check_memory(const ac_plan *plan, const ac_sequence *sequence) {
  const ac_value **alive = malloc(2 * ((size_t)sequence->value_count + 1) * sizeof *alive);
  if (!alive) return ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  ac_status status = check_values(plan, sequence, alive);
  free(alive);
  return status;
}

/* ---------------------------------------------------------------------------------------------- */

ac_status ac_plan_check(const ac_plan *plan) {
  bool *ran = calloc((size_t)plan->graph->node_count + 1, sizeof *ran);
  bool *summed = calloc((size_t)plan->graph->parameter_count + 1, sizeof *summed);
  ac_status status = AC_OK;
  if (!ran || !summed) status = ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  if (status == AC_OK) status = check_steps(plan, ran, summed);
  if (status == AC_OK) status = check_memory(plan, &plan->main);
  if (status == AC_OK) status = check_memory(plan, &plan->evaluation);
  free(ran);
  free(summed);
  return status;
}
