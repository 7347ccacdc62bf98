/* A node of a program is taken into the only node that reads its result, if that is one of a
 * program with results of the same shape: its steps then come first in the reader's program, and
 * its result is never stored. It stays by itself
 *   - if its result is an output, is read in another shape, or is to be kept (AC_KEEP),
 *   - if the program of both is longer than a formula may be, or has too many operands,
 *   - if the gradient of both would keep more than the gradients of the two: what it reads and
 *     neither of the two reads may take no more than the result that is spared.
 * Readers are visited in the order of nodes, so chains are taken in one by one: linear time. */
#include "graph/fuse.h"

#include "ops/pointwise/elementwise.h"

#include <stdlib.h>
#include <string.h>

typedef struct fusion {
  ac_graph *graph;
  int *readers; /* by storage: nodes that read it, one more if it is an output */
  int *index;   /* by node: its new index; -1: taken into another */
  ac_fused *spared;
} fusion;

static const ac_pointwise_attributes *attributes_of(const ac_node *node) {
  return (const void *)node->attributes;
}

/* ---- readers --------------------------------------------------------------------------------- */

static int storage_of(const ac_graph *graph, int tensor) {
  return ac_tensor_at(graph, tensor)->storage;
}

/* Whether an earlier operand of the node has the same elements. */
static bool is_repeated(const ac_graph *graph, const ac_node *node, int operand) {
  for (int i = 0; i < operand; i++)
    if (node->in[i] >= 0 && storage_of(graph, node->in[i]) == storage_of(graph, node->in[operand]))
      return true;
  return false;
}

static bool reads(const ac_graph *graph, const ac_node *node, int storage) {
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (node->in[i] >= 0 && storage_of(graph, node->in[i]) == storage) return true;
  return false;
}

static void count_readers(fusion *f) {
  const ac_graph *graph = f->graph;
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    for (int i = 0; i < AC_MAX_INPUTS; i++)
      if (node->in[i] >= 0 && !is_repeated(graph, node, i))
        f->readers[storage_of(graph, node->in[i])]++;
  }
  for (int k = 0; k < graph->output_count; k++)
    f->readers[storage_of(graph, graph->outputs[k].tensor)]++;
}

/* ---- what gradients keep --------------------------------------------------------------------- */

/* Tensors that the gradient of a program reads, at most all operands and the result. */
typedef struct kept {
  int tensor[AC_PROGRAM_OPERANDS + 1], count;
} kept;

static bool has(const kept *k, int tensor) {
  for (int i = 0; i < k->count; i++)
    if (k->tensor[i] == tensor) return true;
  return false;
}

/* False if there is no room for the gradient. */
static bool find_kept(const ac_graph *graph, const ac_program *program, const int *in, int result,
                      kept *k) {
  int wanted[AC_PROGRAM_OPERANDS], count = 0;
  for (int i = 0; i < program->operands; i++)
    if (ac_tensor_at(graph, in[i])->requires_gradient && ac_program_reaches(program, i))
      wanted[count++] = i;
  k->count = 0;
  for (int first = 0; first < count; first += AC_PROGRAM_RESULTS) {
    ac_program gradient;
    int of[AC_PROGRAM_OPERANDS];
    const int some = count - first < AC_PROGRAM_RESULTS ? count - first : AC_PROGRAM_RESULTS;
    if (!ac_program_differentiate(program, some, wanted + first, &gradient, of)) return false;
    for (int i = 0; i < gradient.operands; i++) {
      const int tensor = of[i] == AC_OF_RESULT ? result : of[i] < 0 ? -1 : in[of[i]];
      if (tensor >= 0 && !has(k, tensor)) k->tensor[k->count++] = tensor;
    }
  }
  return true;
}

/* Whether `both` keeps no more than the two; the first of these gives `spared`. */
static bool keeps_no_more(const ac_graph *graph, const kept *both, const kept *one,
                          const kept *other, int spared) {
  const ac_shape *shape = &ac_tensor_at(graph, spared)->shape;
  int64_t room = has(one, spared) || has(other, spared) ? ac_shape_count(shape) : 0;
  for (int i = 0; i < both->count; i++) {
    const ac_tensor *x = ac_tensor_at(graph, both->tensor[i]);
    const ac_role role = ac_tensor_at(graph, x->storage)->role;
    if (has(one, x->id) || has(other, x->id) || role != AC_ROLE_ACTIVATION) continue;
    if (x->shape.batched && !shape->batched) return false;
    room -= ac_shape_count(&x->shape);
  }
  return room >= 0;
}

/* ---- fusing ---------------------------------------------------------------------------------- */

/* The program of both, and its operands; false if it is too long. */
static bool join(const ac_node *first, const ac_node *then, ac_program *program,
                 int in[AC_PROGRAM_OPERANDS]) {
  const ac_program *one = &attributes_of(first)->program, *other = &attributes_of(then)->program;
  int count = 0, value[2][AC_PROGRAM_OPERANDS], result[AC_PROGRAM_RESULTS];
  for (int which = 0; which < 2; which++) {
    const ac_node *node = which ? then : first;
    const int operands = which ? other->operands : one->operands;
    for (int i = 0; i < operands; i++) {
      if (node->in[i] == first->out[0]) continue;
      int k = 0;
      while (k < count && in[k] != node->in[i]) k++;
      if (k == AC_FORMULA_OPERANDS) return false;
      in[k] = node->in[i];
      if (k == count) count++;
      value[which][i] = k;
    }
  }
  unsigned used;
  ac_program_begin(program, count);
  if (!ac_program_append(program, one, value[0], result)) return false;
  for (int i = 0; i < other->operands; i++)
    if (then->in[i] == first->out[0]) value[1][i] = result[0];
  if (!ac_program_append(program, other, value[1], result)) return false;
  ac_program_end(program, 1, result, &used);
  return program->steps <= AC_FORMULA_STEPS && used == (1u << count) - 1 &&
         program->result[0] >= AC_FIRST_STEP;
}

static bool is_program(const ac_node *node) {
  return node && node->op == AC_OP_pointwise && node->out[1] < 0;
}

/* Takes the node that makes an operand into the one that reads it; false if it stays. */
static bool take(fusion *f, int reader, int operand) {
  ac_graph *graph = f->graph;
  ac_node *then = ac_node_at(graph, reader);
  ac_tensor *spared = ac_tensor_at(graph, then->in[operand]);
  if (!spared || spared->producer < 0 || spared->storage != spared->id) return false;
  const ac_node *first = ac_node_at(graph, spared->producer);
  const ac_tensor *result = ac_tensor_at(graph, then->out[0]);
  if (!is_program(first) || f->readers[spared->id] != 1 || spared->hint == AC_KEEP ||
      !ac_shape_equal(&spared->shape, &result->shape))
    return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) /* in one shape */
    if (then->in[i] >= 0 && then->in[i] != spared->id &&
        storage_of(graph, then->in[i]) == spared->id)
      return false;
  ac_program program;
  int in[AC_PROGRAM_OPERANDS];
  kept one, other, both;
  if (!join(first, then, &program, in) ||
      !find_kept(graph, &attributes_of(first)->program, first->in, spared->id, &one) ||
      !find_kept(graph, &attributes_of(then)->program, then->in, result->id, &other) ||
      !find_kept(graph, &program, in, result->id, &both) ||
      !keeps_no_more(graph, &both, &one, &other, spared->id))
    return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (first->in[i] >= 0 && !is_repeated(graph, first, i) &&
        reads(graph, then, storage_of(graph, first->in[i])))
      f->readers[storage_of(graph, first->in[i])]--;
  ac_tensor *operands[AC_PROGRAM_OPERANDS];
  for (int i = 0; i < program.operands; i++) operands[i] = ac_tensor_at(graph, in[i]);
  const ac_pointwise_attributes attributes =
      ac_pointwise_attributes_of(&program, operands, &result->shape);
  memcpy(then->attributes, &attributes, sizeof attributes);
  for (int i = 0; i < AC_MAX_INPUTS; i++) then->in[i] = i < program.operands ? in[i] : -1;
  f->index[spared->producer] = -1;
  spared->producer = -1;
  f->spared->nodes++;
  *(spared->shape.batched ? &f->spared->per_sample : &f->spared->fixed) +=
      ac_shape_count(&spared->shape);
  return true;
}

/* Takes in what a node reads, and what that read, until nothing more can be. */
static void take_all(fusion *f, int reader) {
  if (!is_program(ac_node_at(f->graph, reader))) return;
  for (int i = 0; i < AC_MAX_INPUTS;)
    i = ac_node_at(f->graph, reader)->in[i] >= 0 && take(f, reader, i) ? 0 : i + 1;
}

/* Leaves out nodes that were taken into others. */
static void close_gaps(fusion *f) {
  ac_graph *graph = f->graph;
  int count = 0;
  for (int n = 0; n < graph->node_count; n++)
    if (f->index[n] >= 0) f->index[n] = count++;
  for (int n = 0; n < graph->node_count; n++) {
    const int at = f->index[n];
    if (at < 0) continue;
    ac_node *node = ac_node_at(graph, at);
    if (at != n) *node = *ac_node_at(graph, n);
    node->forward = f->index[node->forward];
  }
  for (int i = 0; i < graph->tensor_count; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->producer >= 0) tensor->producer = f->index[tensor->producer];
  }
  for (int c = (count + AC_GRAPH_CHUNK - 1) / AC_GRAPH_CHUNK;
       c < (graph->node_count + AC_GRAPH_CHUNK - 1) / AC_GRAPH_CHUNK; c++)
    free(graph->node_chunks[c]);
  graph->node_count = count;
}

ac_status ac_graph_fuse(ac_graph *graph, ac_fused *spared) {
  fusion f = {graph, calloc((size_t)graph->tensor_count + 1, sizeof *f.readers),
              calloc((size_t)graph->node_count + 1, sizeof *f.index), spared};
  *spared = (ac_fused){0};
  ac_status status = AC_OK;
  if (!f.readers || !f.index) {
    status = ac_fail(AC_ERROR_MEMORY, "no memory to fuse functions of elements");
  } else {
    count_readers(&f);
    for (int n = 0; n < graph->node_count; n++) take_all(&f, n);
    if (spared->nodes) close_gaps(&f);
  }
  free(f.readers);
  free(f.index);
  return status;
}
