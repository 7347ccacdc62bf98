/* Parameters and caches of another instance: the cells of one are used by both. They are found by
 * name. What changes it also writes its copy in 16 bits. So an instance that trains it must have
 * all cells of it that the other one has, and what the host writes goes to the other one's. */
#include "run/instance.h"

#include "core/error.h"
#include "core/half.h"
#include "core/integers.h"

#include <string.h>

static ac_status refuse(const ac_tensor *parameter, const char *why) {
  return ac_fail(AC_ERROR_ARGUMENT, "share: parameter \"%s\" %s", parameter->name, why);
}

/* The other's tensor in the place of this one; NULL: it has none. */
static const ac_tensor *tensor_of(const ac_instance *from, ac_role role, int parameter) {
  const ac_parameter_tensors *own = &from->plan->problem.parameters[parameter];
  const int id = role == AC_ROLE_WORKING ? own->working : own->tensor;
  return id >= 0 && from->persistent[id] ? ac_tensor_at(from->plan->graph, id) : NULL;
}

static const ac_tensor *cache_of(const ac_instance *from, const char *name) {
  const ac_graph *graph = from->plan->graph;
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->role == AC_ROLE_CACHE && tensor->storage == i && from->persistent[i] &&
        !strcmp(tensor->name, name))
      return tensor;
  }
  return NULL;
}

/* A cache has room for the samples of a micro-batch. */
static ac_status find_cache(ac_instance *instance, const ac_cell *cell, const ac_instance *from) {
  const char *name = ac_tensor_at(instance->plan->graph, cell->tensor)->name;
  const ac_tensor *theirs = cache_of(from, name);
  if (!theirs)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "share: cache \"%s\" is to be shared, but the other session has none", name);
  if (theirs->dtype != cell->dtype || !ac_shape_equal(&theirs->shape, &cell->shape) ||
      from->plan->info.micro_batch != instance->plan->info.micro_batch)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "share: cache \"%s\" is to be shared, but is another one in the other session; "
                   "give both plans the same precision, positions and micro-batch",
                   name);
  instance->persistent[cell->tensor] = from->persistent[theirs->id];
  return AC_OK;
}

static ac_status find_cell(ac_instance *instance, const ac_cell *cell, const ac_instance *from) {
  const ac_graph *graph = instance->plan->graph;
  const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[cell->owner]);
  const int other = ac_instance_find_parameter(from, parameter->name);
  if (other < 0) return refuse(parameter, "is to be shared, but the other trainer has none");
  const ac_tensor *theirs = tensor_of(from, cell->role, other);
  if (!theirs || theirs->dtype != cell->dtype ||
      theirs->blocks != ac_tensor_at(graph, cell->tensor)->blocks)
    return refuse(parameter,
                  "is to be shared, but the other trainer stores it otherwise; give both "
                  "plans the same precision, weights and working copies");
  if (!ac_shape_equal(&theirs->shape, &cell->shape))
    return refuse(parameter, "is to be shared, but has another shape in the other trainer");
  const ac_problem *problem = &instance->plan->problem;
  const bool copied = tensor_of(from, AC_ROLE_WORKING, other) != NULL,
             copies = problem->parameters[cell->owner].working >= 0;
  if (problem->parameters[cell->owner].gradient >= 0 && copied && !copies)
    return refuse(parameter,
                  "is shared and trained, but the other trainer has a copy of it in 16 "
                  "bits that would stay as it was; freeze it, or give both plans copies");
  instance->persistent[cell->tensor] = from->persistent[theirs->id];
  return AC_OK;
}

const ac_instance *ac_shared_owner(const ac_instance *instance, int *index) {
  while (instance->shares && ac_problem_shares(&instance->plan->problem, *index)) {
    const ac_graph *graph = instance->plan->graph;
    *index = ac_instance_find_parameter(instance->shares,
                                        ac_tensor_at(graph, graph->parameters[*index])->name);
    instance = instance->shares;
  }
  return instance;
}

ac_status ac_shared_write_copy(const ac_instance *instance, const ac_cell *cell, int64_t first,
                               int64_t count, const void *data) {
  enum { PIECE = 1024 };
  if (cell->dtype == AC_U8) /* in blocks, with a single copy */
    return ac_instance_write_cell(instance, cell, (uint64_t)first, data, (uint64_t)count);
  uint16_t there[PIECE];
  float values[PIECE];
  for (int64_t done = 0; done < count; done += PIECE) {
    const int64_t piece = ac_smaller(count - done, PIECE);
    const uint16_t *from = (const uint16_t *)data + done;
    AC_TRY(ac_instance_read_elements(instance, cell, first + done, piece, there));
    if (!memcmp(there, from, (size_t)piece * sizeof *from)) continue;
    ac_floats_read(values, from, cell->dtype, piece);
    AC_TRY(ac_instance_write_parameter(instance, cell->owner, first + done, piece, values));
  }
  return AC_OK;
}

ac_status ac_shared_find(ac_instance *instance, const ac_instance *from) {
  const ac_plan *plan = instance->plan;
  instance->shares = from;
  for (int i = 0; i < plan->cell_count; i++) {
    if (plan->cells[i].space != AC_SPACE_SHARED) continue;
    if (!from)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "share: the plan shares parameters or caches (ac_plan_desc.shared), but no "
                     "trainer or session that has them was given");
    if (from->device != instance->device)
      return ac_fail(
          AC_ERROR_ARGUMENT,
          "share: parameters and caches can be shared on one device, but the plans are for %s and "
          "%s, opened one by one",
          instance->device->info.id, from->device->info.id);
    const bool cache = plan->cells[i].role == AC_ROLE_CACHE;
    AC_TRY((cache ? find_cache : find_cell)(instance, &plan->cells[i], from));
  }
  return AC_OK;
}
