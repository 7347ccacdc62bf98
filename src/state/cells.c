/* The cells that stay from window to window, as tensors under their names. A window in progress
 * adds the cells that gather its sums. */
#include "state/cells.h"

#include "core/error.h"
#include "io/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which ones ------------------------------------------------------------------------------ */

/* Running statistics are not trained, but a node writes them. */
static bool is_written(const ac_graph *graph, int tensor) {
  for (int i = 0; i < graph->node_count; i++) {
    const ac_node *node = ac_node_at(graph, i);
    for (int o = 0; o < AC_MAX_OUTPUTS; o++)
      if (node->out[o] == tensor) return true;
  }
  return false;
}

bool ac_state_is_constant(const ac_trainer *trainer, const ac_cell *cell) {
  const ac_graph *graph = trainer->instance.plan->graph;
  return (cell->role == AC_ROLE_PARAMETER || cell->role == AC_ROLE_WORKING) &&
         !ac_trainer_trains(trainer, cell->owner) &&
         !is_written(graph, graph->parameters[cell->owner]);
}

/* If a parameter has no original, its copy in 16 bits or in blocks is saved instead. */
bool ac_state_holds(const ac_trainer *trainer, const ac_cell *cell, bool window) {
  const ac_plan *plan = trainer->instance.plan;
  if (trainer->desc.states_without_frozen && ac_state_is_constant(trainer, cell)) return false;
  if (cell->role == AC_ROLE_PARAMETER || cell->role == AC_ROLE_STATE ||
      cell->role == AC_ROLE_AVERAGE)
    return true;
  if (cell->role == AC_ROLE_WORKING) return !ac_plan_cell(plan, AC_ROLE_PARAMETER, cell->owner, 0);
  return window && ac_role_is_sum(cell->role);
}

/* Norms that share their running statistics pool each its own: how many come before the last. */
static int pooled_before(const ac_state_contents *c) {
  const int last = c->count - 1;
  int before = 0;
  for (int i = 0; i < last; i++)
    before += c->tensors[i].cell->role == AC_ROLE_POOLED &&
              c->tensors[i].cell->owner == c->tensors[last].cell->owner;
  return before;
}

/* Names the last of the contents. */
static bool name_tensor(const ac_graph *graph, ac_state_contents *c) {
  ac_state_tensor *tensor = &c->tensors[c->count - 1];
  const ac_cell *cell = tensor->cell;
  const char *owner = cell->role == AC_ROLE_LOSS
                          ? ac_graph_sum_name(graph, cell->owner)
                          : ac_tensor_at(graph, graph->parameters[cell->owner])->name;
  char role[32] = "";
  if (cell->role == AC_ROLE_STATE)
    snprintf(role, sizeof role, "accrue/state.%d/", ac_tensor_at(graph, cell->tensor)->state);
  else if (cell->role == AC_ROLE_POOLED)
    snprintf(role, sizeof role, "accrue/pooled.%d/", pooled_before(c));
  else if (cell->role == AC_ROLE_WORKING && cell->dtype == AC_U8)
    snprintf(role, sizeof role, "accrue/%s/",
             ac_blocks_name(ac_tensor_at(graph, cell->tensor)->blocks));
  else if (cell->role != AC_ROLE_PARAMETER && cell->role != AC_ROLE_WORKING)
    snprintf(role, sizeof role, "accrue/%s/",
             cell->role == AC_ROLE_LOSS      ? cell->owner < AC_MAX_LOSSES ? "loss" : "metric"
             : cell->role == AC_ROLE_AVERAGE ? "average"
                                             : "gradient");
  const size_t size = strlen(role) + strlen(owner) + 1;
  tensor->name = malloc(size);
  if (tensor->name) snprintf(tensor->name, size, "%s%s", role, owner);
  return tensor->name;
}

void ac_state_contents_free(ac_state_contents *c) {
  for (int i = 0; i < c->count; i++) free(c->tensors[i].name);
  free(c->tensors);
}

ac_status ac_state_list(ac_state_contents *c, ac_trainer *trainer, bool window, const char *path) {
  const ac_plan *plan = trainer->instance.plan;
  *c = (ac_state_contents){.trainer = trainer,
                           .tensors = calloc((size_t)plan->cell_count + 1, sizeof *c->tensors)};
  bool good = c->tensors;
  for (int i = 0; i < plan->cell_count && good; i++) {
    if (!ac_state_holds(trainer, &plan->cells[i], window)) continue;
    c->tensors[c->count++].cell = &plan->cells[i];
    good = name_tensor(plan->graph, c);
  }
  if (good) return AC_OK;
  ac_state_contents_free(c);
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a list of what a state holds", path);
}

/* ---- those of a file ------------------------------------------------------------------------- */

/* What a plan may choose for weights and what optimizers keep. */
static bool is_stored(ac_dtype dtype) {
  return dtype == AC_F32 || dtype == AC_F16 || dtype == AC_BF16 || dtype == AC_U8;
}

static const char *storage_name(ac_dtype dtype) {
  return dtype == AC_U8 ? "8 bits" : ac_dtype_name(dtype);
}

static ac_status check_tensor(const ac_model_file *file, const char *path,
                              const ac_state_tensor *tensor) {
  const int found = ac_model_file_find(file, tensor->name);
  if (found < 0) return ac_fail(AC_ERROR_FORMAT, "%s holds no tensor \"%s\"", path, tensor->name);
  const ac_model_tensor *there = ac_model_file_tensor(file, found);
  const ac_shape *shape = &tensor->cell->shape;
  bool same = there->dtype == tensor->cell->dtype && there->rank == shape->rank;
  for (int d = 0; same && d < shape->rank; d++) same = there->shape[d] == shape->dim[d];
  if (same) return AC_OK;
  const ac_dtype own = tensor->cell->dtype;
  if (is_stored(there->dtype) && is_stored(own) && there->dtype != own)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" is kept in %s, and the plan keeps it in %s",
                   path, tensor->name, storage_name(there->dtype), storage_name(own));
  char text[AC_SHAPE_TEXT];
  return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" is not %s %s", path, tensor->name,
                 ac_dtype_name(tensor->cell->dtype), ac_shape_text(text, shape));
}

/* Each tensor of the trainer is in the file, and each of the file is one of the trainer's. */
ac_status ac_state_check_tensors(const ac_state_contents *c, const ac_model_file *file,
                                 const char *path) {
  for (int i = 0; i < c->count; i++) AC_TRY(check_tensor(file, path, &c->tensors[i]));
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *name = ac_model_file_tensor(file, i)->name;
    bool known = false;
    for (int k = 0; k < c->count && !known; k++) known = !strcmp(name, c->tensors[k].name);
    if (!known)
      return ac_fail(AC_ERROR_FORMAT, "%s holds tensor %s, which the model does not have", path,
                     ac_quote(name).text);
  }
  return AC_OK;
}
