/* What a section hands on to a later one is kept for the whole window. If an op that is bound by
 * bytes made it (a function of elements, a norm applied) of what is kept anyway, the later section
 * can make it again, one micro-batch at a time. That takes a little time, and the window's memory
 * for it is free.
 *
 *   keeps   x, y = relu(norm(x))   | reads y
 *   repeats x                      | y = relu(norm(x)) again, reads y
 *
 * A value is repeated in all later sections that read it, or in none, so lifetimes of others stay
 * as they are. Linear in steps, but for the depth of what is repeated. */
#include "plan/stages.h"

#include "core/error.h"
#include "ops/description.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8 };

typedef struct repeater {
  const ac_graph *graph;
  ac_sequence sequence; /* of the order as it is; nothing shares memory */
  int *section;         /* by step */
  int *maker;           /* by value: the step; -1: none */
  bool *repeated;       /* by value */
  int *here;            /* by value: one more than the section that it was repeated in last */
  int *list, count, capacity;
} repeater;

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory for an order");
}

static int section_of_point(const repeater *r, int point) {
  const int last = ac_sequence_end(&r->sequence) - 1;
  return r->section[point < last ? point : last];
}

/* Whether the caller says that a tensor is never computed twice. */
static bool is_kept(const repeater *r, int tensor) {
  return ac_tensor_at(r->graph, ac_tensor_at(r->graph, tensor)->storage)->hint == AC_KEEP;
}

/* A node that makes one activation for samples, which may be made twice, and is cheap. */
static bool is_cheap(const repeater *r, const ac_step *step) {
  const ac_node *node = ac_node_at(r->graph, step->node);
  if (node->out[0] < 0 || is_kept(r, node->out[0])) return false;
  if (ac_op_describe(node->op)->bound == AC_BOUND_BY_ARITHMETIC || step->copy.tensor >= 0)
    return false;
  for (int j = 1; j < AC_MAX_OUTPUTS; j++)
    if (node->out[j] >= 0) return false;
  return step->out[0].value >= 0 && step->write[0] == AC_OVERWRITE;
}

/* Whether a value that an earlier section has made is there in this one, or can be. */
static bool can_be_had(const repeater *r, int value, int section, int depth) {
  const ac_value *v = &r->sequence.values[value];
  const bool earlier = section_of_point(r, v->first) < section || v->outside;
  const bool there = earlier && section_of_point(r, v->last) >= section;
  if (there && !r->repeated[value]) return true;
  if (v->outside || depth == DEPTH || !is_cheap(r, &r->sequence.steps[r->maker[value]]))
    return false;
  const ac_step *step = &r->sequence.steps[r->maker[value]];
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (step->in[i].value >= 0 && !can_be_had(r, step->in[i].value, section, depth + 1))
      return false;
  return true;
}

/* Decides at the first step that reads a value in a later section, where all is known that its own
 * inputs depend on: these were made before it. */
static void decide(repeater *r, int value) {
  ac_value *v = &r->sequence.values[value];
  if (r->maker[value] < 0 || v->outside || !v->varies) return;
  const int from = section_of_point(r, v->first), to = section_of_point(r, v->last);
  const ac_step *step = &r->sequence.steps[r->maker[value]];
  if (from == to || !ac_tensor_at(r->graph, v->tensor)->shape.batched || !is_cheap(r, step)) return;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (step->in[i].value >= 0 && !can_be_had(r, step->in[i].value, to, 0)) return;
  r->repeated[value] = true;
}

static ac_status append(repeater *r, int node) {
  if (r->count == r->capacity) {
    const int capacity = 2 * r->capacity + 256;
    int *grown = realloc(r->list, (size_t)capacity * sizeof *grown);
    if (!grown) return no_memory();
    r->list = grown;
    r->capacity = capacity;
  }
  r->list[r->count++] = node;
  return AC_OK;
}

/* Makes a value again for this section, unless it is there. */
static ac_status ensure(repeater *r, int value, int section) {
  const ac_value *v = &r->sequence.values[value];
  if (r->here[value] == section + 1 || v->outside || section_of_point(r, v->first) == section)
    return AC_OK;
  if (!r->repeated[value] && section_of_point(r, v->last) >= section) return AC_OK;
  const ac_step *step = &r->sequence.steps[r->maker[value]];
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (step->in[i].value >= 0) AC_TRY(ensure(r, step->in[i].value, section));
  r->here[value] = section + 1;
  return append(r, step->node);
}

static ac_status list_anew(repeater *r, int *mark) {
  const int end = ac_sequence_end(&r->sequence), marked = mark ? *mark : -1;
  for (int i = 0; i < end; i++) {
    const ac_step *step = &r->sequence.steps[i];
    if (i == marked) *mark = r->count;
    for (int k = 0; k < AC_MAX_INPUTS; k++)
      if (step->in[k].value >= 0) AC_TRY(ensure(r, step->in[k].value, r->section[i]));
    if (step->copy.value >= 0) AC_TRY(ensure(r, step->copy.value, r->section[i]));
    AC_TRY(append(r, step->node));
  }
  if (marked >= end) *mark = r->count;
  return AC_OK;
}

static ac_status make_room(repeater *r) {
  const size_t values = (size_t)r->sequence.value_count + 1;
  r->section = malloc(((size_t)r->sequence.step_count + 1) * sizeof *r->section);
  r->maker = malloc(values * sizeof *r->maker);
  r->repeated = calloc(values, sizeof *r->repeated);
  r->here = calloc(values, sizeof *r->here);
  return r->section && r->maker && r->repeated && r->here ? AC_OK : no_memory();
}

static ac_status repeat(repeater *r, int *mark) {
  const ac_sequence *sequence = &r->sequence;
  AC_TRY(make_room(r));
  for (int s = 0; s < sequence->section_count; s++)
    for (int i = sequence->sections[s]; i < sequence->sections[s + 1]; i++) r->section[i] = s;
  for (int i = 0; i < sequence->value_count; i++) r->maker[i] = -1;
  for (int i = 0; i < ac_sequence_end(sequence); i++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      const int value = sequence->steps[i].out[j].value;
      if (value < 0 || r->maker[value] >= 0) continue;
      r->maker[value] = i;
    }
  for (int i = 0; i < sequence->value_count; i++) decide(r, i);
  return list_anew(r, mark);
}

ac_status ac_order_repeat(ac_order *order, ac_sequence_room *room, const ac_graph *graph,
                          int64_t window, int *mark) {
  repeater r = {.graph = graph};
  ac_sequence_room own = {0};
  ac_status status = room ? AC_OK : ac_sequence_room_create(&own, graph);
  if (status == AC_OK)
    status =
        ac_sequence_build_in(room ? room : &own, &r.sequence, graph, AC_TARGET_GRADIENTS,
                             (ac_storage){.window = window, .apart = true}, &order->nodes, NULL);
  if (status == AC_OK) status = repeat(&r, mark);
  if (status == AC_OK) {
    free(order->nodes.list);
    order->nodes = (ac_nodes){r.list, r.count};
    order->capacity = r.capacity;
  } else {
    free(r.list);
  }
  ac_sequence_free(&r.sequence);
  ac_sequence_room_free(&own);
  free(r.section);
  free(r.maker);
  free(r.repeated);
  free(r.here);
  return status;
}
