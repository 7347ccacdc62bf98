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
 * is one micro-batch's share: what is made of it is added up.
 *
 * A section may also end where nothing asks for it. What one micro-batch made and used across that
 * place is then whole. But what the beginning of the section reads for the last time, and what its
 * end makes for later sections, are no longer alive together. Where that is worth more, a section
 * is cut, and so are its parts. Linear in steps and values, but for the depth of such cuts. */
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

ac_status ac_sections_find(ac_sequence *sequence, const ac_graph *graph, int *added) {
  const int end = ac_sequence_end(sequence);
  finder f = {sequence, graph, added};
  sequence->sections = malloc(((size_t)end + 2) * sizeof *sequence->sections);
  if (!sequence->sections) return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
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

/* ---- cuts that save memory ------------------------------------------------------------------- */

enum { CUTS_DEEP = 6 };

typedef struct cutter {
  ac_sequence *sequence;
  const ac_graph *graph;
  int64_t *crossing, *ended, *begun; /* by point: bytes of a sample */
  bool *cut;                         /* by step: a section begins */
  int *first, *last;                 /* by point: a value that begins or ends there; -1: none */
  int *same_first, *same_last;       /* by value: the next one that does so too */
} cutter;

/* Lists values by where they begin and end: those that vary and have memory of their own. */
static void list_ends(cutter *c) {
  const ac_sequence *sequence = c->sequence;
  const int end = ac_sequence_end(sequence);
  for (int p = 0; p <= end; p++) c->first[p] = c->last[p] = -1;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (value->shares != i || !value->varies || value->tensor < 0 || value->first >= end) continue;
    c->same_first[i] = c->first[value->first], c->first[value->first] = i;
    if (value->last >= end) continue;
    c->same_last[i] = c->last[value->last], c->last[value->last] = i;
  }
}

static int64_t sample_bytes(const cutter *c, const ac_value *value) {
  const ac_tensor *tensor = ac_tensor_at(c->graph, value->tensor);
  return ac_shape_count(&tensor->shape) * (int64_t)ac_dtype_bytes(tensor->dtype);
}

/* The accounts of the points in [begin, end): what would cross a cut before the point and does not
 * cross the section's ends; what from outside ends at it; what begins at it for others. */
static void take_accounts(cutter *c, int begin, int end) {
  const ac_value *values = c->sequence->values;
  for (int p = begin; p <= end; p++) c->crossing[p] = c->ended[p] = c->begun[p] = 0;
  for (int p = begin; p < end; p++) {
    for (int i = c->first[p]; i >= 0; i = c->same_first[i]) {
      const int64_t bytes = sample_bytes(c, &values[i]);
      if (values[i].last >= end) c->begun[p] += bytes;
      else c->crossing[p + 1] += bytes, c->crossing[values[i].last + 1] -= bytes;
    }
    for (int i = c->last[p]; i >= 0; i = c->same_last[i])
      if (values[i].first < begin) c->ended[p] += sample_bytes(c, &values[i]);
  }
}

/* Cuts the section [begin, end) where that saves most, and then its parts. */
static void cut_section(cutter *c, int begin, int end, int depth) {
  int64_t crossing = 0, ended = 0, begun = 0, best = 0;
  int place = -1;
  if (depth == CUTS_DEEP || end - begin < 2) return;
  take_accounts(c, begin, end);
  for (int p = begin; p < end; p++) begun += c->begun[p];
  for (int p = begin + 1; p < end; p++) {
    ended += c->ended[p - 1];
    begun -= c->begun[p - 1];
    crossing += c->crossing[p];
    const int64_t gain = ac_smaller(ended, begun) - crossing;
    if (gain > best) best = gain, place = p;
  }
  if (place < 0) return;
  c->cut[place] = true;
  cut_section(c, begin, place, depth + 1);
  cut_section(c, place, end, depth + 1);
}

static ac_status make_room_for_cuts(cutter *c) {
  const size_t points = (size_t)ac_sequence_end(c->sequence) + 2,
               values = (size_t)c->sequence->value_count + 1;
  c->crossing = malloc(points * sizeof *c->crossing);
  c->ended = malloc(points * sizeof *c->ended);
  c->begun = malloc(points * sizeof *c->begun);
  c->cut = calloc(points, sizeof *c->cut);
  c->first = malloc(points * sizeof *c->first);
  c->last = malloc(points * sizeof *c->last);
  c->same_first = malloc(values * sizeof *c->same_first);
  c->same_last = malloc(values * sizeof *c->same_last);
  const bool lists = c->first && c->last && c->same_first && c->same_last;
  if (c->crossing && c->ended && c->begun && c->cut && lists) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
}

static ac_status cut_sections(ac_sequence *sequence, const ac_graph *graph) {
  cutter c = {.sequence = sequence, .graph = graph};
  const ac_status status = make_room_for_cuts(&c);
  const int end = ac_sequence_end(sequence);
  if (status == AC_OK) list_ends(&c);
  for (int s = 0; s < sequence->section_count && status == AC_OK; s++) {
    c.cut[sequence->sections[s]] = true;
    cut_section(&c, sequence->sections[s], sequence->sections[s + 1], 0);
  }
  if (status == AC_OK) sequence->section_count = 0;
  for (int i = 0; i < end && status == AC_OK; i++)
    if (c.cut[i]) sequence->sections[sequence->section_count++] = i;
  sequence->sections[sequence->section_count] = end;
  free(c.crossing);
  free(c.ended);
  free(c.begun);
  free(c.cut);
  free(c.first);
  free(c.last);
  free(c.same_first);
  free(c.same_last);
  return status;
}

ac_status ac_sections_extend(ac_sequence *sequence, const ac_graph *graph) {
  AC_TRY(cut_sections(sequence, graph));
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
  return AC_OK;
}

int64_t ac_sections_places(const ac_sequence *sequence, const ac_value *value,
                           int64_t micro_batch) {
  return value->whole ? ac_ceil_div(sequence->window, micro_batch) : 1;
}
