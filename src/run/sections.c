/* Windows that go through one section after another (plan/sections.c). Inputs
 * and whatever later sections read have a place for each micro-batch. */
#include "run/instance.h"

#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
}

static int64_t places_of(const ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  return ac_ceil_div(plan->problem.desc.batch, plan->info.micro_batch);
}

/* Views of as many neighbouring ranges. */
static ac_status view_places(ac_instance *instance, uint64_t address, uint64_t bytes,
                             void ***handles) {
  const int64_t places = places_of(instance);
  *handles = calloc((size_t)places, sizeof **handles);
  if (!*handles) return no_memory();
  for (int64_t i = 0; i < places; i++)
    AC_TRY(ac_instance_view(instance, address + (uint64_t)i * bytes, bytes, &(*handles)[i]));
  return AC_OK;
}

static void drop_places(ac_instance *instance, void **handles) {
  for (int64_t i = 0; handles && i < places_of(instance); i++)
    ac_instance_drop_view(instance, handles[i]);
  free(handles);
}

ac_status ac_sections_prepare(ac_instance *instance, ac_prepared *prepared) {
  const ac_plan *plan = instance->plan;
  const ac_sequence *sequence = prepared->sequence;
  if (!sequence->section_count) return AC_OK;
  const uint64_t places = (uint64_t)places_of(instance);
  prepared->places = calloc((size_t)sequence->value_count + 1, sizeof *prepared->places);
  prepared->inputs = calloc((size_t)plan->graph->tensor_count + 1, sizeof *prepared->inputs);
  if (!prepared->places || !prepared->inputs) return no_memory();
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (value->shares == i && value->whole)
      AC_TRY(view_places(instance, value->address, value->bytes / places, &prepared->places[i]));
  }
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role == AC_ROLE_INPUT && cell->space == AC_SPACE_DEVICE && cell->shape.batched)
      AC_TRY(view_places(instance, cell->address, cell->bytes / places,
                         &prepared->inputs[cell->tensor]));
  }
  return AC_OK;
}

void ac_sections_discard(ac_instance *instance, ac_prepared *prepared) {
  for (int i = 0; prepared->places && i < prepared->sequence->value_count; i++)
    drop_places(instance, prepared->places[i]);
  for (int i = 0; prepared->inputs && i < instance->plan->graph->tensor_count; i++)
    drop_places(instance, prepared->inputs[i]);
  free(prepared->places);
  free(prepared->inputs);
}

void *ac_sections_place(const ac_instance *instance, const ac_prepared *prepared, ac_slot slot) {
  if (!prepared->places) return NULL;
  const int storage = ac_tensor_at(instance->plan->graph, slot.tensor)->storage;
  void **handles = slot.value < 0
                       ? prepared->inputs[storage]
                       : prepared->places[ac_sequence_root(prepared->sequence, slot.value)];
  return handles ? handles[prepared->place] : NULL;
}

/* What is done with each step. */
typedef struct section_work {
  ac_sections_do run;
  void *user;
} section_work;

/* The steps of a section for one micro-batch. */
static ac_status run_section(ac_instance *instance, ac_prepared *prepared, int section, bool last,
                             const section_work *work) {
  const ac_sequence *sequence = prepared->sequence;
  for (int i = sequence->sections[section]; i < sequence->sections[section + 1]; i++) {
    if (prepared->place && sequence->steps[i].once) continue;
    ac_instance_fill_arguments(instance, prepared, i);
    AC_TRY(work->run(work->user, instance, prepared, i, last));
  }
  return AC_OK;
}

static ac_status join_sum(const ac_instance *instance, ac_slot out) {
  if (out.tensor < 0) return AC_OK;
  const ac_role role = ac_tensor_at(instance->plan->graph, out.tensor)->role;
  if (role != AC_ROLE_POOLED && role != AC_ROLE_GATHERED) return AC_OK;
  return instance->join.call(instance->join.user, out.tensor);
}

/* The sums that the steps [begin, end) have added to. All plans of a graph have them in this
 * order, wherever their sections end. */
static ac_status join_sums(const ac_instance *instance, int begin, int end) {
  for (int i = begin; i < end && instance->join.call; i++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      AC_TRY(join_sum(instance, instance->plan->main.steps[i].out[j]));
  return AC_OK;
}

ac_status ac_sections_join(ac_instance *instance) {
  return join_sums(instance, 0, ac_sequence_end(&instance->plan->main));
}

static ac_status run_all(ac_instance *instance, ac_prepared *prepared, int64_t samples,
                         uint32_t first, const section_work *work) {
  const ac_sequence *sequence = prepared->sequence;
  const int64_t most = instance->plan->info.micro_batch, count = ac_ceil_div(samples, most);
  for (int s = 0; s < sequence->section_count; s++) {
    for (int64_t k = 0; k < count; k++) {
      prepared->place = k;
      instance->run.batch = ac_smaller(most, samples - k * most);
      instance->run.sample = first + (uint32_t)(k * most);
      AC_TRY(run_section(instance, prepared, s, k == count - 1, work));
    }
    AC_TRY(join_sums(instance, sequence->sections[s], sequence->sections[s + 1]));
  }
  return AC_OK;
}

static ac_status work_through(ac_instance *instance, ac_prepared *prepared,
                              const section_work *work) {
  const int64_t samples = instance->run.batch;
  const uint32_t first = instance->run.sample;
  const ac_status status = run_all(instance, prepared, samples, first, work);
  prepared->place = 0;
  prepared->batch = 0; /* arguments are those of another micro-batch */
  instance->run.batch = samples;
  instance->run.sample = first;
  return status;
}

ac_status ac_sections_each(ac_instance *instance, ac_prepared *prepared, ac_sections_do run,
                           void *user) {
  return work_through(instance, prepared, &(section_work){run, user});
}

static ac_status do_step(void *user, ac_instance *instance, ac_prepared *prepared, int step,
                         bool last) {
  (void)user;
  return ac_instance_do_step(instance, prepared, step, prepared->place == 0, last);
}

ac_status ac_sections_run(ac_instance *instance, ac_prepared *prepared) {
  return work_through(instance, prepared, &(section_work){.run = do_step});
}
