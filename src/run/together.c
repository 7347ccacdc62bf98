/* Which of the steps that end a window a backend may run in any order, or at once: steps in a row,
 * with cells of their own, and with nothing to do before or after one of them. */
#include "run/instance.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

/* By storage id: the row of steps that last read it, and that last wrote it. */
typedef struct touched {
  int read, written;
} touched;

static bool stands_alone(const ac_plan *plan, const ac_step *step) {
  if (step->transfers || step->copy.tensor >= 0) return false;
  if (ac_problem_hands_over(&plan->problem, ac_node_at(plan->graph, step->node))) return false;
  /* Values may lie where others have been. */
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (step->out[j].tensor >= 0 && step->out[j].value >= 0) return false;
  return true;
}

static touched *of_slot(const ac_graph *graph, touched *list, ac_slot slot) {
  return slot.tensor < 0 ? NULL : &list[ac_tensor_at(graph, slot.tensor)->storage];
}

static bool meets(const ac_graph *graph, touched *list, const ac_step *step, int row) {
  bool met = false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const touched *t = of_slot(graph, list, step->in[i]);
    met = met || (t && t->written == row);
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    const touched *t = of_slot(graph, list, step->out[j]);
    met = met || (t && (t->written == row || t->read == row));
  }
  return met;
}

static void touch(const ac_graph *graph, touched *list, const ac_step *step, int row) {
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    touched *t = of_slot(graph, list, step->in[i]);
    if (t) t->read = row;
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    touched *t = of_slot(graph, list, step->out[j]);
    if (t) t->written = row;
  }
}

/* The end of the row that begins with a step. */
static int find_end(const ac_plan *plan, touched *list, int begin, int end) {
  const ac_step *steps = plan->main.steps;
  const int row = begin + 1; /* not 0 */
  int i = begin;
  while (i < end && stands_alone(plan, &steps[i]) && !meets(plan->graph, list, &steps[i], row))
    touch(plan->graph, list, &steps[i++], row);
  return i > begin ? i : begin + 1;
}

ac_status ac_together_find(const ac_plan *plan, int **together) {
  const ac_sequence *sequence = &plan->main;
  *together = calloc((size_t)sequence->step_count + 1, sizeof **together);
  touched *list = calloc((size_t)plan->graph->tensor_count + 1, sizeof *list);
  for (int p = AC_PHASE_REDUCE; list && *together && p < AC_PHASE_COUNT; p++)
    for (int i = sequence->begin[p], end; i < sequence->begin[p + 1]; i = end) {
      end = find_end(plan, list, i, sequence->begin[p + 1]);
      (*together)[i] = end - i;
    }
  const bool found = list && *together;
  free(list);
  return found ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for a list of steps");
}
