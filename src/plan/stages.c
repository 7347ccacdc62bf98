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

static int list_nodes(ac_stages *stages, const ac_nodes *nodes) {
  int forward = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < nodes->count; i++) {
      if (ac_node_at(stages->graph, nodes->list[i])->backward != (pass == 1)) continue;
      stages->nodes[stages->node_count++] = nodes->list[i];
      forward += pass == 0;
    }
  return forward;
}

static bool casts_parameter(const ac_graph *graph, const ac_node *node) {
  return ac_op_describe(node->op)->converts &&
         ac_tensor_at(graph, node->in[0])->role == AC_ROLE_PARAMETER;
}

/* Notes that the node at this place reads its activations. */
static void read_at(const ac_graph *graph, const ac_node *node, int place, int *last) {
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    int storage = activation(graph, node->in[i]);
    if (storage >= 0 && last[storage] < place) last[storage] = place;
  }
}

/* For each storage, the last place in the forward list that reads it. A backward node without its
 * forward node also does the forward work, at the place of that node. */
static void find_last(const ac_stages *stages, const bool *runs, int forward, int *last) {
  const ac_graph *graph = stages->graph;
  for (int p = forward; p < stages->node_count; p++) {
    const ac_node *node = ac_node_at(graph, stages->nodes[p]);
    if (runs[node->forward]) continue;
    int place = 0, end = forward;
    while (place < end) {
      const int middle = (place + end) / 2;
      if (stages->nodes[middle] < node->forward) place = middle + 1;
      else end = middle;
    }
    read_at(graph, node, place, last);
  }
  for (int p = 0; p < forward; p++) read_at(graph, ac_node_at(graph, stages->nodes[p]), p, last);
}

/* alive[p] counts the activations that cross from node p - 1 to node p of the forward list, and
 * crossing[p] adds up their numbers: where one is alone, that is its own. Both begin as changes
 * from place to place. */
static void count_crossing(ac_stages *stages, int forward, const int *last, int64_t *alive,
                           int64_t *crossing) {
  const ac_graph *graph = stages->graph;
  for (int p = 0; p < forward; p++) {
    const ac_node *node = ac_node_at(graph, stages->nodes[p]);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int storage = activation(graph, node->out[j]);
      if (storage < 0) continue;
      /* A tensor that the caller wants recomputed cannot be a boundary, because boundaries are
       * kept: so it counts twice. So does a parameter that is cast for its reader. */
      const bool hinted = ac_tensor_at(graph, storage)->hint == AC_RECOMPUTE;
      const int weight = hinted || casts_parameter(graph, node) ? 2 : 1;
      stages->hinted |= hinted;
      if (last[storage] <= p) continue;
      alive[p + 1] += weight, alive[last[storage] + 1] -= weight;
      crossing[p + 1] += storage, crossing[last[storage] + 1] -= storage;
    }
  }
  for (int p = 1; p <= forward; p++) alive[p] += alive[p - 1], crossing[p] += crossing[p - 1];
}

static void cut_forward(ac_stages *stages, int forward, const int64_t *alive,
                        const int64_t *crossing) {
  int cuts = 0;
  for (int p = 1; p < forward; p++) cuts += alive[p] == 1;
  int stride = 1 + cuts / AC_STAGES, seen = 0;
  ac_stage *stage = &stages->stage[0];
  stages->count = 1;
  for (int p = 1; p < forward; p++) {
    if (alive[p] != 1 || seen++ % stride != 0) continue;
    stage->forward_end = p;
    stage->boundary = (int)crossing[p];
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

/* Backward nodes are in reverse order of the forward nodes that they belong to, so those of a stage
 * are neighbours. */
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

/* Whether a stage's backward nodes do nothing but pool statistics. */
static bool only_pools(const ac_stages *stages, const ac_stage *stage) {
  for (int p = stage->backward; p < stage->backward_end; p++) {
    const int out = ac_node_at(stages->graph, stages->nodes[p])->out[0];
    if (out < 0 || ac_tensor_at(stages->graph, out)->role != AC_ROLE_POOLED) return false;
  }
  return true;
}

/* Moves backward nodes from the list's end to the place after the first forward nodes. */
static ac_status move_pools(ac_stages *stages, int forward, int pools) {
  const size_t size = sizeof *stages->nodes;
  int *kept = malloc((size_t)(pools + 1) * size);
  if (!kept) return no_memory();
  memcpy(kept, stages->nodes + stages->node_count - pools, (size_t)pools * size);
  memmove(stages->nodes + forward + pools, stages->nodes + forward,
          (size_t)(stages->node_count - forward - pools) * size);
  memcpy(stages->nodes + forward, kept, (size_t)pools * size);
  free(kept);
  return AC_OK;
}

/* The first stages that nothing is trained in become what runs before all stages. */
static ac_status set_before(ac_stages *stages) {
  int untrained = 0;
  while (untrained < stages->count - 1 && only_pools(stages, &stages->stage[untrained]))
    untrained++;
  if (!untrained) return AC_OK;
  const int forward = stages->stage[untrained].forward,
            pools = stages->node_count - stages->stage[untrained - 1].backward;
  AC_TRY(move_pools(stages, forward, pools));
  stages->before = forward + pools;
  stages->input = stages->stage[untrained - 1].boundary;
  stages->count -= untrained;
  memmove(stages->stage, stages->stage + untrained, (size_t)stages->count * sizeof *stages->stage);
  for (int s = 0; s < stages->count; s++) {
    ac_stage *stage = &stages->stage[s];
    stage->forward += pools, stage->forward_end += pools;
    stage->backward += pools, stage->backward_end += pools;
  }
  return AC_OK;
}

/* Activations of the stage that its backward nodes read, except for the boundary that leaves it,
 * which the next stage keeps. Hints decide where there are any. */
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

static ac_status cut(ac_stages *stages, const ac_nodes *nodes) {
  const ac_graph *graph = stages->graph;
  size_t tensors = (size_t)graph->tensor_count + 1;
  int forward = list_nodes(stages, nodes);
  bool *runs = calloc((size_t)graph->node_count + 1, sizeof *runs);
  int *last = calloc(tensors, sizeof *last);
  int64_t *alive = calloc((size_t)forward + 2, sizeof *alive);
  int64_t *crossing = calloc((size_t)forward + 2, sizeof *crossing);
  bool *listed = calloc(tensors, sizeof *listed);
  stages->stage = calloc((size_t)forward + 1, sizeof *stages->stage);
  ac_status status = AC_OK;
  if (!runs || !last || !alive || !crossing || !listed || !stages->stage) {
    status = no_memory();
  } else {
    for (int i = 0; i < nodes->count; i++) runs[nodes->list[i]] = true;
    find_last(stages, runs, forward, last);
    count_crossing(stages, forward, last, alive, crossing);
    cut_forward(stages, forward, alive, crossing);
    cut_backward(stages, forward);
    status = set_before(stages);
    find_producers(stages);
    for (int s = 0; s < stages->count && status == AC_OK; s++)
      status = find_droppable(stages, s, listed);
  }
  free(runs);
  free(last);
  free(alive);
  free(crossing);
  free(listed);
  return status;
}

ac_status ac_stages_cut(ac_stages *stages, const ac_graph *graph, const ac_nodes *nodes) {
  *stages = (ac_stages){.graph = graph, .input = -1};
  size_t tensors = (size_t)graph->tensor_count + 1, count = (size_t)nodes->count + 1;
  stages->nodes = malloc(count * sizeof *stages->nodes);
  stages->stage_of = malloc(tensors * sizeof *stages->stage_of);
  stages->producer = malloc(tensors * sizeof *stages->producer);
  const bool room = stages->nodes && stages->stage_of && stages->producer;
  const ac_status status = room ? cut(stages, nodes) : no_memory();
  if (status != AC_OK) ac_stages_free(stages);
  return status;
}

void ac_stages_free(ac_stages *stages) {
  for (int s = 0; stages->stage && s < stages->count; s++) free(stages->stage[s].droppable);
  free(stages->stage);
  free(stages->nodes);
  free(stages->stage_of);
  free(stages->producer);
  memset(stages, 0, sizeof *stages);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* An order on its way. */
typedef struct layer {
  ac_order *order;
  const ac_stages *stages;
} layer;

static ac_status append(const layer *l, int node) {
  ac_order *order = l->order;
  if (order->nodes.count == order->capacity) {
    int capacity = order->capacity ? 2 * order->capacity : 256;
    int *grown = realloc(order->nodes.list, (size_t)capacity * sizeof *grown);
    if (!grown) return no_memory();
    order->nodes.list = grown;
    order->capacity = capacity;
  }
  order->nodes.list[order->nodes.count++] = node;
  return AC_OK;
}

/* All that the node yields is there already and stays: it was hinted to be kept. */
static bool stays(const layer *l, const ac_node *node) {
  bool any = false;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (node->out[j] < 0) continue;
    int storage = activation(l->stages->graph, node->out[j]);
    if (storage < 0 || !l->order->kept[storage]) return false;
    any = true;
  }
  return any;
}

/* The node yields nothing but sums, and has added to them: a loss or a metric of a stage that runs
 * again. */
static bool is_summed_up(const layer *l, int index) {
  const ac_node *node = ac_node_at(l->stages->graph, index);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (activation(l->stages->graph, node->out[j]) >= 0) return false;
  return l->order->ran[index];
}

static ac_status run_forward(const layer *l, int index) {
  const ac_graph *graph = l->stages->graph;
  const ac_node *node = ac_node_at(graph, index);
  if (stays(l, node) || is_summed_up(l, index)) return AC_OK;
  l->order->ran[index] = true;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    int storage = activation(graph, node->out[j]);
    if (storage < 0) continue;
    l->order->available[storage] = true;
    l->order->kept[storage] = ac_tensor_at(graph, storage)->hint == AC_KEEP;
  }
  return append(l, index);
}

/* Runs the stage forward. What its backward nodes read stays available, unless it is among the
 * first `drops` of `droppable`; without that list (NULL) nothing does. */
static ac_status lay_forward(const layer *l, int s, const int *droppable, int drops) {
  const ac_stages *stages = l->stages;
  const ac_stage *stage = &stages->stage[s];
  for (int p = stage->forward; p < stage->forward_end; p++)
    AC_TRY(run_forward(l, stages->nodes[p]));
  for (int p = stage->forward; p < stage->forward_end; p++)
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int storage = activation(stages->graph, ac_node_at(stages->graph, stages->nodes[p])->out[j]);
      if (storage >= 0 && storage != stage->boundary && !l->order->kept[storage])
        l->order->available[storage] = false;
    }
  for (int i = drops; droppable && i < stage->droppable_count; i++)
    l->order->available[droppable[i]] = true;
  return AC_OK;
}

static ac_status lay_variant(const layer *l, int s, const ac_stage_variants *variants,
                             int variant) {
  return variant < 0 ? lay_forward(l, s, NULL, 0)
                     : lay_forward(l, s, variants->droppable, variants->drops[variant]);
}

/* A node that will run once its inputs are there, and the next of these to look at. */
typedef struct pending {
  int node, input;
} pending;

static ac_status push(ac_order *order, int *depth, int node) {
  if (*depth == order->pending_capacity) {
    int capacity = order->pending_capacity ? 2 * order->pending_capacity : 64;
    pending *grown = realloc(order->pending, (size_t)capacity * sizeof *grown);
    if (!grown) return no_memory();
    order->pending = grown;
    order->pending_capacity = capacity;
  }
  ((pending *)order->pending)[(*depth)++] = (pending){node, 0};
  return AC_OK;
}

/* The storage that has to be computed anew for a tensor; -1: it is there, or not the stage's. */
static int missing(const layer *l, int s, int tensor) {
  int storage = activation(l->stages->graph, tensor);
  if (storage < 0 || l->stages->stage_of[storage] != s || l->order->available[storage]) return -1;
  return storage;
}

/* Computes an activation of the stage anew if it is not there, and first what that takes. On a
 * stack of its own: a stage may be as deep as the graph is long. */
static ac_status ensure(const layer *l, int s, int tensor) {
  const ac_stages *stages = l->stages;
  const int wanted = missing(l, s, tensor);
  int depth = 0;
  if (wanted >= 0) AC_TRY(push(l->order, &depth, stages->producer[wanted]));
  while (depth) {
    pending *top = &((pending *)l->order->pending)[depth - 1];
    if (top->input == AC_MAX_INPUTS) {
      depth--;
      AC_TRY(run_forward(l, top->node));
      continue;
    }
    const int next = missing(l, s, ac_node_at(stages->graph, top->node)->in[top->input++]);
    if (next >= 0) AC_TRY(push(l->order, &depth, stages->producer[next]));
  }
  return AC_OK;
}

static ac_status lay_backward(const layer *l, int s) {
  const ac_stage *stage = &l->stages->stage[s];
  for (int p = stage->backward; p < stage->backward_end; p++) {
    const ac_node *node = ac_node_at(l->stages->graph, l->stages->nodes[p]);
    for (int i = 0; i < AC_MAX_INPUTS; i++) AC_TRY(ensure(l, s, node->in[i]));
    AC_TRY(append(l, l->stages->nodes[p]));
  }
  return AC_OK;
}

static layer begin_order(ac_order *order, const ac_stages *stages) {
  size_t tensors = (size_t)stages->graph->tensor_count;
  order->nodes.count = 0;
  memset(order->available, 0, tensors * sizeof *order->available);
  memset(order->kept, 0, tensors * sizeof *order->kept);
  memset(order->ran, 0, (size_t)stages->graph->node_count * sizeof *order->ran);
  return (layer){order, stages};
}

/* Only what the stage fills is asked about, so that this is linear in the stage. */
static layer begin_stage(ac_order *order, const ac_stages *stages, int s) {
  const ac_stage *stage = &stages->stage[s];
  order->nodes.count = 0;
  for (int p = stage->forward; p < stage->forward_end; p++) {
    order->ran[stages->nodes[p]] = false;
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      int storage = activation(stages->graph, ac_node_at(stages->graph, stages->nodes[p])->out[j]);
      if (storage >= 0) order->available[storage] = order->kept[storage] = false;
    }
  }
  return (layer){order, stages};
}

ac_status ac_order_create(ac_order *order, const ac_stages *stages) {
  size_t tensors = (size_t)stages->graph->tensor_count + 1;
  *order = (ac_order){.available = malloc(tensors * sizeof *order->available),
                      .kept = malloc(tensors * sizeof *order->kept),
                      .ran = malloc(((size_t)stages->graph->node_count + 1) * sizeof *order->ran)};
  return order->available && order->kept && order->ran ? AC_OK : no_memory();
}

void ac_order_free(ac_order *order) {
  free(order->nodes.list);
  free(order->pending);
  free(order->available);
  free(order->kept);
  free(order->ran);
}

ac_status ac_order_lay(ac_order *order, const ac_stages *stages, const ac_stage_chain *chain,
                       const ac_chain_operation *operations, int count) {
  const layer l = begin_order(order, stages);
  for (int p = 0; p < stages->before; p++) AC_TRY(append(&l, stages->nodes[p]));
  for (int i = 0; i < count; i++) {
    int s = operations[i].stage - 1;
    int variant = operations[i].kind == AC_CHAIN_SAVE ? operations[i].variant : -1;
    if (operations[i].kind == AC_CHAIN_BACKWARD) AC_TRY(lay_backward(&l, s));
    else AC_TRY(lay_variant(&l, s, &chain->variants[s], variant));
  }
  return AC_OK;
}

ac_status ac_order_lay_stage(ac_order *order, const ac_stages *stages, int s,
                             const ac_stage_variants *variants, int variant, int *split) {
  const layer l = begin_stage(order, stages, s);
  AC_TRY(lay_variant(&l, s, variants, variant));
  *split = order->nodes.count;
  return variant < 0 ? AC_OK : lay_backward(&l, s);
}

ac_status ac_order_lay_plain(ac_order *order, const ac_stages *stages) {
  const layer l = begin_order(order, stages);
  for (int p = 0; p < stages->node_count; p++) AC_TRY(append(&l, stages->nodes[p]));
  return AC_OK;
}
