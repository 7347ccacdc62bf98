#include "graph/precision.h"

#include "core/blocks.h"
#include "core/random.h"
#include "graph/builder.h"

#include <stdlib.h>

/* The nodes are listed anew, with casts among them. Tables are by the tensors that were there
 * before; -1: none. */
typedef struct rewrite {
  ac_graph *graph;
  ac_dtype storage;
  const uint32_t *rounds, *decodes;
  int *index;         /* by old node: its new index */
  int *cast;          /* by tensor: the same values in the other dtype */
  int *working;       /* by parameter: its working copy; NOT_YET, or CAST_ANEW by each reader */
  uint32_t additions; /* to gradients that are rounded by chance */
} rewrite;

enum { NOT_YET = -1, CAST_ANEW = -2 };

static const ac_tensor *whole_parameter(const ac_graph *graph, const ac_tensor *tensor) {
  return ac_tensor_at(graph, graph->parameters[tensor->parameter]);
}

static bool is_in_blocks(const ac_graph *graph, const ac_tensor *tensor) {
  return tensor->role == AC_ROLE_PARAMETER && whole_parameter(graph, tensor)->desc.blocks;
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

static void store_outputs(ac_graph *graph, ac_dtype storage) {
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      if (node->out[j] < 0 || ac_op_output_kind_of(node->op, node->attributes, j) != 's') continue;
      ac_tensor *tensor = ac_tensor_at(graph, ac_tensor_at(graph, node->out[j])->storage);
      const bool stored = tensor->role == AC_ROLE_ACTIVATION || tensor->role == AC_ROLE_CACHE;
      if (stored && tensor->dtype == AC_F32) tensor->dtype = storage;
    }
  }
  for (int i = 0; i < graph->tensor_count; i++)
    ac_tensor_at(graph, i)->dtype = ac_tensor_at(graph, ac_tensor_at(graph, i)->storage)->dtype;
}

/* Whether a parameter, by its tensor, is read, and by nothing that wants floats. */
static void find_weights(ac_graph *graph, bool *weight) {
  for (int pass = 0; pass < 2; pass++)
    for (int n = 0; n < graph->node_count; n++)
      for (int i = 0; i < AC_MAX_INPUTS; i++) {
        const ac_node *node = ac_node_at(graph, n);
        const bool stored = ac_op_input_kind_of(node->op, node->attributes, i) == 's';
        if (node->in[i] < 0 || stored != (pass == 0)) continue;
        weight[ac_tensor_at(graph, node->in[i])->storage] = stored;
      }
}

/* What is stored like that needs no working copy. */
static ac_status store_weights(ac_graph *graph, ac_dtype storage) {
  bool *weight = calloc((size_t)graph->tensor_count + 1, sizeof *weight);
  if (!weight) return ac_fail(AC_ERROR_MEMORY, "no memory to choose the graph's precision");
  find_weights(graph, weight);
  for (int i = 0; i < graph->tensor_count; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    const bool parameter = tensor->role == AC_ROLE_PARAMETER && !is_in_blocks(graph, tensor);
    if (parameter && weight[tensor->storage]) tensor->dtype = storage;
  }
  free(weight);
  return AC_OK;
}

/* Small ones save little. */
static void store_gradients(ac_graph *graph) {
  enum { LEAST = 4096 };
  for (int i = 0; i < graph->tensor_count; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    const bool large = ac_shape_count(&ac_tensor_at(graph, tensor->storage)->shape) >= LEAST;
    if (tensor->role == AC_ROLE_GRADIENT && large) tensor->dtype = AC_BF16;
  }
}

/* ---- operands -------------------------------------------------------------------------------- */

static ac_tensor *in_shape_of(ac_graph *graph, ac_tensor *tensor, const ac_tensor *like) {
  if (!tensor || ac_shape_equal(&tensor->shape, &like->shape)) return tensor;
  return ac_graph_view(graph, tensor, &like->shape);
}

static ac_tensor *working_copy(rewrite *r, const ac_tensor *parameter) {
  ac_graph *graph = r->graph;
  int index = parameter->parameter;
  if (r->working[index] == NOT_YET) {
    const ac_tensor *whole = ac_tensor_at(graph, graph->parameters[index]);
    ac_tensor *copy = ac_graph_new_tensor(graph, AC_ROLE_WORKING, r->storage, &whole->shape);
    if (!copy) return NULL;
    copy->parameter = index;
    r->working[index] = copy->id;
  }
  return in_shape_of(graph, ac_tensor_at(graph, r->working[index]), parameter);
}

/* A cast belongs to the pass, and to the forward node, of its reader, which is one of the old list.
 */
static ac_tensor *cast_to(rewrite *r, ac_tensor *tensor, ac_dtype dtype, const ac_shape *shape,
                          const ac_node *reader) {
  ac_graph *graph = r->graph;
  int index = ac_graph_append(graph, AC_OP_cast, NULL, 0, 1, &tensor);
  ac_tensor *copy = ac_graph_add_output(graph, index, AC_ROLE_ACTIVATION, dtype, shape);
  if (!copy) return NULL;
  ac_node *node = ac_node_at(graph, index);
  node->scope = reader->scope;
  node->backward = reader->backward;
  if (reader->backward) node->forward = r->index[reader->forward];
  return copy;
}

static ac_tensor *cast_anew(rewrite *r, ac_tensor *tensor, ac_dtype dtype, const ac_node *reader) {
  return cast_to(r, tensor, dtype, &tensor->shape, reader);
}

/* One is enough for all that read the tensor: it is made for the first of them. */
static ac_tensor *cast_for(rewrite *r, ac_tensor *tensor, ac_dtype dtype, const ac_node *reader) {
  int *cast = &r->cast[tensor->id];
  if (*cast >= 0) return ac_tensor_at(r->graph, *cast);
  ac_tensor *copy = cast_anew(r, tensor, dtype, reader);
  if (copy) *cast = copy->id;
  return copy;
}

/* Whether the reader takes a parameter that has no working copy as it is. */
static bool reads_master(const rewrite *r, const ac_node *reader, int input) {
  const ac_tensor *tensor = ac_tensor_at(r->graph, reader->in[input]);
  return tensor->role == AC_ROLE_PARAMETER && tensor->dtype == AC_F32 && r->rounds &&
         r->working[tensor->parameter] == CAST_ANEW && (r->rounds[reader->op] >> input & 1);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* What holds a parameter in blocks. */
static ac_tensor *add_blocks(rewrite *r, int parameter) {
  ac_graph *graph = r->graph;
  const ac_tensor *whole = ac_tensor_at(graph, graph->parameters[parameter]);
  const ac_blocks blocks = whole->desc.blocks;
  const ac_shape shape = {
      .rank = 2, .dim = {whole->shape.dim[0], ac_blocks_bytes(blocks, whole->shape.dim[1])}};
  ac_tensor *kept = ac_graph_new_tensor(graph, AC_ROLE_WORKING, AC_U8, &shape);
  if (!kept) return NULL;
  kept->blocks = blocks;
  kept->parameter = parameter;
  r->working[parameter] = kept->id;
  return kept;
}

/* All are there, whether something reads them or not. */
static ac_status store_in_blocks(rewrite *r) {
  for (int i = 0; i < r->graph->parameter_count; i++) {
    const ac_tensor *parameter = ac_tensor_at(r->graph, r->graph->parameters[i]);
    if (parameter->desc.blocks && !add_blocks(r, i)) return r->graph->status;
  }
  return AC_OK;
}

/* What the reader gets for a parameter in blocks: itself, or all of it decoded. */
static int decoded(rewrite *r, const ac_tensor *parameter, ac_dtype dtype, const ac_node *reader,
                   int input) {
  ac_graph *graph = r->graph;
  const ac_tensor *whole = whole_parameter(graph, parameter);
  ac_tensor *kept = ac_tensor_at(graph, r->working[parameter->parameter]);
  const bool reads = r->decodes && (r->decodes[reader->op] >> input & 1);
  if (reads && ac_shape_equal(&parameter->shape, &whole->shape)) return kept->id;
  ac_tensor *copy = cast_to(r, kept, dtype, &whole->shape, reader);
  if (copy) copy = in_shape_of(graph, copy, parameter);
  return copy ? copy->id : -1;
}

/* ---- operands in 16 bits --------------------------------------------------------------------- */

/* A constant has a copy of its own in 16 bits: the same values, rounded once, when they go to the
 * device. */
static ac_tensor *stored_constant(rewrite *r, const ac_tensor *constant) {
  ac_graph *graph = r->graph;
  const ac_tensor *whole = ac_tensor_at(graph, constant->storage);
  int *cast = &r->cast[whole->id];
  if (*cast < 0) {
    ac_tensor *copy = ac_graph_new_tensor(graph, AC_ROLE_CONSTANT, r->storage, &whole->shape);
    if (!copy) return NULL;
    copy->values = ac_block_share(whole->values);
    *cast = copy->id;
  }
  return in_shape_of(graph, ac_tensor_at(graph, *cast), constant);
}

/* An input in the type that ops take: what is converted is what is fed, unless that is what the
 * reader wants; between two types of 16 bits there is no conversion. */
static ac_tensor *cast_fed(rewrite *r, const ac_tensor *taken, ac_dtype dtype,
                           const ac_node *reader) {
  ac_graph *graph = r->graph;
  ac_tensor *whole = ac_tensor_at(graph, taken->storage), *fed = ac_tensor_at(graph, whole->fed);
  if (fed->dtype != AC_U8 && fed->dtype != dtype) fed = whole;
  if (fed->dtype != dtype) fed = cast_for(r, fed, dtype, reader);
  return fed ? in_shape_of(graph, fed, taken) : NULL;
}

/* What the reader gets for a tensor that it wants as `dtype`. */
static int operand_as(rewrite *r, int id, ac_dtype dtype, const ac_node *reader) {
  ac_tensor *tensor = id < 0 ? NULL : ac_tensor_at(r->graph, id);
  if (!tensor || tensor->dtype == dtype) return id;
  if (tensor->role == AC_ROLE_CONSTANT) tensor = stored_constant(r, tensor);
  else if (ac_tensor_at(r->graph, tensor->storage)->fed >= 0)
    tensor = cast_fed(r, tensor, dtype, reader);
  else if (tensor->role != AC_ROLE_PARAMETER) tensor = cast_for(r, tensor, dtype, reader);
  else if (r->working[tensor->parameter] == CAST_ANEW) tensor = cast_anew(r, tensor, dtype, reader);
  else tensor = working_copy(r, tensor);
  return tensor ? tensor->id : -1;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static ac_dtype wanted_dtype(const rewrite *r, char kind, const ac_tensor *tensor) {
  if (tensor->dtype == AC_I32) return AC_I32;
  return kind == 's' ? r->storage : kind == 'f' ? AC_F32 : tensor->dtype;
}

/* An output that belongs into a parameter's gradient and is not stored like it takes a way round:
 * it becomes an activation, which another op adds to the gradient. Returns the gradient tensor, or
 * -1. */
static int divert_output(rewrite *r, ac_node *node, int j) {
  int id = node->out[j];
  if (id < 0) return -1;
  ac_tensor *gradient = ac_tensor_at(r->graph, id);
  const bool stored = ac_op_output_kind_of(node->op, node->attributes, j) == 's';
  const ac_dtype dtype = stored ? r->storage : AC_F32;
  /* What is added in 16 bits is rounded by chance, so by an op of its own. */
  const bool direct = gradient->dtype == AC_F32 && dtype == AC_F32;
  if (gradient->role != AC_ROLE_GRADIENT || direct) return -1;
  ac_tensor *detour = ac_graph_new_tensor(r->graph, AC_ROLE_ACTIVATION, dtype, &gradient->shape);
  node->out[j] = detour ? detour->id : -1;
  return id;
}

static ac_status append_return(rewrite *r, int index, int j, int gradient) {
  ac_graph *graph = r->graph;
  ac_node node = *ac_node_at(graph, index);
  if (gradient < 0 || node.out[j] < 0) return graph->status;
  ac_tensor *detour = ac_tensor_at(graph, node.out[j]);
  const bool rounded = ac_tensor_at(graph, gradient)->dtype != AC_F32;
  const uint32_t stream = AC_GRADIENT_STREAM + r->additions++;
  int adds = rounded ? ac_append_rounded_sum(graph, stream, detour)
                     : ac_graph_append(graph, AC_OP_cast, NULL, 0, 1, &detour);
  if (adds < 0) return graph->status;
  ac_node_at(graph, adds)->out[0] = gradient;
  ac_node_at(graph, adds)->scope = node.scope;
  ac_node_at(graph, adds)->backward = node.backward;
  ac_node_at(graph, adds)->forward = node.forward;
  return AC_OK;
}

static ac_status append_rewritten(rewrite *r, const ac_node *old, int old_index) {
  ac_graph *graph = r->graph;
  ac_node node = *old;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    if (node.in[i] < 0 || reads_master(r, old, i)) continue;
    const ac_tensor *tensor = ac_tensor_at(graph, node.in[i]);
    ac_dtype dtype = wanted_dtype(r, ac_op_input_kind_of(node.op, node.attributes, i), tensor);
    node.in[i] = is_in_blocks(graph, tensor) ? decoded(r, tensor, dtype, old, i)
                                             : operand_as(r, node.in[i], dtype, old);
  }
  int gradient[AC_MAX_OUTPUTS];
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) gradient[j] = divert_output(r, &node, j);
  if (node.accumulate >= 0)
    node.accumulate = operand_as(r, node.accumulate, ac_tensor_at(graph, node.out[0])->dtype, old);
  int index = ac_graph_append(graph, node.op, NULL, 0, 0, NULL);
  if (index < 0) return graph->status;
  r->index[old_index] = index;
  node.forward = node.forward == old_index ? index : r->index[node.forward];
  *ac_node_at(graph, index) = node;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (gradient[j] >= 0 && node.out[j] >= 0) ac_tensor_at(graph, node.out[j])->producer = index;
    AC_TRY(append_return(r, index, j, gradient[j]));
  }
  return graph->status;
}

static ac_status rewrite_nodes(rewrite *r) {
  ac_graph *graph = r->graph;
  const ac_graph old = *graph;
  int count = graph->node_count, tensors = graph->tensor_count;
  graph->node_chunks = NULL;
  graph->node_count = 0;
  ac_status status = AC_OK;
  for (int n = 0; n < count && status == AC_OK; n++)
    status = append_rewritten(r, ac_node_at(&old, n), n);
  ac_graph_free_chunks((void **)old.node_chunks, old.node_count);
  for (int i = 0; i < tensors && status == AC_OK; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->producer >= 0) tensor->producer = r->index[tensor->producer];
  }
  return status;
}

/* One that is not trained may be kept as its copy alone. */
static void leave_out_copies(rewrite *r) {
  for (int i = 0; i < r->graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(r->graph, i);
    if (tensor->role == AC_ROLE_GRADIENT) r->working[tensor->parameter] = CAST_ANEW;
  }
}

static bool has_blocks(const ac_graph *graph) {
  for (int i = 0; i < graph->parameter_count; i++)
    if (ac_tensor_at(graph, graph->parameters[i])->desc.blocks) return true;
  return false;
}

ac_status ac_graph_set_storage(ac_graph *graph, const ac_graph_storage *s) {
  const bool as_it_is = s->operands == AC_F32 && !s->gradients && !has_blocks(graph);
  if (as_it_is || graph->status != AC_OK) return graph->status;
  size_t nodes = (size_t)graph->node_count + 1, tensors = (size_t)graph->tensor_count + 1;
  size_t parameters = (size_t)graph->parameter_count + 1;
  rewrite r = {graph,
               s->operands,
               s->rounds,
               s->decodes,
               malloc(nodes * sizeof *r.index),
               malloc(tensors * sizeof *r.cast),
               malloc(parameters * sizeof *r.working),
               0};
  ac_status status = AC_OK;
  if (!r.index || !r.cast || !r.working) {
    status = ac_fail(AC_ERROR_MEMORY, "no memory to choose the graph's precision");
  } else {
    for (size_t i = 0; i < tensors; i++) r.cast[i] = -1;
    for (size_t i = 0; i < parameters; i++) r.working[i] = NOT_YET;
    if (!s->copies) leave_out_copies(&r);
    store_outputs(graph, s->operands);
    if (s->gradients) store_gradients(graph);
    if (s->weights) status = store_weights(graph, s->operands);
    if (status == AC_OK) status = store_in_blocks(&r);
    if (status == AC_OK) status = rewrite_nodes(&r);
  }
  free(r.index);
  free(r.cast);
  free(r.working);
  return status;
}
