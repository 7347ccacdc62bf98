/* Cutting a graph into stages and laying down orders of nodes. See stages.h. */
#include "plan/stages.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "no memory to cut the graph into stages");
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* An activation that forward nodes fill and read. */
static int activation(const ac_graph *graph, int tensor) {
  if (tensor < 0) return -1;
  int storage = ac_tensor_at(graph, tensor)->storage;
  return ac_tensor_at(graph, storage)->role == AC_ROLE_ACTIVATION ? storage : -1;
}

static int list_nodes(ac_stages *stages, const bool *runs) {
  const ac_graph *graph = stages->graph;
  int forward = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < graph->node_count; i++) {
      if (!runs[i] || ac_node_at(graph, i)->backward != (pass == 1)) continue;
      stages->nodes[stages->node_count++] = i;
      forward += pass == 0;
    }
  return forward;
}

/* alive[p] counts the activations that cross from node p - 1 to node p of the forward list;
 * crossing[p] is one of them. */
static void count_crossing(ac_stages *stages, const bool *runs, int forward, int *last, int *alive,
                           int *crossing) {
  const ac_graph *graph = stages->graph;
  /* A backward node without its forward node does the forward work as well, after all others. */
  for (int p = forward; p < stages->node_count; p++) {
    const ac_node *node = ac_node_at(graph, stages->nodes[p]);
    for (int i = 0; i < AC_MAX_INPUTS && !runs[node->forward]; i++) {
      int storage = activation(graph, node->in[i]);
      if (storage >= 0) last[storage] = forward;
    }
  }
  for (int p = 0; p < forward; p++) {
    const ac_node *node = ac_node_at(graph, stages->nodes[p]);
    for (int i = 0; i < AC_MAX_INPUTS; i++) {
      int storage = activation(graph, node->in[i]);
      if (storage >= 0 && last[storage] < p) last[storage] = p;
    }
  }
  for (int p = 0; p < forward; p++) {
    const ac_node *node = ac_node_at(graph, stages->nodes[p]);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int storage = activation(graph, node->out[j]);
      if (storage < 0) continue;
      /* What is to be recomputed is no boundary, which would be kept: it counts twice. */
      int weight = ac_tensor_at(graph, storage)->hint == AC_RECOMPUTE ? 2 : 1;
      if (weight == 2) stages->hinted = true;
      for (int q = p + 1; q <= last[storage]; q++) alive[q] += weight, crossing[q] = storage;
    }
  }
}

static void cut_forward(ac_stages *stages, int forward, const int *alive, const int *crossing) {
  int cuts = 0;
  for (int p = 1; p < forward; p++) cuts += alive[p] == 1;
  int stride = 1 + cuts / AC_STAGES, seen = 0;
  ac_stage *stage = &stages->stage[0];
  stages->count = 1;
  for (int p = 1; p < forward; p++) {
    if (alive[p] != 1 || seen++ % stride != 0) continue;
    stage->forward_end = p;
    stage->boundary = crossing[p];
    stage = &stages->stage[stages->count++];
    stage->forward = p;
  }
  stage->forward_end = forward;
  stage->boundary = -1;
}

static void find_producers(ac_stages *stages) {
  const ac_graph *graph = stages->graph;
  for (int i = 0; i < graph->tensor_count; i++) stages->stage_of[i] = stages->producer[i] = -1;
  for (int s = 0; s < stages->count; s++)
    for (int p = stages->stage[s].forward; p < stages->stage[s].forward_end; p++)
      for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
        int storage = activation(graph, ac_node_at(graph, stages->nodes[p])->out[j]);
        if (storage < 0) continue;
        stages->stage_of[storage] = s;
        stages->producer[storage] = stages->nodes[p];
      }
}

/* Backward nodes stand in reverse order of the forward nodes that they belong to, so a stage's are
 * neighbours. */
static void cut_backward(ac_stages *stages, int forward) {
  int p = forward;
  for (int s = stages->count - 1; s >= 0; s--) {
    ac_stage *stage = &stages->stage[s];
    int first = s ? stages->nodes[stage->forward] : 0; /* of a first stage that may be empty */
    stage->backward = p;
    while (p < stages->node_count && ac_node_at(stages->graph, stages->nodes[p])->forward >= first)
      p++;
    stage->backward_end = p;
  }
}

/* Activations of the stage that its backward nodes read, but for the boundary that leaves it, which
 * the next stage keeps. Hints decide where there are any. */
static ac_status find_droppable(ac_stages *stages, int s, bool *listed) {
  const ac_graph *graph = stages->graph;
  ac_stage *stage = &stages->stage[s];
  int capacity = AC_MAX_OUTPUTS * (stage->forward_end - stage->forward);
  stage->droppable = malloc((size_t)(capacity + 1) * sizeof *stage->droppable);
  if (!stage->droppable) return no_memory();
  for (int p = stage->backward; p < stage->backward_end; p++)
    for (int i = 0; i < AC_MAX_INPUTS; i++) {
      int storage = activation(graph, ac_node_at(graph, stages->nodes[p])->in[i]);
      if (storage < 0 || stages->stage_of[storage] != s || storage == stage->boundary ||
          listed[storage] || ac_tensor_at(graph, storage)->hint == AC_KEEP)
        continue;
      listed[storage] = true;
      stage->droppable[stage->droppable_count++] = storage;
    }
  return AC_OK;
}

static ac_status cut(ac_stages *stages, const bool *runs) {
  const ac_graph *graph = stages->graph;
  size_t tensors = (size_t)graph->tensor_count + 1;
  int forward = list_nodes(stages, runs);
  int *last = calloc(tensors, sizeof *last), *alive = calloc((size_t)forward + 2, sizeof *alive);
  int *crossing = calloc((size_t)forward + 2, sizeof *crossing);
  bool *listed = calloc(tensors, sizeof *listed);
  stages->stage = calloc((size_t)forward + 1, sizeof *stages->stage);
  ac_status status = AC_OK;
  if (!last || !alive || !crossing || !listed || !stages->stage) {
    status = no_memory();
  } else {
    count_crossing(stages, runs, forward, last, alive, crossing);
    cut_forward(stages, forward, alive, crossing);
    find_producers(stages);
    cut_backward(stages, forward);
    for (int s = 0; s < stages->count && status == AC_OK; s++)
      status = find_droppable(stages, s, listed);
  }
  free(last);
  free(alive);
  free(crossing);
  free(listed);
  return status;
}

ac_status ac_stages_cut(ac_stages *stages, const ac_graph *graph, const bool *runs) {
  *stages = (ac_stages){.graph = graph};
  size_t tensors = (size_t)graph->tensor_count + 1, nodes = (size_t)graph->node_count + 1;
  stages->nodes = malloc(nodes * sizeof *stages->nodes);
  stages->stage_of = malloc(tensors * sizeof *stages->stage_of);
  stages->producer = malloc(tensors * sizeof *stages->producer);
  stages->available = calloc(tensors, sizeof *stages->available);
  stages->kept = calloc(tensors, sizeof *stages->kept);
  ac_status status = no_memory();
  if (stages->nodes && stages->stage_of && stages->producer && stages->available && stages->kept)
    status = cut(stages, runs);
  if (status != AC_OK) ac_stages_free(stages);
  return status;
}

void ac_stages_free(ac_stages *stages) {
  for (int s = 0; stages->stage && s < stages->count; s++) free(stages->stage[s].droppable);
  free(stages->stage);
  free(stages->nodes);
  free(stages->stage_of);
  free(stages->producer);
  free(stages->available);
  free(stages->kept);
  free(stages->order);
  memset(stages, 0, sizeof *stages);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static ac_status append(ac_stages *stages, int node) {
  if (stages->order_count == stages->order_capacity) {
    int capacity = stages->order_capacity ? 2 * stages->order_capacity : 256;
    int *grown = realloc(stages->order, (size_t)capacity * sizeof *grown);
    if (!grown) return no_memory();
    stages->order = grown;
    stages->order_capacity = capacity;
  }
  stages->order[stages->order_count++] = node;
  return AC_OK;
}

/* All that the node yields is there already and stays: it was hinted to be kept. */
static bool stays(const ac_stages *stages, const ac_node *node) {
  bool any = false;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    int storage = activation(stages->graph, node->out[j]);
    if (storage < 0 || !stages->kept[storage]) return false;
    any = true;
  }
  return any;
}

static ac_status run_forward(ac_stages *stages, int index) {
  const ac_graph *graph = stages->graph;
  const ac_node *node = ac_node_at(graph, index);
  if (stays(stages, node)) return AC_OK;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    int storage = activation(graph, node->out[j]);
    if (storage < 0) continue;
    stages->available[storage] = true;
    stages->kept[storage] = ac_tensor_at(graph, storage)->hint == AC_KEEP;
  }
  return append(stages, index);
}

/* Runs the stage forward. With a variant, what its backward nodes read stays available unless the
 * variant drops it; without one (-1) nothing does. */
static ac_status lay_forward(ac_stages *stages, int s, int variant) {
  const ac_stage *stage = &stages->stage[s];
  for (int p = stage->forward; p < stage->forward_end; p++)
    AC_TRY(run_forward(stages, stages->nodes[p]));
  for (int p = stage->forward; p < stage->forward_end; p++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int storage = activation(stages->graph, ac_node_at(stages->graph, stages->nodes[p])->out[j]);
      if (storage >= 0 && storage != stage->boundary && !stages->kept[storage])
        stages->available[storage] = false;
    }
  for (int i = variant < 0 ? stage->droppable_count : stage->drops[variant];
       i < stage->droppable_count; i++)
    stages->available[stage->droppable[i]] = true;
  return AC_OK;
}

/* Computes an activation of the stage anew if it is not there, and first what that takes. */
static ac_status ensure(ac_stages *stages, int s, int tensor) {
  int storage = activation(stages->graph, tensor);
  if (storage < 0 || stages->stage_of[storage] != s || stages->available[storage]) return AC_OK;
  int index = stages->producer[storage];
  const ac_node *node = ac_node_at(stages->graph, index);
  for (int i = 0; i < AC_MAX_INPUTS; i++) AC_TRY(ensure(stages, s, node->in[i]));
  return run_forward(stages, index);
}

static ac_status lay_backward(ac_stages *stages, int s) {
  const ac_stage *stage = &stages->stage[s];
  for (int p = stage->backward; p < stage->backward_end; p++) {
    const ac_node *node = ac_node_at(stages->graph, stages->nodes[p]);
    for (int i = 0; i < AC_MAX_INPUTS; i++) AC_TRY(ensure(stages, s, node->in[i]));
    AC_TRY(append(stages, stages->nodes[p]));
  }
  return AC_OK;
}

static void begin_order(ac_stages *stages) {
  size_t tensors = (size_t)stages->graph->tensor_count;
  stages->order_count = 0;
  memset(stages->available, 0, tensors * sizeof *stages->available);
  memset(stages->kept, 0, tensors * sizeof *stages->kept);
}

ac_status ac_stages_order(ac_stages *stages, const ac_chain_operation *operations, int count) {
  begin_order(stages);
  for (int i = 0; i < count; i++) {
    int s = operations[i].stage - 1;
    if (operations[i].kind == AC_CHAIN_BACKWARD) AC_TRY(lay_backward(stages, s));
    else
      AC_TRY(
          lay_forward(stages, s, operations[i].kind == AC_CHAIN_SAVE ? operations[i].variant : -1));
  }
  return AC_OK;
}

ac_status ac_stages_plain_order(ac_stages *stages) {
  begin_order(stages);
  for (int p = 0; p < stages->node_count; p++) AC_TRY(append(stages, stages->nodes[p]));
  return AC_OK;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* A piece of a stage's work laid down alone: [0, split) forward, [split, count) backward. What it
 * reads from outside is alive from its first step on. */
typedef struct piece {
  ac_sequence sequence;
  int split;
  double forward, recomputed, backward; /* seconds */
} piece;

static double step_seconds(const ac_stages *stages, const ac_cost_model *costs, const ac_step *step,
                           int64_t batch) {
  ac_run_state run = {.training = true, .batch = batch};
  ac_op_args args;
  ac_step_arguments(step, stages->graph, &run, &args);
  return ac_cost_seconds(costs, &args);
}

static ac_status lay_piece(ac_stages *stages, int s, int variant, ac_device *device,
                           const ac_cost_model *costs, int64_t batch, piece *result) {
  *result = (piece){.split = 0};
  begin_order(stages);
  AC_TRY(lay_forward(stages, s, variant));
  result->split = stages->order_count;
  if (variant >= 0) AC_TRY(lay_backward(stages, s));
  AC_TRY(ac_sequence_build(&result->sequence, stages->graph, AC_TARGET_GRADIENTS, false,
                           stages->order, stages->order_count));
  AC_TRY(ac_sequence_size(&result->sequence, stages->graph, device, batch, 0));
  for (int i = 0; i < stages->order_count; i++) {
    double seconds = step_seconds(stages, costs, &result->sequence.steps[i], batch);
    bool backward = ac_node_at(stages->graph, stages->order[i])->backward;
    if (i < result->split) result->forward += seconds;
    else if (backward) result->backward += seconds;
    else result->recomputed += seconds;
  }
  return AC_OK;
}

static uint64_t storage_bytes(const ac_stages *stages, const ac_device *device, int storage,
                              int64_t batch) {
  if (storage < 0) return 0;
  ac_operand x = ac_operand_of(ac_tensor_at(stages->graph, storage), batch);
  uint64_t alignment = device->info.alignment;
  uint64_t bytes = (uint64_t)x.count * ac_dtype_bytes(x.dtype);
  return (bytes + alignment - 1) / alignment * alignment;
}

/* Bytes alive at a step. */
static uint64_t live_at(const ac_sequence *sequence, int step) {
  uint64_t live = 0;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (value->first <= step && step <= value->last) live += value->bytes;
  }
  return live;
}

static uint64_t excess(uint64_t peak, uint64_t base) {
  return peak > base ? peak - base : 0;
}

/* A storage from outside is alive in the piece's account up to its last use; the chain holds it
 * longer. */
static bool outside(const ac_stages *stages, const ac_value *value, int s) {
  if (value->tensor < 0) return false;
  int from = stages->stage_of[value->tensor];
  return value->outside && from != s;
}

static void measure(const ac_stages *stages, const ac_device *device, int s, const piece *p,
                    int64_t batch, ac_chain_variant *result) {
  const ac_sequence *sequence = &p->sequence;
  const ac_stage *stage = &stages->stage[s];
  uint64_t input = s ? storage_bytes(stages, device, stages->stage[s - 1].boundary, batch) : 0;
  uint64_t output = storage_bytes(stages, device, stage->boundary, batch);
  uint64_t outer = 0, saved = 0, forward = 0, backward = 0;
  bool reads_output = false;
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (outside(stages, value, s)) outer += value->bytes;
    else if (value->first < p->split && value->last >= p->split) saved += value->bytes;
    if (value->tensor >= 0 && value->tensor == stage->boundary && value->first < p->split &&
        value->last >= p->split)
      reads_output = true;
  }
  if (!reads_output) saved += output;
  if (saved < output) saved = output; /* computed in the place of something from outside */
  for (int step = 0; step < sequence->step_count; step++) {
    uint64_t live = live_at(sequence, step);
    if (step < p->split) forward = live > forward ? live : forward;
    else backward = live > backward ? live : backward;
  }
  /* `outer` holds a[l-1] and the gradient of a[l], in the forward part too early. */
  uint64_t gradient_early = excess(outer, input);
  result->saved = saved;
  result->forward_peak = excess(excess(forward, gradient_early), input + saved);
  result->backward_peak = excess(backward, input + saved + output);
  result->backward = p->backward;
  result->extra = p->recomputed;
  result->drops_output = !reads_output && stage->boundary >= 0;
}

/* ---- variants -------------------------------------------------------------------------------- */

typedef struct candidate {
  int storage;
  double gain; /* bytes per second of recomputing */
} candidate;

static int by_gain(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->gain != y->gain) return x->gain > y->gain ? -1 : 1;
  return x->storage - y->storage;
}

/* Hinted to be recomputed first, then by bytes saved per second of the op that yields them. */
static ac_status order_droppable(ac_stages *stages, ac_stage *stage, const ac_cost_model *costs,
                                 int64_t batch) {
  const ac_graph *graph = stages->graph;
  candidate *list = malloc((size_t)(stage->droppable_count + 1) * sizeof *list);
  if (!list) return no_memory();
  for (int i = 0; i < stage->droppable_count; i++) {
    int storage = stage->droppable[i];
    ac_step step = {.node = stages->producer[storage], .workspace = -1, .copy = {-1, -1}};
    const ac_node *node = ac_node_at(graph, step.node);
    for (int k = 0; k < AC_MAX_INPUTS; k++) step.in[k] = (ac_slot){node->in[k], -1};
    for (int k = 0; k < AC_MAX_OUTPUTS; k++) step.out[k] = (ac_slot){node->out[k], -1};
    ac_operand x = ac_operand_of(ac_tensor_at(graph, storage), batch);
    double bytes = (double)x.count * (double)ac_dtype_bytes(x.dtype);
    bool asked = ac_tensor_at(graph, storage)->hint == AC_RECOMPUTE;
    list[i] = (candidate){
        storage, asked ? 1e300 : bytes / (step_seconds(stages, costs, &step, batch) + 1e-9)};
  }
  qsort(list, (size_t)stage->droppable_count, sizeof *list, by_gain);
  int asked = 0;
  for (int i = 0; i < stage->droppable_count; i++) {
    stage->droppable[i] = list[i].storage;
    asked += ac_tensor_at(graph, list[i].storage)->hint == AC_RECOMPUTE;
  }
  free(list);
  int free_choices = stage->droppable_count - asked;
  stage->variants = free_choices + 1 < AC_STAGE_VARIANTS ? free_choices + 1 : AC_STAGE_VARIANTS;
  for (int k = 0; k < stage->variants; k++)
    stage->drops[k] = asked + (stage->variants > 1 ? free_choices * k / (stage->variants - 1) : 0);
  return AC_OK;
}

static ac_status price_stage(ac_stages *stages, ac_device *device, const ac_cost_model *costs,
                             int64_t batch, int s, ac_chain_stage *result,
                             ac_chain_variant *variants) {
  ac_stage *stage = &stages->stage[s];
  AC_TRY(order_droppable(stages, stage, costs, batch));
  piece p;
  for (int k = -1; k < stage->variants; k++) {
    ac_status status = lay_piece(stages, s, k, device, costs, batch, &p);
    if (status == AC_OK && k >= 0) {
      measure(stages, device, s, &p, batch, &variants[k]);
    } else if (status == AC_OK) {
      ac_chain_variant plain;
      measure(stages, device, s, &p, batch, &plain);
      result->forward = p.forward;
      result->output = storage_bytes(stages, device, stage->boundary, batch);
      result->forward_peak = plain.forward_peak;
    }
    ac_sequence_free(&p.sequence);
    AC_TRY(status);
  }
  result->variants = stage->variants;
  result->variant = variants;
  return AC_OK;
}

ac_status ac_stages_price(ac_stages *stages, ac_device *device, const ac_cost_model *costs,
                          int64_t batch, ac_chain *chain) {
  size_t count = (size_t)stages->count;
  ac_chain_stage *stage = calloc(count, sizeof *stage);
  ac_chain_variant *variants = calloc(count * AC_STAGE_VARIANTS, sizeof *variants);
  *chain = (ac_chain){.stages = stages->count, .stage = stage};
  ac_status status = stage && variants ? AC_OK : no_memory();
  for (int s = 0; s < stages->count && status == AC_OK; s++)
    status = price_stage(stages, device, costs, batch, s, &stage[s],
                         variants + (size_t)s * AC_STAGE_VARIANTS);
  if (status != AC_OK) {
    free(stage);
    free(variants);
    chain->stage = NULL;
  }
  return status;
}

void ac_stages_free_chain(ac_chain *chain) {
  if (!chain->stage) return;
  free((void *)chain->stage[0].variant);
  free((void *)chain->stage);
  memset(chain, 0, sizeof *chain);
}
