/* From a graph to an order of execution: which nodes run, the values they read and write, how long
 * each lives, and which may be computed in place of another. Linear in the number of nodes. */
#include "plan/shards.h"
#include "plan/works.h"

#include "core/align.h"
#include "core/error.h"
#include "core/hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- which nodes run ------------------------------------------------------------------------- */

/* The losses, as bits, that come out of a backward node together with their gradients. */
static unsigned losses_of_backward(const ac_graph *graph) {
  unsigned losses = 0;
  for (int i = 0; i < graph->node_count; i++)
    for (int j = 0; j < AC_MAX_OUTPUTS && ac_node_at(graph, i)->backward; j++) {
      int loss = ac_graph_loss_index(graph, ac_node_at(graph, i)->out[j]);
      if (loss >= 0) losses |= 1u << loss;
    }
  return losses;
}

/* `from_backward`: the losses for which backward nodes count. */
static bool is_root(const ac_graph *graph, const ac_node *node, ac_target target,
                    unsigned from_backward) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    const ac_tensor *out = ac_tensor_at(graph, node->out[j]);
    if (target == AC_TARGET_GRADIENTS && out->role == AC_ROLE_GRADIENT) return true;
    int loss = target == AC_TARGET_OUTPUTS ? -1 : ac_graph_loss_index(graph, out->id);
    if (loss >= 0 && node->backward == (from_backward >> loss & 1)) return true;
    const bool metric = target != AC_TARGET_OUTPUTS && loss < 0 && !node->backward &&
                        ac_graph_sum_index(graph, out->id) >= 0;
    if (metric) return true;
    if (target == AC_TARGET_OUTPUTS)
      for (int k = 0; k < graph->output_count; k++)
        if (ac_tensor_at(graph, graph->outputs[k].tensor)->storage == out->storage) return true;
  }
  return false;
}

static void mark_operand(const ac_graph *graph, bool *needed, int tensor) {
  if (tensor >= 0) needed[ac_tensor_at(graph, tensor)->storage] = true;
}

/* If a node runs, so does the node that pools its sums for an update; that one reads nothing
 * else. */
static void select_pools(const ac_graph *graph, bool *runs) {
  for (int i = 0; i < graph->node_count; i++) {
    const ac_node *node = ac_node_at(graph, i);
    bool pools = node->out[0] >= 0 && ac_tensor_at(graph, node->out[0])->role == AC_ROLE_POOLED;
    if (pools && runs[node->forward]) runs[i] = true;
  }
}

static void mark_outputs(const ac_graph *graph, const ac_node *node, bool *yielded) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) mark_operand(graph, yielded, node->out[j]);
}

/* Selects the nodes of other phases that use sums which some node yields, or what these are folded
 * into. */
static void select_after(const ac_graph *graph, bool *runs, bool *yielded) {
  for (int i = 0; i < graph->node_count; i++)
    if (runs[i]) mark_outputs(graph, ac_node_at(graph, i), yielded);
  for (int i = 0; i < graph->node_count; i++) {
    const ac_node *node = ac_node_at(graph, i);
    if (node->phase == AC_PHASE_MICRO_BATCH) continue;
    runs[i] = true;
    for (int k = 0; k < AC_MAX_INPUTS; k++) {
      const ac_tensor *in = node->in[k] < 0 ? NULL : ac_tensor_at(graph, node->in[k]);
      if (in && in->role != AC_ROLE_PARAMETER) runs[i] &= yielded[in->storage];
    }
    if (runs[i]) mark_outputs(graph, node, yielded);
  }
}

/* Whether what reads a node's output needs it to run. Evaluation takes running statistics in the
 * place of those that are pooled. */
static bool is_read(const ac_tensor *out, ac_target target, const bool *needed) {
  const bool pooled = out->role == AC_ROLE_POOLED && target == AC_TARGET_GRADIENTS;
  return needed[out->storage] && (pooled || out->role == AC_ROLE_ACTIVATION ||
                                  out->role == AC_ROLE_CACHE || out->role == AC_ROLE_GATHERED);
}

/* Creation order is a topological order, so one backward sweep finds every node that a root depends
 * on. */
static void select_micro_batch(const ac_graph *graph, ac_target target, bool *runs, bool *needed) {
  unsigned from_backward = target == AC_TARGET_GRADIENTS ? losses_of_backward(graph) : 0;
  for (int i = graph->node_count - 1; i >= 0; i--) {
    const ac_node *node = ac_node_at(graph, i);
    runs[i] = false;
    if (node->phase != AC_PHASE_MICRO_BATCH) continue;
    runs[i] = is_root(graph, node, target, from_backward);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (node->out[j] >= 0) runs[i] |= is_read(ac_tensor_at(graph, node->out[j]), target, needed);
    if (node->backward && target != AC_TARGET_GRADIENTS) runs[i] = false;
    if (!runs[i]) continue;
    for (int j = 0; j < AC_MAX_INPUTS; j++) mark_operand(graph, needed, node->in[j]);
    mark_operand(graph, needed, node->accumulate);
  }
}

ac_status ac_select_nodes(const ac_graph *graph, ac_target target, bool *runs) {
  size_t tensors = (size_t)graph->tensor_count + 1;
  bool *marks = calloc(tensors, sizeof *marks);
  if (!marks) return ac_fail(AC_ERROR_MEMORY, "no memory to select nodes");
  select_micro_batch(graph, target, runs, marks);
  if (target == AC_TARGET_GRADIENTS) {
    memset(marks, 0, tensors * sizeof *marks);
    select_pools(graph, runs);
    select_after(graph, runs, marks);
  }
  free(marks);
  return AC_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The state while steps are laid down: by storage, the value that holds it now and whether a sum
 * was written. */
typedef struct builder {
  ac_sequence *sequence;
  bool after; /* the steps are those that follow the micro-batch */
  const ac_graph *graph;
  int *current;
  bool *written;
} builder;

static int add_value(ac_sequence *sequence, int tensor, int step) {
  if (sequence->value_count == sequence->value_capacity) {
    int capacity = sequence->value_capacity ? 2 * sequence->value_capacity : 64;
    ac_value *grown = realloc(sequence->values, (size_t)capacity * sizeof *grown);
    if (!grown) return -1;
    sequence->values = grown;
    sequence->value_capacity = capacity;
  }
  int index = sequence->value_count++;
  sequence->values[index] =
      (ac_value){.tensor = tensor, .first = step, .last = step, .shares = index};
  return index;
}

static bool is_value(const builder *b, int storage) {
  const ac_tensor *tensor = ac_tensor_at(b->graph, storage);
  if (tensor->role != AC_ROLE_GRADIENT) return tensor->role == AC_ROLE_ACTIVATION;
  return b->sequence->whole_window || tensor->folded || (b->sequence->sheds && !b->after);
}

/* Optimizer state that is transferred is in a value of its own for each step. */
static bool write_state(builder *b, ac_step *step, int point, int j, int storage) {
  if (!b->sequence->host_state || !ac_transfers_tensor(b->graph, ac_tensor_at(b->graph, storage)))
    return true;
  const int value = step->out[j].value = add_value(b->sequence, storage, point);
  if (value < 0) return false;
  b->sequence->values[value].count =
      ac_transfers_range(ac_tensor_at(b->graph, storage)->dtype, step->part).count;
  return step->transfers = true;
}

static ac_slot read_slot(builder *b, int tensor, int step) {
  if (tensor < 0) return (ac_slot){-1, -1};
  int storage = ac_tensor_at(b->graph, tensor)->storage;
  if (!is_value(b, storage)) return (ac_slot){tensor, -1};
  int value = b->current[storage];
  if (value < 0) {
    value = b->current[storage] = add_value(b->sequence, storage, 0);
    if (value < 0) return (ac_slot){tensor, -1};
    b->sequence->values[value].outside = true;
  }
  b->sequence->values[value].last = step;
  return (ac_slot){tensor, value};
}

static bool write_slot(builder *b, ac_step *step, int point, int j, int tensor) {
  step->out[j] = (ac_slot){tensor, -1};
  if (tensor < 0) return true;
  int storage = ac_tensor_at(b->graph, tensor)->storage;
  const ac_role role = ac_tensor_at(b->graph, storage)->role;
  bool sum = ac_role_is_sum(role), again = b->written[storage];
  if (step->recomputed && sum) {
    step->out[j].tensor = -1;
    return true;
  }
  if (sum) {
    step->write[j] = again ? AC_ADD : is_value(b, storage) ? AC_OVERWRITE : AC_ADD_UNLESS_FIRST;
    b->written[storage] = true;
  }
  if (role == AC_ROLE_STATE) return write_state(b, step, point, j, storage);
  if (!is_value(b, storage)) return true;
  int value = sum && again ? b->current[storage] : add_value(b->sequence, storage, point);
  b->current[storage] = step->out[j].value = value;
  if (value >= 0) b->sequence->values[value].last = point;
  return value >= 0;
}

static bool lay_step(builder *b, int index, int node_index, bool recomputed, ac_part part) {
  const ac_node *node = ac_node_at(b->graph, node_index);
  int point = ac_sequence_point(b->sequence, index);
  ac_step *step = &b->sequence->steps[index];
  *step = (ac_step){.node = node_index, .recomputed = recomputed, .part = part, .workspace = -1};
  for (int i = 0; i < AC_MAX_INPUTS; i++) step->in[i] = read_slot(b, node->in[i], point);
  step->copy = read_slot(b, node->accumulate, point);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (!write_slot(b, step, point, j, node->out[j])) return false;
  if (node->accumulate >= 0) step->write[0] = AC_ADD;
  if (ac_op_describe(node->op)->rewrites) step->write[0] = AC_OVERWRITE;
  return true;
}

/* ---- in place -------------------------------------------------------------------------------- */

int ac_sequence_root(const ac_sequence *sequence, int value) {
  while (sequence->values[value].shares != value) value = sequence->values[value].shares;
  return value;
}

/* How many operands of the step live in the memory of this root. */
static int uses_of(const ac_sequence *sequence, const ac_step *step, int root) {
  int uses = step->copy.value >= 0 && ac_sequence_root(sequence, step->copy.value) == root;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    uses += step->in[i].value >= 0 && ac_sequence_root(sequence, step->in[i].value) == root;
  return uses;
}

static bool try_share(ac_sequence *sequence, const ac_graph *graph, int index, int value) {
  ac_step *step = &sequence->steps[index];
  if (value < 0 || step->out[0].value < 0) return false;
  int root = ac_sequence_root(sequence, value);
  ac_value *output = &sequence->values[step->out[0].value];
  /* An earlier step may have filled a gradient. */
  if (ac_tensor_at(graph, output->tensor)->role == AC_ROLE_GRADIENT) return false;
  const ac_tensor *a = ac_tensor_at(graph, sequence->values[root].tensor),
                  *b = ac_tensor_at(graph, output->tensor);
  bool same_size = a->dtype == b->dtype && a->shape.batched == b->shape.batched &&
                   ac_shape_count(&a->shape) == ac_shape_count(&b->shape);
  /* After this step it may go to other ranks. */
  if (sequence->sheds && a->role == AC_ROLE_GRADIENT) return false;
  if (!same_size || sequence->values[root].last > index || uses_of(sequence, step, root) != 1)
    return false;
  /* With sections, what does not vary is read in the next micro-batch as well. */
  if (sequence->window && !(sequence->values[root].varies && output->varies)) return false;
  output->shares = root;
  sequence->values[root].last = output->last;
  return true;
}

/* A sum that continues another tensor takes that tensor's place if nothing needs it any more;
 * otherwise it starts from a copy. An op that may run in place does so on the first operand that
 * ends with it. */
static void share_memory(ac_sequence *sequence, const ac_graph *graph) {
  for (int i = 0; i < ac_sequence_end(sequence); i++) {
    ac_step *step = &sequence->steps[i];
    if (step->copy.tensor >= 0) {
      if (try_share(sequence, graph, i, step->copy.value)) step->copy = (ac_slot){-1, -1};
      continue;
    }
    unsigned in_place = ac_op_describe(ac_node_at(graph, step->node)->op)->in_place;
    for (int k = 0; in_place >> k; k++)
      if ((in_place >> k & 1) && try_share(sequence, graph, i, step->in[k].value)) break;
  }
}

/* ---- building -------------------------------------------------------------------------------- */

static void keep_outputs(builder *b) {
  for (int k = 0; k < b->graph->output_count; k++) {
    int value = b->current[ac_tensor_at(b->graph, b->graph->outputs[k].tensor)->storage];
    if (value >= 0) b->sequence->values[value].last = ac_sequence_end(b->sequence);
  }
}

/* How many steps a node becomes. */
static int parts_of(const ac_sequence *sequence, const ac_graph *graph, int node) {
  ac_part part;
  if (sequence->shards) return ac_shards_run(sequence->shards, ac_node_at(graph, node), &part);
  return sequence->host_state ? ac_transfers_parts(graph, ac_node_at(graph, node)) : 1;
}

/* `seen` marks nodes that have run. */
static bool lay_steps(builder *b, const ac_nodes *nodes, int first, bool *seen) {
  int index = first;
  for (int i = 0; nodes && i < nodes->count; i++) {
    const int node = nodes->list[i], parts = parts_of(b->sequence, b->graph, node);
    for (int k = 0; k < parts; k++) {
      ac_part part = ac_transfers_part(b->graph, ac_node_at(b->graph, node), k, parts);
      if (b->sequence->shards)
        ac_shards_run(b->sequence->shards, ac_node_at(b->graph, node), &part);
      if (!lay_step(b, index++, node, seen[node], part)) return false;
    }
    seen[node] = true;
  }
  return true;
}

/* `after` has its phases one after the other. */
static void set_phases(ac_sequence *sequence, const ac_graph *graph, const ac_nodes *order,
                       const ac_nodes *after) {
  int count = 0;
  for (int i = 0; i < order->count; i++) count += parts_of(sequence, graph, order->list[i]);
  for (int p = AC_PHASE_REDUCE; p <= AC_PHASE_COUNT; p++) sequence->begin[p] = count;
  for (int i = 0; after && i < after->count; i++)
    for (int p = (int)ac_node_at(graph, after->list[i])->phase + 1; p <= AC_PHASE_COUNT; p++)
      sequence->begin[p] += parts_of(sequence, graph, after->list[i]);
  sequence->step_count = sequence->begin[AC_PHASE_COUNT];
}

ac_status ac_sequence_room_create(ac_sequence_room *room, const ac_graph *graph) {
  const size_t tensors = (size_t)graph->tensor_count + 1;
  *room = (ac_sequence_room){malloc(tensors * sizeof *room->current),
                             calloc(tensors, sizeof *room->written),
                             calloc((size_t)graph->node_count + 1, sizeof *room->seen),
                             calloc(tensors, sizeof *room->added)};
  if (!room->current || !room->written || !room->seen || !room->added)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  for (size_t i = 0; i < tensors; i++) room->current[i] = -1;
  return AC_OK;
}

void ac_sequence_room_free(ac_sequence_room *room) {
  free(room->current);
  free(room->written);
  free(room->seen);
  free(room->added);
}

static void forget(ac_sequence_room *room, const ac_graph *graph, int tensor) {
  if (tensor < 0) return;
  const int storage = ac_tensor_at(graph, tensor)->storage;
  room->current[storage] = -1;
  room->written[storage] = false;
  room->added[storage] = 0;
}

/* Leaves the room as it was. */
static void forget_nodes(ac_sequence_room *room, const ac_graph *graph, const ac_nodes *nodes) {
  for (int i = 0; nodes && i < nodes->count; i++) {
    const ac_node *node = ac_node_at(graph, nodes->list[i]);
    for (int k = 0; k < AC_MAX_INPUTS; k++) forget(room, graph, node->in[k]);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) forget(room, graph, node->out[j]);
    forget(room, graph, node->accumulate);
    room->seen[nodes->list[i]] = false;
  }
}

ac_status ac_sequence_build_in(ac_sequence_room *room, ac_sequence *sequence, const ac_graph *graph,
                               ac_target target, ac_storage storage, const ac_nodes *order,
                               const ac_nodes *after) {
  memset(sequence, 0, sizeof *sequence);
  sequence->training = target == AC_TARGET_GRADIENTS;
  sequence->whole_window = storage.whole_window;
  sequence->host_state = storage.host_state;
  sequence->window = storage.window;
  sequence->shards = storage.shards;
  sequence->sheds = storage.sheds;
  set_phases(sequence, graph, order, after);
  builder b = {
      .sequence = sequence, .graph = graph, .current = room->current, .written = room->written};
  sequence->steps = malloc(((size_t)sequence->step_count + 1) * sizeof *sequence->steps);
  bool good = sequence->steps && lay_steps(&b, order, 0, room->seen);
  b.after = true;
  good = good && lay_steps(&b, after, ac_sequence_end(sequence), room->seen);
  if (good && storage.sheds) good = ac_shards_extend(sequence, graph) == AC_OK;
  if (good && storage.window) good = ac_sections_find(sequence, graph, room->added) == AC_OK;
  if (good) {
    if (target == AC_TARGET_OUTPUTS && !storage.one_output) keep_outputs(&b);
    if (!storage.apart) share_memory(sequence, graph);
    if (storage.window && !storage.apart) good = ac_sections_extend(sequence, graph) == AC_OK;
    if (storage.host_state) ac_transfers_set_lifetimes(sequence, graph);
  }
  forget_nodes(room, graph, order);
  forget_nodes(room, graph, after);
  return good ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
}

ac_status ac_sequence_build(ac_sequence *sequence, const ac_graph *graph, ac_target target,
                            ac_storage storage, const ac_nodes *order, const ac_nodes *after) {
  ac_sequence_room room;
  memset(sequence, 0, sizeof *sequence);
  ac_status status = ac_sequence_room_create(&room, graph);
  if (status == AC_OK)
    status = ac_sequence_build_in(&room, sequence, graph, target, storage, order, after);
  ac_sequence_room_free(&room);
  return status;
}

void ac_sequence_free(ac_sequence *sequence) {
  free(sequence->steps);
  free(sequence->sections);
  free(sequence->values);
  memset(sequence, 0, sizeof *sequence);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The hash of a parameter's name, for a node that steps it or adds to its gradient. */
static uint64_t name_hash(const ac_node *node, const ac_graph *graph) {
  const ac_tensor *out = node->out[0] < 0 ? NULL : ac_tensor_at(graph, node->out[0]);
  if (!out || (out->role != AC_ROLE_PARAMETER && out->role != AC_ROLE_GRADIENT)) return 0;
  return ac_hash_text(ac_tensor_at(graph, graph->parameters[out->parameter])->name);
}

static void cut_operand(ac_operand *x, ac_part part) {
  if (!x->count) return;
  x->rank = 1;
  x->dim[0] = x->count = ac_transfers_range(x->dtype, part).count;
}

void ac_step_arguments(const ac_step *step, const ac_graph *graph, const ac_run_state *run,
                       ac_op_args *args) {
  const ac_node *node = ac_node_at(graph, step->node);
  memset(args, 0, sizeof *args);
  args->op = node->op;
  args->loss = node->loss;
  args->attributes = node->attributes;
  args->run = run;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (step->in[i].tensor >= 0)
      args->in[i] = ac_operand_of(ac_tensor_at(graph, step->in[i].tensor), run->batch);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (step->out[j].tensor < 0) continue;
    args->out[j] = ac_operand_of(ac_tensor_at(graph, step->out[j].tensor), run->batch);
    args->add[j] = step->write[j] != AC_OVERWRITE;
  }
  args->first = step->part.first;
  for (int i = 0; i < AC_MAX_INPUTS && step->part.count; i++) cut_operand(&args->in[i], step->part);
  for (int j = 0; j < AC_MAX_OUTPUTS && step->part.count; j++)
    cut_operand(&args->out[j], step->part);
  args->name_hash = name_hash(node, graph);
}

void ac_node_arguments(int index, const ac_graph *graph, const ac_run_state *run,
                       ac_op_args *args) {
  const ac_node *node = ac_node_at(graph, index);
  *args =
      (ac_op_args){.op = node->op, .attributes = node->attributes, .run = run, .loss = node->loss};
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (node->in[i] >= 0) args->in[i] = ac_operand_of(ac_tensor_at(graph, node->in[i]), run->batch);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (node->out[j] >= 0)
      args->out[j] = ac_operand_of(ac_tensor_at(graph, node->out[j]), run->batch);
  args->name_hash = name_hash(node, graph);
}

static ac_status add_workspace(ac_sequence *sequence, uint64_t alignment, uint64_t bytes, int step,
                               int *value) {
  *value = -1;
  if (!bytes) return AC_OK;
  *value = add_value(sequence, -1, step);
  if (*value < 0) return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  sequence->values[*value].bytes = ac_align(bytes, alignment);
  return AC_OK;
}

/* The steps after the micro-batch follow one another, so they share it. */
static ac_status add_after_workspace(ac_sequence *sequence, uint64_t alignment, uint64_t bytes) {
  int value, end = ac_sequence_end(sequence);
  AC_TRY(add_workspace(sequence, alignment, bytes, end, &value));
  if (value >= 0) sequence->values[value].last = ac_sequence_last_point(sequence);
  for (int i = end; i < sequence->step_count; i++) sequence->steps[i].workspace = value;
  return AC_OK;
}

static uint64_t bytes_of(const ac_value *value, const ac_graph *graph, int64_t batch) {
  const ac_tensor *tensor = ac_tensor_at(graph, value->tensor);
  int64_t count = value->count;
  if (!count) count = ac_shape_count(&tensor->shape) * (tensor->shape.batched ? batch : 1);
  return (uint64_t)count * ac_dtype_bytes(tensor->dtype);
}

ac_status ac_sequence_size(ac_sequence *sequence, const ac_graph *graph, ac_works *works,
                           uint64_t alignment, int64_t batch, uint64_t after) {
  int own = sequence->value_count; /* workspace of an earlier size comes after all others */
  while (own > 0 && sequence->values[own - 1].tensor < 0) own--;
  sequence->value_count = own;
  for (int i = 0; i < own; i++) {
    ac_value *value = &sequence->values[i];
    value->bytes = value->shares == i ? ac_align(bytes_of(value, graph, batch), alignment) *
                                            (uint64_t)ac_sections_places(sequence, value, batch)
                                      : 0;
  }
  for (int i = 0; i < ac_sequence_end(sequence); i++) {
    ac_step *step = &sequence->steps[i];
    const uint64_t bytes = ac_works_workspace(works, step, batch, sequence->training);
    AC_TRY(add_workspace(sequence, alignment, bytes, i, &step->workspace));
  }
  return add_after_workspace(sequence, alignment, after);
}
