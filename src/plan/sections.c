/* Sections: where a window's micro-batches wait for each other.
 *
 *   | section 0          | section 1            | section 2 ...
 *   | 0 0 0 1 1 1 2 2 2  | 0 0 1 1 2 2          |          the micro-batch that each step runs for
 *
 * A step that reads what micro-batches add up (the moments of a batch norm over the window) needs
 * all of it, so a section begins there. Each section runs for one micro-batch after the other.
 *
 * A value that varies with the samples and is read in its own section only is made and used by one
 * micro-batch before the next begins. One that is read in a later section is whole: it has a place
 * for each micro-batch, and is alive from the beginning of the section that fills it to the end of
 * the last one that reads it, since other micro-batches run these in between. What does not vary is
 * made in the first micro-batch, and alive in the same way. A gradient that varies and has no batch
 * is one micro-batch's share: what is made of it is added up. Linear in steps and values. */
#include "plan/plan.h"

#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>
#include <string.h>

typedef struct finder {
  ac_sequence *sequence;
  const ac_graph *graph;
  int *added; /* by storage: one more than the section that adds to this sum */
} finder;

static bool is_open(const finder *f, ac_slot slot) {
  const ac_sequence *sequence = f->sequence;
  if (slot.tensor < 0) return false;
  return f->added[ac_tensor_at(f->graph, slot.tensor)->storage] == sequence->section_count;
}

/* Whether the step reads a sum that its section adds to. */
static bool reads_open(const finder *f, const ac_step *step) {
  bool reads = is_open(f, step->copy);
  for (int i = 0; i < AC_MAX_INPUTS; i++) reads |= is_open(f, step->in[i]);
  return reads;
}

static bool slot_varies(const finder *f, ac_slot slot) {
  if (slot.tensor < 0) return false;
  return ac_tensor_at(f->graph, slot.tensor)->shape.batched ||
         (slot.value >= 0 && f->sequence->values[slot.value].varies);
}

static bool step_varies(const finder *f, const ac_step *step) {
  bool varies = slot_varies(f, step->copy);
  for (int i = 0; i < AC_MAX_INPUTS; i++) varies |= slot_varies(f, step->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) varies |= slot_varies(f, step->out[j]);
  return varies;
}

static void mark_step(finder *f, ac_step *step) {
  const bool varies = step_varies(f, step);
  step->once = !varies;
  for (int j = 0; j < AC_MAX_OUTPUTS && varies; j++) {
    const ac_slot out = step->out[j];
    if (out.tensor < 0) continue;
    const int storage = ac_tensor_at(f->graph, out.tensor)->storage;
    if (out.value >= 0) f->sequence->values[out.value].varies = true;
    else if (ac_role_is_sum(ac_tensor_at(f->graph, storage)->role))
      f->added[storage] = f->sequence->section_count;
  }
}

ac_status ac_sections_find(ac_sequence *sequence, const ac_graph *graph) {
  const int end = ac_sequence_end(sequence);
  finder f = {sequence, graph, calloc((size_t)graph->tensor_count + 1, sizeof *f.added)};
  sequence->sections = malloc(((size_t)end + 2) * sizeof *sequence->sections);
  if (!f.added || !sequence->sections) {
    free(f.added);
    return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  }
  for (int i = 0; i < sequence->value_count; i++) {
    ac_value *value = &sequence->values[i];
    value->varies = value->tensor >= 0 && ac_tensor_at(graph, value->tensor)->shape.batched;
  }
  sequence->section_count = 0;
  for (int i = 0; i < end; i++) {
    ac_step *step = &sequence->steps[i];
    if (i == 0 || reads_open(&f, step)) sequence->sections[sequence->section_count++] = i;
    mark_step(&f, step);
  }
  sequence->sections[sequence->section_count] = end;
  free(f.added);
  return AC_OK;
}

/* The section of a point; what follows all of them counts to the last. */
static int section_at(const ac_sequence *sequence, int point) {
  int low = 0, high = sequence->section_count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (sequence->sections[middle] <= point) low = middle;
    else high = middle - 1;
  }
  return low;
}

void ac_sections_extend(ac_sequence *sequence) {
  for (int i = 0; i < sequence->value_count && sequence->section_count; i++) {
    ac_value *value = &sequence->values[i];
    if (value->shares != i || value->first >= ac_sequence_end(sequence)) continue;
    const int from = section_at(sequence, value->first), to = section_at(sequence, value->last),
              end = sequence->sections[to + 1] - 1;
    value->whole = value->varies && from != to;
    value->lasts = !value->varies || value->whole;
    if (!value->lasts) continue;
    value->first = sequence->sections[from];
    if (value->last < end) value->last = end;
  }
}

int64_t ac_sections_places(const ac_sequence *sequence, const ac_value *value,
                           int64_t micro_batch) {
  return value->whole ? ac_ceil_div(sequence->window, micro_batch) : 1;
}
