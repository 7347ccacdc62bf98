/* What is asked for: the graph with all nodes of a window, stored as the precision says, which of
 * them run, what persists. All that follows from graph, device and description without a choice. */
#include "plan/shards.h"
#include "plan/stages.h"
#include "plan/works.h"

#include "core/align.h"
#include "core/error.h"
#include "core/platform/patterns.h"
#include "core/share.h"
#include "graph/differentiate.h"
#include "graph/freeze.h"
#include "graph/fuse.h"
#include "graph/precision.h"
#include "graph/reach.h"
#include "graph/window_norms.h"
#include "optimizer/nodes.h"

#include <stdlib.h>
#include <string.h>

ac_dtype ac_plan_storage(const ac_plan_desc *desc) {
  static const ac_dtype storage[] = {AC_F32, AC_F16, AC_BF16};
  return storage[desc->precision];
}

/* ---- what the device runs -------------------------------------------------------------------- */

/* The sentence about a node that cannot run, and what would help. */
static ac_status unsupported(const ac_problem *problem, const ac_node *node, int64_t batch) {
  char text[128], whole[128];
  const char *id = problem->device->info.id;
  const ac_op_desc *desc = ac_op_describe(node->op);
  const bool on_host = problem->device->backend->is_host;
  const char *lacks = desc->lacks ? desc->lacks(node->attributes, on_host) : NULL;
  ac_node_text(text, sizeof text, problem->graph, node);
  if (lacks)
    return ac_fail(AC_ERROR_UNSUPPORTED, "plan: device %s cannot run %s, because %s", id, text,
                   lacks);
  if (batch == 1) return ac_fail(AC_ERROR_UNSUPPORTED, "plan: device %s cannot run %s", id, text);
  if (problem->coupled < 0)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "plan: device %s cannot run %s at a micro-batch of %lld; give a smaller one", id,
                   text, (long long)batch);
  return ac_fail(
      AC_ERROR_UNSUPPORTED,
      "plan: device %s cannot run %s on %lld samples, and %s keeps a batch whole; take a "
      "smaller batch, group norm, or accept the statistics of micro-batches",
      id, text, (long long)batch,
      ac_node_text(whole, sizeof whole, problem->graph,
                   ac_node_at(problem->graph, problem->coupled)));
}

/* One node of each kind is asked about. */
static ac_status check_nodes(const ac_problem *problem, const ac_nodes *nodes, bool training,
                             int64_t batch) {
  ac_run_state run = {.training = training, .batch = batch};
  const ac_backend *backend = problem->device->backend;
  bool *asked = calloc((size_t)problem->graph->node_count + 1, sizeof *asked);
  if (!asked) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of nodes");
  ac_status status = AC_OK;
  for (int i = 0; i < nodes->count && status == AC_OK; i++) {
    bool *known = &asked[ac_works_kind(problem->works, nodes->list[i])];
    ac_op_args args;
    if (*known) continue;
    *known = true;
    ac_node_arguments(nodes->list[i], problem->graph, &run, &args);
    if (!backend->supports(problem->device->state, &args))
      status = unsupported(problem, ac_node_at(problem->graph, nodes->list[i]), batch);
  }
  free(asked);
  return status;
}

ac_status ac_problem_check_support(const ac_problem *problem, int64_t micro_batch) {
  AC_TRY(check_nodes(problem, &problem->main, problem->desc.purpose == AC_TRAIN, micro_batch));
  return check_nodes(problem, &problem->evaluation, false, micro_batch);
}

bool ac_problem_supports_prediction(const ac_problem *problem, int64_t micro_batch) {
  const ac_kept_error kept = ac_error_keep();
  const bool supports = check_nodes(problem, &problem->prediction, false, micro_batch) == AC_OK;
  ac_error_restore(&kept);
  return supports;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Lists the nodes that the target needs, each once, in creation order and phase by phase. `after`
 * and `folds` (NULL: none of these) get those of other phases. */
static ac_status list_nodes(const ac_problem *problem, ac_target target, bool *runs,
                            ac_nodes *nodes, ac_nodes *after, ac_nodes *folds) {
  const ac_graph *graph = problem->graph;
  size_t room = (size_t)graph->node_count + 1;
  AC_TRY(ac_select_nodes(graph, target, runs));
  nodes->list = malloc(room * sizeof *nodes->list);
  if (after) after->list = malloc(room * sizeof *after->list);
  if (folds) folds->list = malloc(room * sizeof *folds->list);
  if (!nodes->list || (after && !after->list) || (folds && !folds->list))
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of nodes");
  for (int phase = 0; phase < AC_PHASE_COUNT; phase++)
    for (int i = 0; i < graph->node_count; i++) {
      if (!runs[i] || (int)ac_node_at(graph, i)->phase != phase) continue;
      ac_nodes *to = phase == AC_PHASE_MICRO_BATCH ? nodes : phase == AC_PHASE_FOLD ? folds : after;
      to->list[to->count++] = i;
    }
  return AC_OK;
}

static void mark_reads(ac_problem *problem, const ac_nodes *nodes) {
  for (int i = 0; i < nodes->count; i++) {
    const ac_node *node = ac_node_at(problem->graph, nodes->list[i]);
    for (int k = 0; k < AC_MAX_INPUTS; k++)
      if (node->in[k] >= 0)
        problem->reads[ac_tensor_at(problem->graph, node->in[k])->storage] = true;
  }
}

static ac_status select_nodes(ac_problem *problem, bool *runs) {
  ac_purpose purpose = problem->desc.purpose;
  if (purpose != AC_TRAIN)
    return list_nodes(problem, purpose == AC_EVALUATE ? AC_TARGET_LOSS : AC_TARGET_OUTPUTS, runs,
                      &problem->main, NULL, NULL);
  AC_TRY(list_nodes(problem, AC_TARGET_LOSS, runs, &problem->evaluation, NULL, NULL));
  AC_TRY(list_nodes(problem, AC_TARGET_OUTPUTS, runs, &problem->prediction, NULL, NULL));
  AC_TRY(list_nodes(problem, AC_TARGET_GRADIENTS, runs, &problem->main, &problem->after,
                    &problem->folds));
  problem->stages = calloc(1, sizeof *problem->stages);
  if (!problem->stages) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  return ac_stages_cut(problem->stages, problem->graph, &problem->main);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Byte counts of whole tensors, and sums of a few thousand of them, must fit 64 bits. */
static ac_status check_sizes(const ac_problem *problem) {
  for (int i = 0; i < problem->graph->tensor_count; i++) {
    const ac_shape *shape = &ac_tensor_at(problem->graph, i)->shape;
    int64_t batch = shape->batched ? problem->desc.batch : 1;
    char text[AC_SHAPE_TEXT];
    if (ac_shape_count(shape) > AC_MAX_ELEMENTS / batch)
      return ac_fail(AC_ERROR_BUDGET,
                     "plan: a tensor of %s at a batch of %lld is beyond any device",
                     ac_shape_text(text, shape), (long long)problem->desc.batch);
  }
  return AC_OK;
}

/* A way of gradients may ask for windows of one micro-batch. */
static ac_status settle_whole(ac_plan_desc *desc, const ac_gradient_way *way) {
  if (!way->one_micro_batch || desc->purpose != AC_TRAIN) return AC_OK;
  if (desc->micro_batch && desc->micro_batch != desc->batch)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: gradients that are %s need a window of one micro-batch, but a batch of "
                   "%lld in micro-batches of %lld has several",
                   way->words, (long long)desc->batch, (long long)desc->micro_batch);
  desc->micro_batch = desc->batch;
  desc->whole_windows = true;
  return AC_OK;
}

/* Of one rank; its share may be empty. */
static bool share_allows(const ac_problem *problem, int64_t share, int64_t micro_batch) {
  const int64_t rest = share % micro_batch;
  return rest == 0 || rest >= problem->least;
}

bool ac_problem_allows(const ac_problem *problem, int64_t batch, int64_t micro_batch) {
  const int ranks = problem->desc.ranks;
  if (problem->in_sections) return batch >= problem->least; /* samples of a window count */
  return micro_batch >= problem->least &&
         share_allows(problem, ac_share_most(batch, ranks), micro_batch) &&
         share_allows(problem, ac_share_of(batch, ranks - 1, ranks), micro_batch);
}

/* Refuses a batch, or a micro-batch that is given, in which an op would see too few samples. */
static ac_status check_least(ac_problem *problem) {
  const ac_plan_desc *desc = &problem->desc;
  const ac_run_state one = {.training = true, .batch = 1};
  int node = -1;
  problem->least = 1;
  for (int i = 0; i < problem->main.count && desc->purpose == AC_TRAIN; i++) {
    ac_op_args args;
    const ac_op_desc *op = ac_op_describe(ac_node_at(problem->graph, problem->main.list[i])->op);
    if (!op->least_samples) continue;
    ac_node_arguments(problem->main.list[i], problem->graph, &one, &args);
    const int64_t least = op->least_samples(&args);
    if (least > problem->least) problem->least = least, node = problem->main.list[i];
  }
  const int64_t size = desc->micro_batch ? desc->micro_batch : desc->batch;
  if (ac_problem_allows(problem, problem->asked.batch, size)) return AC_OK;
  char text[128];
  return ac_fail(AC_ERROR_ARGUMENT,
                 "plan: %s needs at least %lld samples, because one value of a channel has no "
                 "variance, but a batch of %lld in micro-batches of %lld has a micro-batch of "
                 "%lld; give other sizes, or use layer norm",
                 ac_node_text(text, sizeof text, problem->graph, ac_node_at(problem->graph, node)),
                 (long long)problem->least, (long long)desc->batch, (long long)size,
                 (long long)(size < problem->least ? size : desc->batch % size));
}

/* A batch that must not be split is one micro-batch. */
static ac_status settle_micro_batch(ac_problem *problem) {
  ac_plan_desc *desc = &problem->desc;
  problem->coupled = -1;
  AC_TRY(settle_whole(desc, problem->way));
  AC_TRY(check_least(problem));
  if (desc->purpose != AC_TRAIN || desc->batch_norm == AC_BATCH_NORM_MICRO) return AC_OK;
  for (int i = problem->main.count - 1; i >= 0; i--) {
    const ac_node *node = ac_node_at(problem->graph, problem->main.list[i]);
    if (!node->backward && ac_op_couples_samples(node->op, node->attributes))
      problem->coupled = problem->main.list[i];
  }
  if (problem->coupled < 0) return AC_OK;
  char text[128];
  if (problem->in_sections)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: %s looks at all samples of a batch, and only batch norms can do so in "
                   "several micro-batches; keep the batch whole",
                   ac_node_text(text, sizeof text, problem->graph,
                                ac_node_at(problem->graph, problem->coupled)));
  if (desc->ranks > 1)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: %s looks at all samples of a batch, which ranks share out; take exact "
                   "batch norm or group norm, or accept the statistics of micro-batches",
                   ac_node_text(text, sizeof text, problem->graph,
                                ac_node_at(problem->graph, problem->coupled)));
  if (!desc->micro_batch) desc->micro_batch = desc->batch;
  if (desc->micro_batch == desc->batch) return AC_OK;
  return ac_fail(
      AC_ERROR_ARGUMENT,
      "plan: %s looks at all samples of a batch of %lld and cannot be split into "
      "micro-batches of %lld; take group norm, a micro-batch of %lld, or accept the "
      "statistics of micro-batches",
      ac_node_text(text, sizeof text, problem->graph, ac_node_at(problem->graph, problem->coupled)),
      (long long)desc->batch, (long long)desc->micro_batch, (long long)desc->batch);
}

/* The bytes are what ac_loader_bytes says for the inputs that are read, their batches rounded up
 * alike, except for one sample of other fields a thread. */
static void count_read_ahead(ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  for (int i = 0; i < graph->input_count && problem->desc.purpose == AC_TRAIN; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (!problem->fed[i] || !input->shape.batched) continue;
    ac_operand x = ac_operand_of(input, problem->desc.batch);
    uint64_t bytes = (uint64_t)x.count * ac_dtype_bytes(x.dtype);
    problem->read_ahead_bytes += ac_align(bytes, AC_LINE_BYTES);
  }
  if (problem->desc.purpose != AC_TRAIN) problem->desc.read_ahead = 0;
}

bool ac_problem_may_transfer(const ac_problem *problem) {
  const ac_plan_desc *desc = &problem->desc;
  if (!problem->way->moves_state || desc->ranks > 1) return false;
  if (desc->purpose != AC_TRAIN || desc->state_space == AC_STATE_ON_DEVICE) return false;
  if (desc->state_space == AC_STATE_ON_HOST && !desc->host_memory) return true;
  return problem->host_bytes && problem->host_bytes <= desc->host_memory;
}

/* Optimizer state can be moved to host memory where that is another, and where there is some. */
static ac_status settle_state_space(ac_problem *problem) {
  const ac_plan_desc *desc = &problem->desc;
  const bool asked = desc->state_space == AC_STATE_ON_HOST;
  if (desc->purpose != AC_TRAIN || desc->state_space == AC_STATE_ON_DEVICE) return AC_OK;
  if (!asked && !desc->host_memory) return AC_OK;
  if (!problem->device->info.own_memory)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "plan: optimizer state cannot be moved to host memory, because the memory of %s is "
        "the host's",
        problem->device->info.id);
  if (!problem->way->moves_state)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "plan: optimizer state in host memory and gradients that are %s exclude each other",
        problem->way->words);
  problem->host_bytes = ac_cells_host_bytes(problem);
  if (!asked) return AC_OK;
  if (!problem->host_bytes)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: there is no optimizer state to be moved to host memory: none is kept for "
                   "a parameter of 4096 elements or more");
  if (ac_problem_may_transfer(problem)) return AC_OK;
  char need[32], have[32];
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: optimizer state in host memory takes %s (%llu bytes) there, and the budget "
                 "of host memory is %s",
                 ac_format_bytes_needed(need, sizeof need, problem->host_bytes),
                 (unsigned long long)problem->host_bytes,
                 ac_format_bytes(have, sizeof have, desc->host_memory));
}

uint64_t ac_problem_needs(const ac_problem *problem, uint64_t total, int read_ahead) {
  bool shared = problem->device->backend->is_host;
  if (total == UINT64_MAX || !shared) return total;
  return total + ac_problem_read_ahead(problem, read_ahead) + ac_shards_bytes(problem);
}

static void find_parameters(ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  for (int i = 0; i < graph->parameter_count; i++)
    problem->parameters[i] = (ac_parameter_tensors){
        .tensor = graph->parameters[i],
        .gradient = -1,
        .working = -1,
        .optimizer =
            ac_optimizer_stepping(&problem->desc, ac_tensor_at(graph, graph->parameters[i])).row};
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->storage != i) continue;
    if (tensor->role == AC_ROLE_WORKING) problem->parameters[tensor->parameter].working = i;
    if (tensor->role == AC_ROLE_GRADIENT) problem->parameters[tensor->parameter].gradient = i;
  }
}

/* Ids that are constants must be in the table that they index. */
static ac_status check_constant_ids(const ac_graph *graph, int index) {
  const ac_node *node = ac_node_at(graph, index);
  const ac_op_desc *desc = ac_op_describe(node->op);
  const ac_tensor *ids =
      desc->id_limit && !node->backward ? ac_tensor_at(graph, node->in[desc->ids]) : NULL;
  if (!ids || ac_tensor_at(graph, ids->storage)->role != AC_ROLE_CONSTANT) return AC_OK;
  const ac_tensor *constant = ac_tensor_at(graph, ids->storage);
  const int32_t *values = (const int32_t *)(const void *)constant->values->data;
  const ac_run_state one = {.batch = 1};
  ac_op_args args;
  ac_node_arguments(index, graph, &one, &args);
  const int64_t limit = desc->id_limit(&args);
  for (int64_t i = 0; i < ac_shape_count(&constant->shape); i++) {
    char text[128];
    if (values[i] < 0 || values[i] >= limit)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "plan: %s: constant \"%s\" holds %d at position %lld, outside [0, %lld)",
                     ac_node_text(text, sizeof text, graph, node), constant->name, (int)values[i],
                     (long long)i, (long long)limit);
  }
  return AC_OK;
}

static ac_status check_constants(const ac_graph *graph) {
  for (int n = 0; n < graph->node_count; n++) AC_TRY(check_constant_ids(graph, n));
  return AC_OK;
}

/* What several losses weigh must be known before a window, and of a single one if the way of
 * gradients needs it. */
static ac_status check_losses(const ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  const bool several = graph->loss_count > 1;
  if (problem->desc.loss_means == AC_LOSS_MEANS_GIVEN || (!several && !problem->way->needs_weights))
    return AC_OK;
  if (several && problem->desc.loss_means == AC_LOSS_MEANS_PER_SAMPLE) return AC_OK;
  for (int k = 0; k < graph->loss_count; k++) {
    const ac_node *node = ac_node_at(graph, ac_tensor_at(graph, graph->losses[k].tensor)->producer);
    const ac_op_desc *desc = ac_op_describe(node->op);
    ac_run_state run = {.batch = 1};
    ac_op_args args;
    ac_node_arguments(ac_tensor_at(graph, graph->losses[k].tensor)->producer, graph, &run, &args);
    const ac_loss_rows rows = desc->loss_rows(&args);
    int64_t columns;
    bool known = (rows.weights < 0 || ac_node_input(graph, node, rows.weights) >= 0 ||
                  ac_node_lengths(graph, node, rows.weights, &columns) >= 0) &&
                 (!rows.ignore || ac_node_input(graph, node, desc->ids) >= 0);
    if (!known)
      return ac_fail(AC_ERROR_UNSUPPORTED,
                     "plan: the weight of loss %s does not follow from inputs alone, but with %s "
                     "it must be known before a window: give it (AC_LOSS_MEANS_GIVEN)%s",
                     graph->losses[k].name, several ? "several losses" : "folded gradients",
                     several ? ", or divide by samples (AC_LOSS_MEANS_PER_SAMPLE)" : "");
  }
  return AC_OK;
}

/* What the device's ops round themselves. */
static void list_rounds(const ac_problem *problem, uint32_t *rounds) {
  const ac_device *device = problem->device;
  const ac_dtype storage = ac_plan_storage(&problem->desc);
  if (!device->backend->rounds || storage == AC_F32) return;
  for (int op = 0; op < AC_OP_COUNT; op++)
    rounds[op] = device->backend->rounds(device->state, (ac_op)op, storage);
}

/* And what they decode. */
static void list_decodes(const ac_problem *problem, uint32_t *decodes) {
  const ac_device *device = problem->device;
  for (int op = 0; op < AC_OP_COUNT && device->backend->decodes; op++)
    decodes[op] =
        device->backend->decodes(device->state, (ac_op)op, ac_plan_storage(&problem->desc));
}

/* What is kept from one run to the next has no gradient, and is of no use to samples of a dataset.
 */
static ac_status check_caches(const ac_problem *problem) {
  for (int i = 0; i < problem->graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(problem->graph, i);
    if (tensor->role == AC_ROLE_CACHE && problem->desc.purpose != AC_PREDICT)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "plan: cache \"%s\" keeps rows from one run to the next; plan such a graph "
                     "with AC_PREDICT, and build another one for training and evaluation",
                     tensor->name);
  }
  return AC_OK;
}

/* Batch norms over whole windows, which are then in sections. */
static ac_status spread_norms(ac_problem *problem) {
  const ac_plan_desc *desc = &problem->desc;
  int count = 0;
  if (desc->purpose != AC_TRAIN || desc->batch_norm != AC_BATCH_NORM_EXACT) return AC_OK;
  AC_TRY(ac_graph_spread_norms(problem->graph, &count));
  problem->in_sections = count > 0;
  if (!count) return AC_OK;
  const bool kept = problem->way->by_auto && !problem->way->one_micro_batch;
  if (!kept && problem->way->gradients != AC_GRADIENTS_AUTO)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "plan: exact batch norm needs gradients that are kept (AC_GRADIENTS_BUFFER), and "
        "excludes gradients that are %s",
        problem->way->words);
  return AC_OK;
}

/* The graph with all nodes of a window. */
static ac_status complete_graph(ac_problem *problem) {
  ac_graph *graph = problem->graph;
  bool training = problem->desc.purpose == AC_TRAIN;
  AC_TRY(check_caches(problem));
  AC_TRY(check_constants(graph));
  if (training) AC_TRY(ac_graph_freeze(graph, problem->desc.frozen));
  if (training) AC_TRY(ac_graph_check_reach(graph));
  AC_TRY(ac_graph_fuse(graph, &problem->fused));
  AC_TRY(spread_norms(problem));
  if (training) AC_TRY(ac_graph_differentiate(graph));
  uint32_t rounds[AC_OP_COUNT] = {0}, decodes[AC_OP_COUNT] = {0};
  list_rounds(problem, rounds);
  list_decodes(problem, decodes);
  const ac_graph_storage storage = {.operands = ac_plan_storage(&problem->desc),
                                    .weights = problem->desc.weights == AC_WEIGHTS_BF16,
                                    .gradients = problem->desc.gradient_storage == AC_GRADIENT_BF16,
                                    .copies = problem->copies,
                                    .decodes = decodes,
                                    .rounds = rounds};
  AC_TRY(ac_graph_set_storage(graph, &storage));
  if (training) AC_TRY(ac_optimizer_append(graph, &problem->desc, problem->way->folds));
  AC_TRY(check_sizes(problem));
  if (training) AC_TRY(check_losses(problem));
  if (problem->desc.purpose == AC_EVALUATE && !graph->loss_count)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no loss to evaluate");
  if (problem->desc.purpose == AC_PREDICT && graph->output_count == 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no output to predict");
  return AC_OK;
}

bool ac_problem_shares(const ac_problem *problem, int parameter) {
  const ac_graph *graph = problem->graph;
  return ac_patterns_match(problem->desc.shared,
                           ac_tensor_at(graph, graph->parameters[parameter])->name);
}

bool ac_problem_shares_cache(const ac_problem *problem, const ac_tensor *cache) {
  return ac_patterns_match(problem->desc.shared, cache->name);
}

static bool names_cache(const ac_graph *graph, const char *pattern) {
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->role == AC_ROLE_CACHE && tensor->storage == i &&
        ac_pattern_matches(pattern, tensor->name))
      return true;
  }
  return false;
}

/* Each pattern names at least one parameter or cache. */
static ac_status check_shared(const ac_problem *problem) {
  const ac_graph *graph = problem->graph;
  const char *patterns = problem->desc.shared;
  char pattern[AC_PATTERN_BYTES];
  while (patterns && ac_pattern_next(&patterns, pattern)) {
    bool matches = names_cache(graph, pattern);
    for (int i = 0; i < graph->parameter_count; i++)
      matches |= ac_pattern_matches(pattern, ac_tensor_at(graph, graph->parameters[i])->name);
    if (!matches)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "plan: no parameter's name matches \"%s\", which is to be shared", pattern);
  }
  return AC_OK;
}

static void find_after_workspace(ac_problem *problem) {
  const ac_backend *backend = problem->device->backend;
  ac_run_state run = {.training = true, .batch = 1};
  for (int i = 0; i < problem->after.count; i++) {
    ac_op_args args;
    ac_node_arguments(problem->after.list[i], problem->graph, &run, &args);
    uint64_t bytes = backend->workspace(problem->device->state, &args);
    if (bytes > problem->after_workspace) problem->after_workspace = bytes;
  }
}

static ac_status derive(ac_problem *problem) {
  AC_TRY(check_shared(problem));
  AC_TRY(complete_graph(problem));
  const ac_graph *graph = problem->graph;
  problem->reads = calloc((size_t)graph->tensor_count + 1, sizeof *problem->reads);
  problem->fed = calloc((size_t)graph->input_count + 1, sizeof *problem->fed);
  problem->parameters = calloc((size_t)graph->parameter_count + 1, sizeof *problem->parameters);
  bool *runs = calloc((size_t)graph->node_count + 1, sizeof *runs);
  ac_status status = AC_OK;
  if (!problem->reads || !problem->fed || !problem->parameters || !runs)
    status = ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  if (status == AC_OK) status = select_nodes(problem, runs);
  free(runs);
  AC_TRY(status);
  problem->works = ac_works_create(graph, problem->device);
  if (!problem->works) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  find_parameters(problem);
  mark_reads(problem, &problem->main);
  mark_reads(problem, &problem->evaluation);
  for (int i = 0; i < graph->input_count; i++) problem->fed[i] = problem->reads[graph->inputs[i]];
  mark_reads(problem, &problem->prediction);
  AC_TRY(ac_problem_check_support(problem, 1));
  AC_TRY(check_nodes(problem, &problem->prediction, false, 1));
  find_after_workspace(problem);
  count_read_ahead(problem);
  AC_TRY(ac_shards_find(problem));
  AC_TRY(ac_cells_list(problem));
  AC_TRY(settle_state_space(problem));
  return settle_micro_batch(problem);
}

/* A text of the description, which is kept in *own. */
static ac_status keep_text(const char **text, char **own) {
  if (*text && !(*text = *own = strdup(*text)))
    return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  return AC_OK;
}

/* The description from here on is that of one rank. */
static void take_share(ac_plan_desc *desc) {
  if (!desc->ranks) desc->ranks = 1;
  desc->batch = ac_share_most(desc->batch, desc->ranks);
  if (desc->ranks > 1 && desc->micro_batch > desc->batch) desc->micro_batch = desc->batch;
  /* One rank has all parts. */
  if (desc->ranks < 2 && ac_gradient_way_of(desc->gradients)->shards)
    desc->gradients = AC_GRADIENTS_BUFFER;
}

ac_status ac_problem_create(ac_problem *problem, const ac_graph *graph, ac_device *device,
                            const ac_plan_desc *desc, bool copies) {
  *problem = (ac_problem){.device = device, .desc = *desc, .copies = copies, .coupled = -1};
  if (!desc->batch) problem->desc.batch = desc->micro_batch ? desc->micro_batch : 1;
  AC_TRY(keep_text(&problem->desc.optimizer.state_f32, &problem->state_f32));
  AC_TRY(keep_text(&problem->desc.frozen, &problem->frozen));
  AC_TRY(keep_text(&problem->desc.shared, &problem->shared));
  problem->asked = problem->desc;
  take_share(&problem->desc);
  problem->way = ac_gradient_way_of(problem->desc.gradients);
  AC_TRY(ac_graph_clone(&problem->source, graph));
  AC_TRY(ac_graph_clone(&problem->graph, graph));
  return derive(problem);
}

void ac_problem_free(ac_problem *problem) {
  if (problem->stages) ac_stages_free(problem->stages);
  free(problem->stages);
  ac_works_free(problem->works);
  ac_graph_free(problem->source);
  ac_graph_free(problem->graph);
  free(problem->state_f32);
  free(problem->frozen);
  free(problem->shared);
  free(problem->main.list);
  free(problem->evaluation.list);
  free(problem->prediction.list);
  free(problem->after.list);
  free(problem->folds.list);
  free(problem->reads);
  free(problem->fed);
  free(problem->parameters);
  free(problem->cells);
  free(problem->cells_by_owner);
  free(problem->streamed);
  free(problem->bounds);
}
