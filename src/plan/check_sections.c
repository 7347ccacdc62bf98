/* What is true of sections, in addition to what check.c says of every sequence:
 *
 *   - they follow one another from the first step to the last one of the micro-batch;
 *   - a step that reads a sum finds all of it: neither its own section nor a later one adds to it;
 *   - a step runs once if nothing that it reads or writes varies, and otherwise leaves nothing that
 *     does not vary: that is not written again, in the place of something else or by a later
 *     micro-batch;
 *   - what the caller wants kept (AC_KEEP) is made once;
 *   - what varies and is used in more than one section has a place for each micro-batch, as large
 * as its elements are;
 *   - what does not vary and what has such places lives from the beginning of the section that
 * makes it to the end of the last one that uses it. */
#include "plan/plan.h"

#include "core/error.h"

#include <stdlib.h>

typedef struct checker {
  const ac_plan *plan;
  const ac_sequence *sequence;
  int *read;        /* by storage: one more than the section that reads this sum first; 0: none */
  int *made, *used; /* by value that owns memory: sections; -1: none */
} checker;

static ac_status broken(const checker *c, const ac_step *step, const char *what) {
  char text[128];
  const ac_graph *graph = c->plan->graph;
  ac_node_text(text, sizeof text, graph, ac_node_at(graph, step->node));
  return ac_fail(AC_ERROR_INTERNAL, "plan: %s %s", text, what);
}

static bool varies(const checker *c, ac_slot slot) {
  if (slot.tensor < 0) return false;
  if (slot.value >= 0) return c->sequence->values[slot.value].varies;
  return ac_tensor_at(c->plan->graph, slot.tensor)->shape.batched;
}

/* The storage of a sum that is a cell; -1: it is none. */
static int sum_of(const checker *c, ac_slot slot) {
  if (slot.tensor < 0 || slot.value >= 0) return -1;
  const int storage = ac_tensor_at(c->plan->graph, slot.tensor)->storage;
  return ac_role_is_sum(ac_tensor_at(c->plan->graph, storage)->role) ? storage : -1;
}

static ac_status check_ends(const ac_sequence *sequence) {
  const int count = sequence->section_count;
  bool good = count > 0 && sequence->sections[0] == 0 &&
              sequence->sections[count] == ac_sequence_end(sequence);
  for (int s = 0; good && s < count; s++) good = sequence->sections[s] < sequence->sections[s + 1];
  if (good) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL, "plan: sections would leave out steps");
}

static void note_use(checker *c, ac_slot slot, int section) {
  if (slot.tensor < 0 || slot.value < 0) return;
  const int root = ac_sequence_root(c->sequence, slot.value);
  if (c->made[root] < 0) c->made[root] = section;
  c->used[root] = section;
}

static void note_read(checker *c, ac_slot slot, int section) {
  const int sum = sum_of(c, slot);
  note_use(c, slot, section);
  if (sum >= 0 && !c->read[sum]) c->read[sum] = section + 1;
}

static ac_status check_output(const checker *c, const ac_step *step, ac_slot slot, int section) {
  if (slot.tensor < 0) return AC_OK;
  const int sum = sum_of(c, slot);
  if (sum >= 0 && c->read[sum] && c->read[sum] <= section + 1)
    return broken(c, step, "would add to a sum that its section or an earlier one reads");
  if (slot.value < 0) return AC_OK;
  if (varies(c, slot) == step->once)
    return broken(c, step, "would not run as often as its results change");
  if (step->recomputed && ac_tensor_at(c->plan->graph, slot.tensor)->hint == AC_KEEP)
    return broken(c, step, "would make again what the caller wants kept");
  if (step->once && c->sequence->values[slot.value].shares != slot.value)
    return broken(c, step, "would overwrite what later micro-batches read");
  return AC_OK;
}

static ac_status check_step(checker *c, const ac_step *step, int section) {
  bool any = varies(c, step->copy);
  note_use(c, step->copy, section);
  for (int i = 0; i < AC_MAX_INPUTS; i++) any |= varies(c, step->in[i]);
  if (any && step->once) return broken(c, step, "would run once, but reads what varies");
  if (step->copy.tensor >= 0 && varies(c, step->copy) == step->once)
    return broken(c, step, "would add what does not vary more than once");
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    AC_TRY(check_output(c, step, step->out[j], section));
    note_use(c, step->out[j], section);
  }
  return AC_OK;
}

static ac_status check_steps(checker *c) {
  const ac_sequence *sequence = c->sequence;
  for (int s = 0; s < sequence->section_count; s++) {
    for (int i = sequence->sections[s]; i < sequence->sections[s + 1]; i++)
      for (int k = 0; k < AC_MAX_INPUTS; k++) note_read(c, sequence->steps[i].in[k], s);
    for (int i = sequence->sections[s]; i < sequence->sections[s + 1]; i++)
      AC_TRY(check_step(c, &sequence->steps[i], s));
  }
  return AC_OK;
}

/* Bytes of one micro-batch. */
static uint64_t place_bytes(const checker *c, const ac_value *value) {
  const ac_tensor *tensor = ac_tensor_at(c->plan->graph, value->tensor);
  const int64_t samples = tensor->shape.batched ? c->plan->info.micro_batch : 1;
  return (uint64_t)(ac_shape_count(&tensor->shape) * samples) * ac_dtype_bytes(tensor->dtype);
}

static bool has_room(const checker *c, const ac_value *value) {
  const uint64_t alignment = c->plan->device->info.alignment;
  const int64_t most = c->plan->info.micro_batch, window = c->plan->problem.desc.batch;
  const uint64_t places = value->whole ? (uint64_t)((window + most - 1) / most) : 1,
                 place = value->bytes / places;
  return place * places == value->bytes && place % alignment == 0 && place >= place_bytes(c, value);
}

static ac_status check_value(const checker *c, int index) {
  const ac_sequence *sequence = c->sequence;
  const ac_value *value = &sequence->values[index];
  const int from = c->made[index], to = c->used[index];
  const char *what = NULL;
  if (from < 0) return AC_OK;
  if (value->varies && from != to && !value->whole) what = "has one place for all micro-batches";
  else if (!has_room(c, value)) what = "has too little room";
  else if ((!value->varies || from != to) &&
           (!value->lasts || value->first > sequence->sections[from] ||
            value->last < sequence->sections[to + 1] - 1))
    what = "ends before other micro-batches have used it";
  if (!what) return AC_OK;
  const ac_tensor *tensor = ac_tensor_at(c->plan->graph, value->tensor);
  return ac_fail(AC_ERROR_INTERNAL, "plan: a value of tensor %d, made in section %d, %s",
                 tensor->id, from, what);
}

ac_status ac_plan_check_sections(const ac_plan *plan) {
  const ac_sequence *sequence = &plan->main;
  const size_t values = (size_t)sequence->value_count + 1;
  if (!plan->problem.in_sections) return AC_OK;
  checker c = {plan, sequence, calloc((size_t)plan->graph->tensor_count + 1, sizeof *c.read),
               malloc(values * sizeof *c.made), malloc(values * sizeof *c.used)};
  ac_status status = AC_OK;
  if (!c.read || !c.made || !c.used) status = ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  for (int i = 0; i < sequence->value_count && status == AC_OK; i++) c.made[i] = c.used[i] = -1;
  if (status == AC_OK) status = check_ends(sequence);
  if (status == AC_OK) status = check_steps(&c);
  for (int i = 0; i < sequence->value_count && status == AC_OK; i++)
    if (sequence->values[i].tensor >= 0) status = check_value(&c, i);
  free(c.read);
  free(c.made);
  free(c.used);
  return status;
}
