/* Building and copying graphs. Arrays grow by doubling; a failed allocation sticks like any other
 * failure. */
#include "graph/graph.h"

#include "core/error.h"
#include "core/integers.h"
#include "core/utf8.h"
#include "graph/builder.h"
#include "graph/reach.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing arrays -------------------------------------------------------------------------- */

/* Makes room for one more element: capacities are powers of two, so the count tells when one is
 * full. */
static void *grow(void *array, int count, size_t size) {
  if (count & (count - 1)) return array;
  return realloc(array, (count ? 2 * (size_t)count : 1) * size);
}

#define GROW(array, count)                             \
  do {                                                 \
    void *grown = grow(array, count, sizeof *(array)); \
    if (!grown) return ac_graph_out_of_memory(graph);  \
    (array) = grown;                                   \
  } while (0)

/* Makes room for one more element in chunks that hold `count`. */
#define GROW_CHUNKS(chunks, count)                            \
  do {                                                        \
    if ((count) % AC_GRAPH_CHUNK) break;                      \
    GROW(chunks, (count) / AC_GRAPH_CHUNK);                   \
    void *chunk = malloc(AC_GRAPH_CHUNK * sizeof **(chunks)); \
    if (!chunk) return ac_graph_out_of_memory(graph);         \
    (chunks)[(count) / AC_GRAPH_CHUNK] = chunk;               \
  } while (0)

void *ac_graph_out_of_memory(ac_graph *graph) {
  return ac_graph_fail(graph, AC_ERROR_MEMORY, "no memory for the graph");
}

void ac_graph_free_chunks(void **chunks, int count) {
  for (int i = 0; i < (count + AC_GRAPH_CHUNK - 1) / AC_GRAPH_CHUNK; i++) free(chunks[i]);
  free(chunks);
}

/* ---- life ------------------------------------------------------------------------------------ */

ac_status ac_graph_create(ac_graph **graph) {
  AC_CREATES(graph);
  ac_graph *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a graph");
  made->builder.name = "graph";
  ac_graph_scope(made, NULL);
  ac_status status = made->status;
  if (status == AC_OK) *graph = made;
  else ac_graph_free(made);
  return status;
}

void ac_graph_free(ac_graph *graph) {
  if (!graph) return;
  for (int i = 0; i < graph->tensor_count; i++) {
    free(ac_tensor_at(graph, i)->name);
    ac_block_free(ac_tensor_at(graph, i)->values);
  }
  for (int i = 0; i < graph->output_count; i++) free(graph->outputs[i].name);
  for (int i = 0; i < graph->metric_count; i++) free(graph->metrics[i].name);
  for (int i = 0; i < graph->scope_count; i++) free(graph->scopes[i]);
  for (int i = 0; i < graph->kept_count; i++) ac_block_free(graph->kept[i]);
  ac_graph_free_chunks((void **)graph->tensor_chunks, graph->tensor_count);
  ac_graph_free_chunks((void **)graph->node_chunks, graph->node_count);
  free(graph->names.at);
  free(graph->inputs);
  free(graph->parameters);
  free(graph->outputs);
  free(graph->scopes);
  free(graph->kept);
  for (int i = 0; i < graph->loss_count; i++) free(graph->losses[i].name);
  free(graph);
}

ac_status ac_graph_status(const ac_graph *graph) {
  AC_REQUIRE(graph);
  return graph->status;
}
const char *ac_graph_message(const ac_graph *graph) {
  return graph ? graph->message : "";
}

ac_tensor *ac_graph_fail(ac_graph *graph, ac_status status, const char *format, ...) {
  if (graph->status != AC_OK) return NULL;
  va_list args;
  va_start(args, format);
  vsnprintf(graph->message, sizeof graph->message, format, args);
  va_end(args);
  graph->status = ac_fail(status, "%s", graph->message);
  return NULL;
}

static void *add_scope(ac_graph *graph, const char *scope) {
  GROW(graph->scopes, graph->scope_count);
  char *text = strdup(scope);
  if (!text) return ac_graph_out_of_memory(graph);
  graph->scopes[graph->scope_count] = text;
  graph->scope = graph->scope_count++;
  return text;
}

void ac_graph_scope(ac_graph *graph, const char *scope) {
  if (!graph || graph->status != AC_OK) return;
  if (scope || graph->scope_count == 0) add_scope(graph, scope ? scope : "");
  else graph->scope = 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

ac_tensor *ac_graph_new_tensor(ac_graph *graph, ac_role role, ac_dtype dtype,
                               const ac_shape *shape) {
  if (graph->status != AC_OK) return NULL;
  int64_t count = 1;
  for (int i = 0; i < shape->rank; i++) {
    char text[AC_SHAPE_TEXT];
    if (shape->dim[i] > AC_MAX_ELEMENTS / count)
      return ac_builder_fail(graph, &graph->builder, graph->operands,
                             "a tensor of %s is beyond any device", ac_shape_text(text, shape));
    count *= shape->dim[i];
  }
  GROW_CHUNKS(graph->tensor_chunks, graph->tensor_count);
  int id = graph->tensor_count++;
  ac_tensor *tensor = ac_tensor_at(graph, id);
  *tensor = (ac_tensor){.graph = graph,
                        .id = id,
                        .storage = id,
                        .role = role,
                        .dtype = dtype,
                        .shape = *shape,
                        .producer = -1,
                        .parameter = -1,
                        .made_by = -1,
                        .fed = -1};
  return tensor;
}

ac_tensor *ac_graph_view(ac_graph *graph, const ac_tensor *tensor, const ac_shape *shape) {
  ac_tensor *view = ac_graph_new_tensor(graph, tensor->role, tensor->dtype, shape);
  if (!view) return NULL;
  view->storage = tensor->storage;
  view->requires_gradient = tensor->requires_gradient;
  view->stopped = tensor->stopped;
  view->producer = tensor->producer;
  view->parameter = tensor->parameter;
  return view;
}

void *ac_graph_list(ac_graph *graph, int **list, int *count, int tensor) {
  GROW(*list, *count);
  (*list)[(*count)++] = tensor;
  return graph;
}

static void *add_kept(ac_graph *graph, ac_block *block) {
  GROW(graph->kept, graph->kept_count);
  graph->kept[graph->kept_count++] = block;
  return graph;
}

void *ac_graph_keep(ac_graph *graph, ac_block *block) {
  void *kept = add_kept(graph, block);
  if (!kept) ac_block_free(block);
  return kept;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void *append_node(ac_graph *graph) {
  GROW_CHUNKS(graph->node_chunks, graph->node_count);
  ac_node *node = ac_node_at(graph, graph->node_count++);
  memset(node, 0, sizeof *node);
  return node;
}

/* For one sample, without handles. */
static ac_op_args arguments_of(const ac_graph *graph, const ac_node *node) {
  ac_op_args args = {.op = node->op, .attributes = node->attributes};
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (node->in[i] >= 0) args.in[i] = ac_operand_of(ac_tensor_at(graph, node->in[i]), 1);
  return args;
}

static const ac_tensor *storage_at(const ac_graph *graph, int tensor) {
  return ac_tensor_at(graph, ac_tensor_at(graph, tensor)->storage);
}

/* Where a result of integers has them from, and what they are below: the op says so of those that
 * it finds; it may also move others, or those of an input into another type. */
static void find_origin(const ac_graph *graph, const ac_node *node, ac_tensor *result) {
  const ac_op_desc *desc = ac_op_describe(node->op);
  const ac_op_args args = arguments_of(graph, node);
  if (desc->id_bound) result->id_bound = desc->id_bound(&args);
  if (!ac_op_moves_integers(node->op) && !desc->converts) return;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const bool moved = node->in[i] >= 0 && (desc->converts || ac_op_input_kind(node->op, i) == 's');
    const ac_tensor *x = moved ? storage_at(graph, node->in[i]) : NULL;
    if (!x) continue;
    result->fed_by |= x->fed_by;
    result->id_bound = ac_larger(result->id_bound, x->id_bound);
  }
}

/* Ids that are fed, and may be converted or moved, are checked then, and constants when a plan is
 * made; those that an op finds, or that it moves, are in range by its own bound, or refused. */
static bool ids_fit(ac_graph *graph, const ac_node *node) {
  const ac_op_desc *desc = ac_op_describe(node->op);
  if (!desc->id_limit || desc->backward || node->in[desc->ids] < 0) return true;
  const ac_tensor *ids = storage_at(graph, node->in[desc->ids]);
  if (ids->producer < 0) return true;
  const ac_op_args args = arguments_of(graph, node);
  const int64_t limit = desc->id_limit(&args);
  if (ids->id_bound <= limit) return true;
  ac_builder_fail(graph, &graph->builder, graph->operands,
                  "ids of %s may be up to %lld, and have to be below %lld",
                  ac_op_name(ac_node_at(graph, ids->producer)->op), (long long)ids->id_bound - 1,
                  (long long)limit);
  return false;
}

int ac_graph_append(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                    ac_tensor *const *in) {
  if (graph->status != AC_OK) return -1;
  ac_node *node = append_node(graph);
  if (!node) return -1;
  node->op = op;
  node->phase = ac_op_describe(op)->phase;
  node->forward = graph->node_count - 1;
  node->scope = graph->scope;
  node->accumulate = -1;
  for (int i = 0; i < AC_MAX_INPUTS; i++) node->in[i] = i < count && in[i] ? in[i]->id : -1;
  for (int i = 0; i < AC_MAX_OUTPUTS; i++) node->out[i] = -1;
  if (size) memcpy(node->attributes, attributes, size);
  return ids_fit(graph, node) ? graph->node_count - 1 : -1;
}

ac_tensor *ac_graph_add_output(ac_graph *graph, int index, ac_role role, ac_dtype dtype,
                               const ac_shape *shape) {
  if (index < 0) return NULL;
  ac_tensor *tensor = ac_graph_new_tensor(graph, role, dtype, shape);
  if (!tensor) return NULL;
  ac_node *node = ac_node_at(graph, index);
  tensor->producer = index;
  tensor->requires_gradient = dtype != AC_I32 && ac_node_wants_gradients(graph, node);
  if (dtype == AC_I32) find_origin(graph, node, tensor);
  int slot = 0;
  while (node->out[slot] >= 0) slot++;
  node->out[slot] = tensor->id;
  return tensor;
}

ac_tensor *ac_graph_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                         ac_tensor *const *in, const ac_shape *shape) {
  int node = ac_graph_append(graph, op, attributes, size, count, in);
  return ac_graph_add_output(graph, node, AC_ROLE_ACTIVATION, AC_F32, shape);
}

/* ---- loss and outputs ------------------------------------------------------------------------ */

int ac_graph_loss_index(const ac_graph *graph, int tensor) {
  for (int i = 0; i < graph->loss_count; i++)
    if (graph->losses[i].tensor == tensor) return i;
  return -1;
}

int ac_graph_sum_index(const ac_graph *graph, int tensor) {
  const int loss = ac_graph_loss_index(graph, tensor);
  for (int i = 0; i < graph->metric_count && loss < 0; i++)
    if (graph->metrics[i].tensor == tensor) return AC_MAX_LOSSES + i;
  return loss;
}

int ac_node_input(const ac_graph *graph, const ac_node *node, int operand) {
  const ac_tensor *tensor = operand < 0 ? NULL : ac_tensor_at(graph, node->in[operand]);
  if (!tensor) return -1;
  const int fed = ac_tensor_at(graph, tensor->storage)->fed;
  for (int i = 0; i < graph->input_count; i++)
    if ((fed >= 0 ? fed : tensor->storage) == graph->inputs[i]) return i;
  return -1;
}

int ac_node_lengths(const ac_graph *graph, const ac_node *node, int operand, int64_t *columns) {
  const ac_tensor *tensor = operand < 0 ? NULL : ac_tensor_at(graph, node->in[operand]);
  const ac_tensor *mask = tensor ? ac_tensor_at(graph, tensor->storage) : NULL;
  const ac_node *made = mask ? ac_node_at(graph, mask->producer) : NULL;
  if (!made || !ac_op_describe(made->op)->masks) return -1;
  *columns = ac_shape_last(&mask->shape);
  return ac_node_input(graph, made, 0);
}

/* Marks what is a parameter; returns whether any is. */
static bool mark_heads(ac_graph *graph, const int *operands) {
  bool any = false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    if (operands[i] < 0) continue;
    ac_tensor *tensor = ac_tensor_at(graph, ac_tensor_at(graph, operands[i])->storage);
    if (tensor->role == AC_ROLE_PARAMETER) tensor->is_head = any = true;
  }
  return any;
}

/* The parameters that a loss reads, or else those that what it is of was made with. A metric has
 * none: it must not change how anything is trained. */
static void mark_head(ac_graph *graph, const ac_tensor *loss) {
  if (loss->made_by < 0 || mark_heads(graph, ac_node_at(graph, loss->producer)->in)) return;
  for (int made_by = loss->made_by;;) {
    const int storage = ac_tensor_at(graph, made_by)->storage;
    const ac_node *node = ac_node_at(graph, ac_tensor_at(graph, storage)->producer);
    if (!node || mark_heads(graph, node->in) || !ac_op_describe(node->op)->copies_values) return;
    made_by = node->in[0];
  }
}

static void *add_loss(ac_graph *graph, const char *name, int tensor, double factor) {
  char *copy = strdup(name);
  if (!copy) return ac_graph_out_of_memory(graph);
  mark_head(graph, ac_tensor_at(graph, tensor));
  graph->losses[graph->loss_count++] = (ac_graph_loss){copy, tensor, factor};
  return copy;
}

static bool is_loss(const ac_graph *graph, const ac_tensor *loss) {
  return loss && loss->graph == graph && loss->role == AC_ROLE_LOSS;
}

void ac_graph_set_loss(ac_graph *graph, ac_tensor *loss) {
  static const ac_builder builder = {"set_loss", 1, {"loss"}};
  if (!graph || graph->status != AC_OK) return;
  if (!is_loss(graph, loss))
    ac_builder_fail(graph, &builder, &loss, "the loss is not a result of a loss op of this graph");
  else if (graph->loss_count)
    ac_builder_fail(graph, &builder, &loss, "the graph has a loss already");
  else add_loss(graph, "", loss->id, 1);
}

/* Why a loss cannot be added; NULL: it can. */
static const char *refuse_loss(const ac_graph *graph, const char *name, const ac_tensor *loss,
                               double factor) {
  if (!is_loss(graph, loss)) return "it is not a result of a loss op of this graph";
  if (ac_graph_loss_index(graph, loss->id) >= 0) return "the graph has this loss already";
  if (graph->loss_count == AC_MAX_LOSSES) return "the graph has as many losses as there can be";
  if (!name || !*name) return "it has no name";
  if (!(factor >= (double)FLT_MIN && factor <= (double)FLT_MAX))
    return "its factor is not a number from 1.2e-38 to 3.4e38";
  for (int i = 0; i < graph->loss_count; i++) {
    if (!*graph->losses[i].name) return "the graph has a loss without a name (set_loss)";
    if (!strcmp(graph->losses[i].name, name)) return "the name exists already";
  }
  for (int i = 0; i < graph->metric_count; i++)
    if (!strcmp(graph->metrics[i].name, name)) return "a metric has this name";
  return NULL;
}

void ac_graph_add_loss(ac_graph *graph, const char *name, ac_tensor *loss, double factor) {
  static const ac_builder builder = {"add_loss", 1, {"loss"}};
  if (!graph || graph->status != AC_OK) return;
  const bool fits = !name || (ac_is_utf8(name) && strlen(name) <= AC_MAX_NAME);
  const char *why = fits ? refuse_loss(graph, name, loss, factor) : NULL;
  if (!fits)
    ac_builder_fail(graph, &builder, &loss,
                    "the name of loss %d is not UTF-8, or longer than %d bytes, and no state could "
                    "hold it",
                    graph->loss_count, AC_MAX_NAME);
  else if (why) ac_builder_fail(graph, &builder, &loss, "loss \"%s\": %s", name ? name : "", why);
  else add_loss(graph, name, loss->id, factor);
}

static void *add_metric(ac_graph *graph, const char *name, int tensor, ac_metric_kind kind) {
  char *copy = strdup(name);
  if (!copy) return ac_graph_out_of_memory(graph);
  graph->metrics[graph->metric_count++] = (ac_graph_metric){copy, tensor, kind};
  return copy;
}

/* Why a metric cannot be added; NULL: it can. */
static const char *refuse_metric(const ac_graph *graph, const char *name, const ac_tensor *sums,
                                 ac_metric_kind kind) {
  if (!is_loss(graph, sums)) return "it is not a result of a loss op of this graph (see ac_loss)";
  if (graph->metric_count == AC_MAX_METRICS) return "the graph has as many metrics as there can be";
  if (!name || !*name) return "it has no name";
  if (!ac_is_utf8(name) || strlen(name) > AC_MAX_NAME) return "its name is too long, or not UTF-8";
  if ((unsigned)kind > AC_METRIC_RIGHT) return "its kind is unknown";
  for (int i = 0; i < graph->metric_count; i++)
    if (!strcmp(graph->metrics[i].name, name)) return "the name exists already";
  for (int i = 0; i < graph->loss_count; i++)
    if (!strcmp(graph->losses[i].name, name)) return "a loss has this name";
  return NULL;
}

void ac_graph_add_metric(ac_graph *graph, const char *name, ac_tensor *sums, ac_metric_kind kind) {
  static const ac_builder builder = {"add_metric", 1, {"sums"}};
  if (!graph || graph->status != AC_OK) return;
  const char *why = refuse_metric(graph, name, sums, kind);
  const bool text = name && ac_is_utf8(name) && strlen(name) <= AC_MAX_NAME;
  if (why) ac_builder_fail(graph, &builder, &sums, "metric \"%s\": %s", text ? name : "", why);
  else add_metric(graph, name, sums->id, kind);
}

static void *add_output(ac_graph *graph, const char *name, int tensor) {
  GROW(graph->outputs, graph->output_count);
  char *copy = strdup(name);
  if (!copy) return ac_graph_out_of_memory(graph);
  graph->outputs[graph->output_count++] = (ac_named_output){copy, tensor};
  return copy;
}

void ac_graph_set_output(ac_graph *graph, const char *name, ac_tensor *tensor) {
  static const ac_builder builder = {"set_output", 1, {"tensor"}};
  if (!graph || graph->status != AC_OK) return;
  bool known = false;
  for (int i = 0; name && i < graph->output_count; i++)
    known |= !strcmp(graph->outputs[i].name, name);
  if (!name || !*name || known)
    ac_builder_fail(graph, &builder, &tensor, "output \"%s\" has no name or exists already",
                    name ? name : "");
  else if (!tensor || tensor->graph != graph || tensor->role != AC_ROLE_ACTIVATION)
    ac_builder_fail(graph, &builder, &tensor,
                    "output \"%s\" is not a result of an op of this graph", name);
  else add_output(graph, name, tensor->id);
}

ac_tensor *ac_tensor_hint(ac_tensor *tensor, ac_hint hint) {
  static const ac_builder builder = {"hint", 1, {"tensor"}};
  ac_graph *graph = ac_builder_graph(&builder, &tensor);
  if (!graph) return NULL;
  ac_tensor *storage = ac_tensor_at(graph, tensor->storage);
  if ((unsigned)hint > AC_RECOMPUTE)
    return ac_builder_fail(graph, &builder, &tensor,
                           "the hint %d is unknown; give none, keep or recompute", (int)hint);
  if (tensor == storage && storage->role != AC_ROLE_ACTIVATION)
    return ac_builder_fail(graph, &builder, &tensor, "a hint is for results of ops");
  if (storage->role != AC_ROLE_ACTIVATION) return tensor;
  if (storage->hint != AC_HINT_NONE && hint != AC_HINT_NONE && storage->hint != hint)
    return ac_builder_fail(
        graph, &builder, &tensor,
        "hints contradict each other: one is to keep it, another to recompute it");
  /* An op yields all its results at once, those that have no handle included. */
  const ac_node *node = ac_node_at(graph, storage->producer);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (node->out[j] >= 0) ac_tensor_at(graph, node->out[j])->hint = hint;
  return tensor;
}

/* ---- looking --------------------------------------------------------------------------------- */

void ac_tensor_get_info(const ac_tensor *tensor, ac_tensor_info *info) {
  if (!info) return;
  *info = (ac_tensor_info){.name = tensor && tensor->name ? tensor->name : ""};
  if (!tensor) return;
  info->dtype = tensor->dtype;
  info->rank = tensor->shape.rank;
  for (int i = 0; i < tensor->shape.rank; i++) info->shape[i] = tensor->shape.dim[i];
  if (tensor->shape.batched) info->shape[0] = -info->shape[0];
}

static ac_status leaf_info(const ac_graph *graph, const int *ids, int count, int index,
                           ac_tensor_info *info) {
  if (index < 0 || index >= count)
    return ac_fail(AC_ERROR_ARGUMENT, "index %d of %d", index, count);
  ac_tensor_get_info(ac_tensor_at(graph, ids[index]), info);
  return AC_OK;
}

int ac_graph_parameter_count(const ac_graph *graph) {
  return graph ? graph->parameter_count : 0;
}
ac_status ac_graph_parameter(const ac_graph *graph, int index, ac_tensor_info *info) {
  AC_REQUIRE(graph, info);
  return leaf_info(graph, graph->parameters, graph->parameter_count, index, info);
}
int ac_graph_input_count(const ac_graph *graph) {
  return graph ? graph->input_count : 0;
}
ac_status ac_graph_input(const ac_graph *graph, int index, ac_tensor_info *info) {
  AC_REQUIRE(graph, info);
  return leaf_info(graph, graph->inputs, graph->input_count, index, info);
}

/* ---- copying --------------------------------------------------------------------------------- */

/* Replays the arrays one by one, so that the copy's capacities follow the same rule. */
static void *copy_into(ac_graph *graph, const ac_graph *from) {
  for (int i = 1; i < from->scope_count; i++)
    if (!add_scope(graph, from->scopes[i])) return NULL;
  for (int i = 0; i < from->tensor_count; i++) {
    const ac_tensor *old = ac_tensor_at(from, i);
    ac_tensor *tensor = ac_graph_new_tensor(graph, old->role, old->dtype, &old->shape);
    if (!tensor) return NULL;
    *tensor = *old;
    tensor->graph = graph;
    tensor->values = ac_block_share(old->values);
    tensor->name = old->name ? strdup(old->name) : NULL;
    if (old->name && !tensor->name) return ac_graph_out_of_memory(graph);
  }
  for (int i = 0; i < from->kept_count; i++)
    if (!ac_graph_keep(graph, ac_block_share(from->kept[i]))) return NULL;
  for (int i = 0; i < from->node_count; i++) {
    ac_node *node = append_node(graph);
    if (!node) return NULL;
    *node = *ac_node_at(from, i);
  }
  for (int i = 0; i < from->input_count; i++)
    if (!ac_graph_list(graph, &graph->inputs, &graph->input_count, from->inputs[i])) return NULL;
  for (int i = 0; i < from->parameter_count; i++)
    if (!ac_graph_list(graph, &graph->parameters, &graph->parameter_count, from->parameters[i]))
      return NULL;
  for (int i = 0; i < from->output_count; i++)
    if (!add_output(graph, from->outputs[i].name, from->outputs[i].tensor)) return NULL;
  graph->scope = from->scope;
  for (int i = 0; i < from->loss_count; i++) {
    const ac_graph_loss *loss = &from->losses[i];
    if (!add_loss(graph, loss->name, loss->tensor, loss->factor)) return NULL;
  }
  for (int i = 0; i < from->metric_count; i++) {
    const ac_graph_metric *metric = &from->metrics[i];
    if (!add_metric(graph, metric->name, metric->tensor, metric->kind)) return NULL;
  }
  graph->streams = from->streams;
  return graph;
}

ac_status ac_graph_clone(ac_graph **copy, const ac_graph *graph) {
  if (graph->status != AC_OK) return ac_fail(graph->status, "%s", graph->message);
  AC_TRY(ac_graph_create(copy));
  if (!copy_into(*copy, graph)) {
    ac_graph_free(*copy);
    *copy = NULL;
    return ac_fail(AC_ERROR_MEMORY, "no memory for a copy of the graph");
  }
  return AC_OK;
}
