/* What is true of every plan. It is checked when a plan is made, whatever code laid it down:
 *
 *   - each node that adds to sums (gradients, loss, pooled statistics) does so in one step, the
 *     first in which it runs, and a node that yields nothing but sums runs once; the sums are the
 *     outputs that the op's description names;
 *   - every trained parameter's gradient is a sum that some step adds to, and an update steps each
 *     of these parameters once, and no other; each step is in the phase of its node; fused: a
 *     gradient is final when it is measured and when its parameter is stepped, and nothing reads
 *     the parameter or its working copy afterwards; locally: before that it was also measured, all
 *     losses are known, and what depends on no gradient moves after all that depends on one;
 *     folded: it is final when it becomes part of its own parameter's state, once a micro-batch,
 *     and nothing else in the micro-batch touches that state;
 *   - state that is transferred is in host memory, and steps find it in values as large as their
 * parts, alive from the step before to the step after; parts follow one another to the last
 * element;
 *   - what persists does not overlap, and values lie after it, within the plan's bytes; values that
 *     are alive at the same step do not overlap; none straddles two chunks; if a value lives in the
 *     memory of another, that other is alive as long.
 *
 * Values are compared from low addresses to high ones: each must lie at or above the highest end of
 * the earlier values at the points at which it is alive. A tree over the points keeps these ends,
 * so that all is n log n. */
#include "plan/shards.h"

#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>
#include <string.h>

static ac_status broken(const ac_plan *plan, const ac_step *step, const char *what) {
  char text[128];
  ac_node_text(text, sizeof text, plan->graph, ac_node_at(plan->graph, step->node));
  return ac_fail(AC_ERROR_INTERNAL, "plan: %s %s", text, what);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static ac_role role_of(const ac_plan *plan, int tensor) {
  return ac_tensor_at(plan->graph, ac_tensor_at(plan->graph, tensor)->storage)->role;
}

/* A sum of the window is what the op says to be one, and a gradient what it can add to. */
static bool is_bf16(const ac_plan *plan, int tensor) {
  return ac_tensor_at(plan->graph, tensor)->dtype == AC_BF16;
}

static bool may_be(ac_op op, int output, ac_role role) {
  const ac_op_desc *desc = ac_op_describe(op);
  if (role == AC_ROLE_GRADIENT) return (desc->can_add >> output & 1) || desc->rewrites;
  return ac_role_is_sum(role) == (desc->sums >> output & 1);
}

/* `ran`: by node; `summed`: by parameter, whether a step adds to its gradient. */
static ac_status check_step(const ac_plan *plan, const ac_step *step, bool *ran, bool *summed) {
  const ac_node *node = ac_node_at(plan->graph, step->node);
  bool again = ran[step->node], yields = false;
  ran[step->node] = true;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    const ac_role role = role_of(plan, node->out[j]);
    const bool sum = ac_role_is_sum(role), writes = step->out[j].tensor >= 0;
    const bool by_chance = ac_op_output_kind(node->op, j) == 'p';
    if (role == AC_ROLE_GRADIENT && !by_chance && is_bf16(plan, node->out[j]))
      return broken(plan, step, "adds to a gradient in bf16 and does not round by chance");
    if (!may_be(node->op, j, role)) return broken(plan, step, "does not say what it sums up");
    yields |= !sum;
    if (sum && writes && again) return broken(plan, step, "would add to its sums twice");
    if (sum && !writes && !again) return broken(plan, step, "would not add to its sums");
    const ac_tensor *tensor = ac_tensor_at(plan->graph, node->out[j]);
    if (tensor->role == AC_ROLE_GRADIENT && writes) summed[tensor->parameter] = true;
  }
  if (again && !yields) return broken(plan, step, "yields sums alone and would run twice");
  return AC_OK;
}

static ac_status check_sequence(const ac_plan *plan, const ac_sequence *sequence, bool *ran,
                                bool *summed) {
  memset(ran, 0, (size_t)plan->graph->node_count * sizeof *ran);
  memset(summed, 0, (size_t)plan->graph->parameter_count * sizeof *summed);
  for (int i = 0; i < sequence->step_count; i++)
    AC_TRY(check_step(plan, &sequence->steps[i], ran, summed));
  return AC_OK;
}

/* Checks a pass with a backward part. */
static ac_status check_pass(const ac_plan *plan, const ac_sequence *sequence, bool *ran,
                            bool *summed) {
  const ac_graph *graph = plan->graph;
  AC_TRY(check_sequence(plan, sequence, ran, summed));
  for (int i = 0; i < graph->parameter_count; i++)
    if (plan->problem.parameters[i].gradient >= 0 && !summed[i])
      return ac_fail(AC_ERROR_INTERNAL, "plan: no step would yield the gradient of \"%s\"",
                     ac_tensor_at(graph, graph->parameters[i])->name);
  return AC_OK;
}

/* How often steps add to gradients. */
static int count_additions(const ac_plan *plan, const ac_sequence *sequence) {
  int count = 0;
  for (int i = 0; i < sequence->step_count; i++)
    if (ac_node_at(plan->graph, sequence->steps[i].node)->phase == AC_PHASE_MICRO_BATCH)
      for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
        const int tensor = sequence->steps[i].out[j].tensor;
        count += tensor >= 0 && role_of(plan, tensor) == AC_ROLE_GRADIENT;
      }
  return count;
}

static ac_status check_steps(const ac_plan *plan, bool *ran, bool *summed) {
  AC_TRY(check_sequence(plan, &plan->evaluation, ran, summed));
  AC_TRY(check_sequence(plan, &plan->prediction, ran, summed));
  int first = 0;
  for (int pass = 0; pass < plan->way->passes; pass++) {
    AC_TRY(check_pass(plan, ac_plan_pass(plan, pass), ran, summed));
    const int additions = count_additions(plan, ac_plan_pass(plan, pass));
    if (!pass) first = additions;
    if (additions != first)
      return ac_fail(AC_ERROR_INTERNAL, "plan: the two passes would add up other gradients");
  }
  return AC_OK;
}

/* `taken`: the phases that have their nodes among those of the micro-batch, as bits. */
static ac_status check_phases(const ac_plan *plan, const ac_sequence *sequence, int taken) {
  for (int phase = 0; phase < AC_PHASE_COUNT; phase++)
    for (int i = sequence->begin[phase]; i < sequence->begin[phase + 1]; i++) {
      const ac_phase own = ac_node_at(plan->graph, sequence->steps[i].node)->phase;
      if ((int)own != phase && (phase != AC_PHASE_MICRO_BATCH || !(taken >> own & 1)))
        return broken(plan, &sequence->steps[i], "would run in another phase than its own");
    }
  return AC_OK;
}

static ac_status check_all_phases(const ac_plan *plan) {
  for (int pass = 0; pass < plan->way->passes; pass++)
    AC_TRY(check_phases(plan, ac_plan_pass(plan, pass), plan->way->phases[pass]));
  return AC_OK;
}

/* ---- fused and folded ------------------------------------------------------------------------ */

/* Running statistics that norms share follow one pool after the other. */
static bool moves_again(const ac_plan *plan, const ac_step *step, int tensor) {
  const ac_tensor *moved = ac_tensor_at(plan->graph, ac_tensor_at(plan->graph, tensor)->storage);
  return ac_node_at(plan->graph, step->node)->phase == AC_PHASE_UPDATE &&
         moved->role == AC_ROLE_PARAMETER &&
         plan->problem.parameters[moved->parameter].gradient < 0;
}

/* Whether a step moves the average of a parameter, which it finds stepped. */
static bool averages(const ac_plan *plan, const ac_step *step) {
  const int out = ac_node_at(plan->graph, step->node)->out[0];
  return out >= 0 && ac_tensor_at(plan->graph, out)->role == AC_ROLE_AVERAGE;
}

/* What a step of another phase than the micro-batch's has read is written no more, and what it has
 * written nothing else touches. settled, by storage: 1: read, 2: written. */
static ac_status check_touch(const ac_plan *plan, const ac_step *step, const char *settled) {
  const bool rewrites = ac_op_describe(ac_node_at(plan->graph, step->node)->op)->rewrites;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const int tensor = step->in[i].tensor;
    if (tensor >= 0 && settled[ac_tensor_at(plan->graph, tensor)->storage] == 2 &&
        !averages(plan, step))
      return broken(plan, step, "would read what was stepped before");
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    const int tensor = step->out[j].tensor;
    if (tensor >= 0 && settled[ac_tensor_at(plan->graph, tensor)->storage] && !rewrites &&
        !moves_again(plan, step, tensor))
      return broken(plan, step, "would add to a sum that was final");
  }
  return AC_OK;
}

/* A caller's own step after this one writes the parameter and its working copy. */
static void settle_handed(const ac_plan *plan, const ac_step *step, char *settled) {
  const ac_parameter_tensors *own =
      &plan->problem.parameters[ac_tensor_at(plan->graph, step->in[0].tensor)->parameter];
  settled[own->tensor] = 2;
  if (own->working >= 0) settled[own->working] = 2;
}

static void settle(const ac_plan *plan, const ac_step *step, char *settled) {
  const ac_node *node = ac_node_at(plan->graph, step->node);
  const bool hands_over = ac_problem_hands_over(&plan->problem, node);
  /* The step that takes what is left settles both. */
  if (ac_op_describe(node->op)->rewrites && !hands_over) return;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (step->in[i].tensor >= 0)
      settled[ac_tensor_at(plan->graph, step->in[i].tensor)->storage] = 1;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (step->out[j].tensor >= 0)
      settled[ac_tensor_at(plan->graph, step->out[j].tensor)->storage] = 2;
  if (hands_over) settle_handed(plan, step, settled);
}

static ac_status check_places(const ac_plan *plan, const ac_sequence *sequence) {
  char *settled = calloc((size_t)plan->graph->tensor_count + 1, sizeof *settled);
  ac_status status = AC_OK;
  if (!settled) return ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  for (int i = 0; i < ac_sequence_end(sequence) && status == AC_OK; i++) {
    const ac_step *step = &sequence->steps[i];
    if (!step->part.first) status = check_touch(plan, step, settled);
    if (ac_node_at(plan->graph, step->node)->phase != AC_PHASE_MICRO_BATCH)
      settle(plan, step, settled);
  }
  free(settled);
  return status;
}

/* The parameter with the gradient that the step folds into its state; -1: none. */
static int folded_parameter(const ac_plan *plan, const ac_step *step) {
  if (ac_node_at(plan->graph, step->node)->phase != AC_PHASE_FOLD) return -1;
  const ac_tensor *from = ac_tensor_at(plan->graph, step->in[0].tensor);
  const ac_tensor *to = ac_tensor_at(plan->graph, step->out[0].tensor);
  const bool own = from && to && from->folded && to->role == AC_ROLE_STATE && to->state == 0;
  return own && from->parameter == to->parameter ? from->parameter : -1;
}

/* `folded`: by parameter. */
static ac_status check_folds(const ac_plan *plan, bool *folded) {
  const ac_graph *graph = plan->graph;
  const ac_sequence *sequence = &plan->main;
  memset(folded, 0, (size_t)graph->parameter_count * sizeof *folded);
  for (int i = 0; i < ac_sequence_end(sequence); i++) {
    const int parameter = folded_parameter(plan, &sequence->steps[i]);
    if (parameter < 0) continue;
    if (folded[parameter]) return broken(plan, &sequence->steps[i], "would fold a gradient twice");
    folded[parameter] = true;
  }
  for (int i = 0; i < graph->parameter_count; i++) {
    const int gradient = plan->problem.parameters[i].gradient;
    if (gradient >= 0 && folded[i] != ac_tensor_at(graph, gradient)->folded)
      return ac_fail(AC_ERROR_INTERNAL, "plan: the gradient of \"%s\" would be lost",
                     ac_tensor_at(graph, graph->parameters[i])->name);
  }
  return AC_OK;
}

/* For a step that a local plan decides on by itself: what is known for the decision. settled, by
 * storage: whether it was measured. `losses`: known so far; `moved`: whether a step that depends on
 * no gradient came before. */
typedef struct knowledge {
  char *settled;
  int losses;
  bool moved;
} knowledge;

static ac_status check_decision(const ac_plan *plan, const ac_step *step, knowledge *k) {
  const ac_tensor *sum = ac_tensor_at(plan->graph, step->in[0].tensor);
  if (averages(plan, step)) {
    k->moved = true;
    return AC_OK;
  }
  if (!k->settled[sum->storage]) return broken(plan, step, "would step what was not measured");
  if (k->losses < plan->graph->loss_count)
    return broken(plan, step, "would step before all losses are known");
  if (sum->role == AC_ROLE_GRADIENT && k->moved)
    return broken(plan, step, "would step after a step that needs its result");
  k->moved |= sum->role != AC_ROLE_GRADIENT;
  return AC_OK;
}

static ac_status learn(const ac_plan *plan, const ac_step *step, knowledge *k) {
  const ac_phase phase = ac_node_at(plan->graph, step->node)->phase;
  if (phase == AC_PHASE_UPDATE) return check_decision(plan, step, k);
  if (phase == AC_PHASE_REDUCE)
    k->settled[ac_tensor_at(plan->graph, step->in[0].tensor)->storage] = 1;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    k->losses +=
        step->out[j].tensor >= 0 && ac_graph_loss_index(plan->graph, step->out[j].tensor) >= 0;
  return AC_OK;
}

static ac_status check_decisions(const ac_plan *plan) {
  knowledge k = {.settled = calloc((size_t)plan->graph->tensor_count + 1, 1)};
  ac_status status = AC_OK;
  if (!k.settled) return ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  for (int i = 0; i < plan->main.step_count && status == AC_OK; i++)
    status = learn(plan, &plan->main.steps[i], &k);
  free(k.settled);
  return status;
}

static ac_status check_guests(const ac_plan *plan, bool *folded) {
  AC_TRY(check_folds(plan, folded));
  for (int pass = 0; pass < plan->way->passes; pass++)
    if (plan->way->phases[pass]) AC_TRY(check_places(plan, ac_plan_pass(plan, pass)));
  return plan->way->steps_alone ? check_decisions(plan) : AC_OK;
}

/* ---- updates --------------------------------------------------------------------------------- */

/* Whether a tensor is the parameter's gradient, or the state that this is folded into. */
static bool stands_for_gradient(const ac_plan *plan, const ac_tensor *tensor, int parameter) {
  const int gradient = plan->problem.parameters[parameter].gradient;
  const bool folded = gradient >= 0 && ac_tensor_at(plan->graph, gradient)->folded;
  return tensor->role == (folded ? AC_ROLE_STATE : AC_ROLE_GRADIENT) && tensor->state == 0;
}

/* The parameter with the gradient that an update's step uses, or that it hands over; -1: none. */
static int stepped_parameter(const ac_plan *plan, const ac_step *step) {
  if (step->in[0].tensor < 0 || step->out[0].tensor < 0) return -1;
  const ac_tensor *from = ac_tensor_at(plan->graph, step->in[0].tensor);
  const ac_tensor *to = ac_tensor_at(plan->graph, step->out[0].tensor);
  if (ac_problem_hands_over(&plan->problem, ac_node_at(plan->graph, step->node)))
    return from == to ? from->parameter : -1;
  if (to->role != AC_ROLE_PARAMETER) return -1;
  return stands_for_gradient(plan, from, to->parameter) ? to->parameter : -1;
}

/* Whether a step goes on where the one before has ended, *next, which it moves on; 0: at the
 * parameter's end. */
static bool goes_on(const ac_plan *plan, const ac_step *step, int parameter, int64_t *next) {
  const ac_graph *graph = plan->graph;
  const ac_part *part = &step->part;
  const int64_t all = ac_shape_count(&ac_tensor_at(graph, graph->parameters[parameter])->shape);
  if (part->first != *next || part->count < 0 || part->first + part->count > all) return false;
  *next = part->count ? (part->first + part->count) % all : 0;
  return part->count || !part->first;
}

/* Whether a step is for all that this rank steps of its parameter. */
static bool is_own_part(const ac_plan *plan, const ac_step *step) {
  ac_part part;
  return ac_shards_run(&plan->problem, ac_node_at(plan->graph, step->node), &part) &&
         part.first == step->part.first && part.count == step->part.count;
}

/* Other ranks step what this one does not. */
static bool is_stepped_here(const ac_plan *plan, int parameter) {
  int64_t first, count;
  if (plan->problem.parameters[parameter].gradient < 0) return false;
  ac_shards_own(&plan->problem, parameter, &first, &count);
  return count > 0;
}

ac_status ac_plan_check_update(const ac_plan *plan, int *stepped) {
  const ac_graph *graph = plan->graph;
  const int last = plan->way->passes - 1;
  const ac_sequence *sequence = ac_plan_pass(plan, last);
  const int first = plan->way->phases[last] ? 0 : sequence->begin[AC_PHASE_UPDATE];
  int64_t next = 0;
  memset(stepped, 0, (size_t)graph->parameter_count * sizeof *stepped);
  for (int i = first; i < sequence->step_count; i++) {
    int parameter = stepped_parameter(plan, &sequence->steps[i]);
    if (parameter < 0) continue;
    if (sequence->shards) {
      if (!is_own_part(plan, &sequence->steps[i]))
        return broken(plan, &sequence->steps[i], "would step another part than this rank's");
      stepped[parameter]++;
      continue;
    }
    if (!goes_on(plan, &sequence->steps[i], parameter, &next))
      return broken(plan, &sequence->steps[i], "would leave out a part of its parameter");
    stepped[parameter] += next == 0;
  }
  for (int i = 0; i < graph->parameter_count && plan->problem.desc.purpose == AC_TRAIN; i++)
    if (stepped[i] != is_stepped_here(plan, i))
      return ac_fail(AC_ERROR_INTERNAL, "an update would step \"%s\" %d times",
                     ac_tensor_at(graph, graph->parameters[i])->name, stepped[i]);
  return AC_OK;
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Checks one operand of a step that transfers state, between the steps before and after it that do
 * state. */
static ac_status check_transfer(const ac_plan *plan, const ac_sequence *sequence,
                                const ac_step *step, ac_slot slot, int first, int last) {
  const ac_tensor *tensor = ac_tensor_at(plan->graph, slot.tensor);
  const int64_t part = ac_transfers_range(tensor->dtype, step->part).count;
  const ac_cell *cell = ac_plan_cell(plan, AC_ROLE_STATE, tensor->parameter, tensor->state);
  if (!cell || (cell->space == AC_SPACE_HOST) != (slot.value >= 0))
    return broken(plan, step, "would not find what is kept for its parameter");
  if (slot.value < 0) return AC_OK;
  const ac_value *value = &sequence->values[slot.value];
  const uint64_t bytes = (uint64_t)(part ? part : cell->count) * ac_dtype_bytes(cell->dtype);
  if (value->shares != slot.value || value->bytes < bytes)
    return broken(plan, step, "would move more than there is room for");
  if (value->first <= first && value->last >= last) return AC_OK;
  return broken(plan, step, "would find that other values are where its state is transferred");
}

static ac_status check_transfers(const ac_plan *plan, const ac_sequence *sequence) {
  int before = -1, next = ac_transfers_next(sequence, -1);
  for (int i = 0; i < sequence->step_count; i++) {
    const ac_step *step = &sequence->steps[i];
    if (next >= 0 && next <= i) next = ac_transfers_next(sequence, i);
    const int first = ac_sequence_point(sequence, before < 0 ? i : before);
    const int last = ac_sequence_point(sequence, next < 0 ? i : next);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (step->out[j].tensor >= 0 && role_of(plan, step->out[j].tensor) == AC_ROLE_STATE)
        AC_TRY(check_transfer(plan, sequence, step, step->out[j], first, last));
    if (step->transfers) before = i;
  }
  return AC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct span {
  uint64_t address, bytes;
  int first, last; /* steps */
} span;

static ac_status overlapping(const char *what) {
  return ac_fail(AC_ERROR_INTERNAL, "plan: %s would overlap", what);
}

static ac_status check_within(const ac_plan *plan, const span *s, uint64_t from) {
  uint64_t chunk = plan->chunk_bytes, end = s->address + s->bytes;
  bool straddles = chunk && s->bytes && s->address / chunk != (end - 1) / chunk;
  if (s->address >= from && end <= plan->info.bytes.total && !straddles) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL,
                 "plan: %llu bytes at %llu would lie beyond the plan's %llu, across two chunks of "
                 "%llu or where something persists",
                 (unsigned long long)s->bytes, (unsigned long long)s->address,
                 (unsigned long long)plan->info.bytes.total, (unsigned long long)chunk);
}

static int by_address(const void *a, const void *b) {
  const span *x = a, *y = b;
  return (x->address > y->address) - (x->address < y->address);
}

/* *end: where the last cell ends. */
static ac_status check_cells(const ac_plan *plan, span *list, uint64_t *end) {
  int count = 0;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].space == AC_SPACE_DEVICE && plan->cells[i].bytes)
      list[count++] = (span){plan->cells[i].address, plan->cells[i].bytes, 0, 0};
  qsort(list, (size_t)count, sizeof *list, by_address);
  *end = 0;
  for (int i = 0; i < count; i++) {
    if (list[i].address < *end) return overlapping("two tensors that persist");
    AC_TRY(check_within(plan, &list[i], 0));
    *end = list[i].address + list[i].bytes;
  }
  return AC_OK;
}

/* The highest end so far, by points: a segment tree; node k has 2k and 2k + 1 below it. `whole` is
 * true of all points of a node. */
typedef struct skyline {
  int leaves;     /* a power of two */
  uint64_t *most; /* by node: the highest of any of its points */
  uint64_t *whole;
} skyline;

/* The highest end at points of [first, last], of node k, which has [from, from + count). */
static uint64_t highest(const skyline *s, int k, int from, int count, int first, int last) {
  if (last < from || first >= from + count) return 0;
  if (first <= from && from + count - 1 <= last) return s->most[k];
  const int half = count / 2;
  const uint64_t left = highest(s, 2 * k, from, half, first, last),
                 right = highest(s, 2 * k + 1, from + half, half, first, last);
  const uint64_t below = left > right ? left : right;
  return below > s->whole[k] ? below : s->whole[k];
}

static void raise_ends(skyline *s, int k, int from, int count, const span *value) {
  const uint64_t end = value->address + value->bytes;
  if (value->last < from || value->first >= from + count) return;
  if (end > s->most[k]) s->most[k] = end;
  if (value->first <= from && from + count - 1 <= value->last) {
    if (end > s->whole[k]) s->whole[k] = end;
    return;
  }
  raise_ends(s, 2 * k, from, count / 2, value);
  raise_ends(s, 2 * k + 1, from + count / 2, count / 2, value);
}

/* `list` is in the order of addresses. */
static ac_status check_overlaps(const span *list, int count, int last_point) {
  skyline s = {.leaves = 1};
  while (s.leaves <= last_point) s.leaves *= 2;
  s.most = calloc((size_t)s.leaves * 2, sizeof *s.most);
  s.whole = calloc((size_t)s.leaves * 2, sizeof *s.whole);
  ac_status status = AC_OK;
  if (!s.most || !s.whole) status = ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  for (int i = 0; i < count && status == AC_OK; i++) {
    if (highest(&s, 1, 0, s.leaves, list[i].first, list[i].last) > list[i].address)
      status = overlapping("two values");
    else raise_ends(&s, 1, 0, s.leaves, &list[i]);
  }
  free(s.most);
  free(s.whole);
  return status;
}

/* `list` has room for the sequence's values. */
static ac_status check_values(const ac_plan *plan, const ac_sequence *sequence, uint64_t from,
                              span *list) {
  int count = 0, last_point = 0;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    const ac_value *root = &sequence->values[ac_sequence_root(sequence, i)];
    if (value->first < root->first || value->last > root->last)
      return ac_fail(AC_ERROR_INTERNAL,
                     "plan: a value would live longer than the one that it shares memory with");
    if (value != root || !value->bytes) continue;
    const span s = {value->address, value->bytes, value->first, value->last};
    AC_TRY(check_within(plan, &s, from));
    if (s.last > last_point) last_point = s.last;
    list[count++] = s;
  }
  qsort(list, (size_t)count, sizeof *list, by_address);
  return check_overlaps(list, count, last_point);
}

static ac_status check_memory(const ac_plan *plan) {
  int64_t room = ac_larger(plan->main.value_count, plan->evaluation.value_count);
  room = ac_larger(room, plan->prediction.value_count);
  room = ac_larger(plan->cell_count, ac_larger(room, plan->stepping.value_count));
  span *list = malloc(((size_t)room + 1) * sizeof *list);
  if (!list) return ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  uint64_t end;
  ac_status status = check_cells(plan, list, &end);
  if (status == AC_OK) status = check_values(plan, &plan->main, end, list);
  if (status == AC_OK) status = check_values(plan, &plan->stepping, end, list);
  if (status == AC_OK) status = check_values(plan, &plan->evaluation, end, list);
  if (status == AC_OK) status = check_values(plan, &plan->prediction, end, list);
  free(list);
  return status;
}

/* ---------------------------------------------------------------------------------------------- */

ac_status ac_plan_check(const ac_plan *plan) {
  bool *ran = calloc((size_t)plan->graph->node_count + 1, sizeof *ran);
  bool *summed = calloc((size_t)plan->graph->parameter_count + 1, sizeof *summed);
  int *stepped = calloc((size_t)plan->graph->parameter_count + 1, sizeof *stepped);
  ac_status status = AC_OK;
  if (!ran || !summed || !stepped) status = ac_fail(AC_ERROR_MEMORY, "no memory to check a plan");
  if (status == AC_OK) status = check_steps(plan, ran, summed);
  if (status == AC_OK) status = check_all_phases(plan);
  if (status == AC_OK) status = check_guests(plan, summed);
  if (status == AC_OK) status = ac_plan_check_update(plan, stepped);
  if (status == AC_OK) status = check_transfers(plan, &plan->main);
  if (status == AC_OK) status = check_transfers(plan, &plan->stepping);
  if (status == AC_OK) status = check_memory(plan);
  if (status == AC_OK) status = ac_plan_check_sections(plan);
  free(ran);
  free(summed);
  free(stepped);
  return status;
}
