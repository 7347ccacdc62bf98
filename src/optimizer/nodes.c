/* What ends a window, as nodes of a graph: statistics of gradients and of what batch norms pool,
 * then the steps of parameters. */
#include "optimizer/nodes.h"

#include "core/eight_bit.h"
#include "core/error.h"
#include "core/platform/patterns.h"
#include "ops/update/clip.h"
#include "ops/update/fold.h"
#include "ops/update/optimizer.h"

#include <stdlib.h>

/* The tensors of a parameter, or -1. */
typedef struct tensors {
  int gradient, working;
  int state[AC_MAX_STATES];
} tensors;

/* The node's own attributes are an example. */
static ac_node *append(ac_graph *graph, ac_op op, size_t attribute_bytes, ac_tensor *gradient) {
  const int index = ac_graph_append(graph, op, ac_op_describe(op)->sample.attributes,
                                    attribute_bytes, 1, &gradient);
  return index < 0 ? NULL : ac_node_at(graph, index);
}

/* Statistics of a gradient, or of pooled statistics, which must also be finite. */
static ac_status append_statistics(ac_graph *graph, ac_tensor *gradient) {
  static const ac_shape pair = {.rank = 1, .dim = {2}};
  ac_tensor *out = ac_graph_new_tensor(graph, AC_ROLE_STATISTICS, AC_F32, &pair);
  ac_node *node =
      append(graph, AC_OP_gradient_statistics, sizeof(ac_gradient_statistics_attributes), gradient);
  if (!node) return graph->status; /* nor is there one without a tensor: a failure sticks */
  out->parameter = gradient->parameter;
  node->out[0] = out->id;
  return AC_OK;
}

/* The copy in 16 bits is an op's last output. */
static int working_output(ac_op op) {
  int last = 0;
  while (ac_op_output_kind(op, last + 1)) last++;
  return last;
}

/* Few elements save little, and rows of a table are met rarely and at very different scales. */
static bool is_eight_bit(const ac_plan_desc *desc, const ac_tensor *parameter) {
  enum { LEAST = 4096 };
  const char *kept = desc->optimizer.state_f32;
  if (desc->optimizer.state != AC_STATE_8BIT || ac_shape_count(&parameter->shape) < LEAST)
    return false;
  return kept ? !ac_pattern_matches(kept, parameter->name) : !parameter->is_table;
}

static ac_shape blocks_of(const ac_tensor *parameter) {
  const int64_t blocks = ac_eight_bit_blocks(ac_shape_count(&parameter->shape));
  return (ac_shape){.rank = 2, .dim = {blocks, AC_EIGHT_BIT_BYTES}};
}

bool ac_optimizer_by_column(const ac_tensor *parameter) {
  return parameter->matrix == AC_MATRIX_IN_OUT && !parameter->is_table &&
         parameter->shape.rank == 2;
}

ac_stepping ac_optimizer_stepping(const ac_plan_desc *desc, const ac_tensor *parameter) {
  const ac_optimizer_row *row = ac_optimizer_row_of(desc->optimizer.kind);
  const bool left = row->steps && !row->steps(parameter), eight = is_eight_bit(desc, parameter);
  if (left) row = ac_optimizer_row_of(AC_ADAMW);
  ac_stepping stepping = {.row = row, .folds = !left, .states = row->states};
  for (int k = 0; k < AC_MAX_STATES; k++) {
    stepping.state[k].dtype = eight ? AC_U8 : AC_F32;
    stepping.state[k].shape = eight ? blocks_of(parameter) : parameter->shape;
  }
  if (row->keep) row->keep(&desc->optimizer, parameter, &stepping);
  return stepping;
}

static ac_status make_states(ac_graph *graph, const ac_stepping *stepping, int index, tensors *t) {
  for (int k = 0; k < stepping->states; k++) {
    ac_tensor *state = ac_graph_new_tensor(graph, AC_ROLE_STATE, stepping->state[k].dtype,
                                           &stepping->state[k].shape);
    if (!state) return graph->status;
    state->parameter = index;
    state->state = k;
    t->state[k] = state->id;
  }
  return AC_OK;
}

/* After this the state takes the place of the gradient. */
static ac_status append_fold(ac_graph *graph, const ac_stepping *stepping, tensors *t) {
  ac_tensor *gradient = ac_tensor_at(graph, t->gradient);
  ac_node *node = append(graph, AC_OP_fold, sizeof(ac_fold_attributes), gradient);
  if (!node) return graph->status;
  gradient->folded = true;
  for (int k = 0; k < stepping->states; k++) node->out[k] = t->state[k];
  t->gradient = t->state[0];
  return AC_OK;
}

/* What is kept for a parameter, and what is folded into it. */
static ac_status prepare_state(ac_graph *graph, const ac_plan_desc *desc, bool folds, int index,
                               tensors *t) {
  const ac_stepping stepping =
      ac_optimizer_stepping(desc, ac_tensor_at(graph, graph->parameters[index]));
  AC_TRY(make_states(graph, &stepping, index, t));
  return folds && stepping.folds ? append_fold(graph, &stepping, t) : AC_OK;
}

/* Runs before the steps: they use what it leaves, and so does a caller's own step. */
static ac_status append_clip(ac_graph *graph, const ac_plan_desc *desc, int index,
                             const tensors *t) {
  const bool hands_over = ac_optimizer_row_of(desc->optimizer.kind)->hands_over;
  if (desc->optimizer.clipping < AC_CLIP_VALUE && !hands_over) return AC_OK;
  ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[index]),
            *operands[] = {ac_tensor_at(graph, t->gradient), parameter};
  const ac_clip_attributes clip = {.gradient_factor = 1,
                                   .limit = 1,
                                   .adaptive = desc->optimizer.clipping == AC_CLIP_ADAPTIVE,
                                   .by_column = ac_optimizer_by_column(parameter)};
  const int node = ac_graph_append(graph, AC_OP_clip, &clip, sizeof clip, 2, operands);
  if (node >= 0) ac_node_at(graph, node)->out[0] = t->gradient;
  return graph->status;
}

/* A caller's own step is not a node: it runs after the node that clips. */
static ac_status append_step(ac_graph *graph, const ac_plan_desc *desc, int index,
                             const tensors *t) {
  const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[index]);
  const ac_stepping stepping = ac_optimizer_stepping(desc, parameter);
  const ac_optimizer_row *row = stepping.row;
  if (row->hands_over) return AC_OK;
  ac_node *node = append(graph, row->step, row->argument_bytes, ac_tensor_at(graph, t->gradient));
  if (!node) return graph->status;
  if (row->prepare) row->prepare(desc->precision, node->attributes);
  node->out[0] = parameter->id;
  for (int k = 0; k < stepping.states; k++) node->out[1 + k] = t->state[k];
  if (t->working >= 0) node->out[working_output(row->step)] = t->working;
  return AC_OK;
}

/* Runs after the step, and folds the parameter into the average. */
static ac_status append_average(ac_graph *graph, int index) {
  ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[index]);
  ac_tensor *average = ac_graph_new_tensor(graph, AC_ROLE_AVERAGE, AC_F32, &parameter->shape);
  ac_node *node = append(graph, AC_OP_fold, sizeof(ac_fold_attributes), parameter);
  if (!node) return graph->status;
  average->parameter = index;
  node->phase = AC_PHASE_UPDATE;
  node->out[0] = average->id;
  return AC_OK;
}

static ac_status append_all(ac_graph *graph, const ac_plan_desc *desc, bool folds, tensors *list) {
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0) AC_TRY(prepare_state(graph, desc, folds, i, &list[i]));
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0)
      AC_TRY(append_statistics(graph, ac_tensor_at(graph, list[i].gradient)));
  const int tensor_count = graph->tensor_count;
  for (int i = 0; i < tensor_count; i++)
    if (ac_tensor_at(graph, i)->role == AC_ROLE_POOLED)
      AC_TRY(append_statistics(graph, ac_tensor_at(graph, i)));
  /* Neighbouring steps may run at the same time. */
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0) AC_TRY(append_clip(graph, desc, i, &list[i]));
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0) AC_TRY(append_step(graph, desc, i, &list[i]));
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0 && desc->average) AC_TRY(append_average(graph, i));
  return AC_OK;
}

ac_status ac_optimizer_append(ac_graph *graph, const ac_plan_desc *desc, bool folds) {
  tensors *list = malloc(((size_t)graph->parameter_count + 1) * sizeof *list);
  if (!list) return ac_fail(AC_ERROR_MEMORY, "no memory for the nodes of an update");
  for (int i = 0; i < graph->parameter_count; i++)
    list[i] = (tensors){.gradient = -1, .working = -1};
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->storage != i) continue;
    if (tensor->role == AC_ROLE_GRADIENT) list[tensor->parameter].gradient = i;
    if (tensor->role == AC_ROLE_WORKING) list[tensor->parameter].working = i;
  }
  ac_status status = append_all(graph, desc, folds, list);
  free(list);
  return status;
}
