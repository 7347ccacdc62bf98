/* What ends a window: statistics of gradients and of what batch norms pool, then the steps of
 * parameters. */
#include "ops/update/optimizer.h"

#include "core/eight_bit.h"
#include "core/error.h"
#include "core/platform/patterns.h"
#include "ops/update/adafactor.h"
#include "ops/update/adam_mini.h"
#include "ops/update/clip.h"
#include "ops/update/fold.h"
#include "ops/update/lion.h"
#include "ops/update/muon.h"
#include "ops/update/update.h"

#include <stdlib.h>

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The tensors of a parameter, or -1. */
typedef struct tensors {
  int gradient, working;
  int state[AC_MAX_STATES];
} tensors;

/* Attributes of a middling update, for whoever only measures. */
static const ac_gradient_statistics_attributes unscaled = {1};
static const ac_adamw_attributes adamw_example = {1,      1e-3f, 0.01f, 0.1f,
                                                  0.001f, 1e-8f, 0.1f,  0.03f};
static const ac_sgd_attributes sgd_example = {1, 1e-3f, 0.01f, 0.9f, false, false};

/* For each op. */
static const size_t attribute_bytes[AC_OP_COUNT] = {
    [AC_OP_gradient_statistics] = sizeof unscaled,
    [AC_OP_adamw] = sizeof adamw_example,
    [AC_OP_sgd] = sizeof sgd_example,
    [AC_OP_lion] = sizeof(ac_lion_attributes),
    [AC_OP_adafactor] = sizeof(ac_adafactor_attributes),
    [AC_OP_muon] = sizeof(ac_muon_attributes),
    [AC_OP_adam_mini] = sizeof(ac_adam_mini_attributes),
    [AC_OP_fold] = sizeof(ac_fold_attributes),
};

/* The node's own attributes are an example. */
static ac_node *append(ac_graph *graph, ac_op op, ac_tensor *gradient) {
  const int index = ac_graph_append(graph, op, ac_op_describe(op)->sample.attributes,
                                    attribute_bytes[op], 1, &gradient);
  return index < 0 ? NULL : ac_node_at(graph, index);
}

/* Statistics of a gradient, or of pooled statistics, which must also be finite. */
static ac_status append_statistics(ac_graph *graph, ac_tensor *gradient) {
  static const ac_shape pair = {.rank = 1, .dim = {2}};
  ac_tensor *out = ac_graph_new_tensor(graph, AC_ROLE_STATISTICS, AC_F32, &pair);
  ac_node *node = append(graph, AC_OP_gradient_statistics, gradient);
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

static void keep_rows_and_columns(ac_stepping *stepping, const ac_shape *shape) {
  const int64_t rows = shape->dim[0], columns = ac_shape_count(shape) / rows;
  stepping->states = 2;
  stepping->state[0].shape = (ac_shape){.rank = 1, .dim = {rows}};
  stepping->state[1].dtype = AC_F32;
  stepping->state[1].shape = (ac_shape){.rank = 1, .dim = {columns}};
}

bool ac_optimizer_by_column(const ac_tensor *parameter) {
  return parameter->matrix == AC_MATRIX_IN_OUT && !parameter->is_table &&
         parameter->shape.rank == 2;
}

/* Rows are what makes one output, or one token's; of layers stored the other way it is columns. A
 * vector is one block (ops/update/adam_mini.h). */
static ac_shape adam_mini_blocks(const ac_tensor *parameter) {
  const ac_shape *shape = &parameter->shape;
  ac_shape blocks = {.rank = 2, .dim = {1, 1}};
  if (shape->rank < 2) return blocks;
  if (ac_optimizer_by_column(parameter)) blocks.dim[1] = shape->dim[1];
  else blocks.dim[0] = shape->dim[0];
  return blocks;
}

/* True if Muon steps it. Its author advises to leave tables and the last layer before a loss to
 * AdamW; a batch touches only a few rows of a table. */
static bool is_hidden_matrix(const ac_tensor *parameter) {
  return parameter->matrix != AC_NO_MATRIX && parameter->shape.rank >= 2 && !parameter->is_table &&
         !parameter->is_head;
}

ac_stepping ac_optimizer_stepping(const ac_plan_desc *desc, const ac_tensor *parameter) {
  static const ac_stepping kinds[AC_OPTIMIZER_COUNT] = {
      [AC_ADAMW] = {.op = AC_OP_adamw, .states = 2},
      [AC_SGD] = {.op = AC_OP_sgd, .states = 1},
      [AC_LION] = {.op = AC_OP_lion, .states = 1},
      [AC_ADAFACTOR] = {.op = AC_OP_adafactor, .states = 1},
      [AC_MUON] = {.op = AC_OP_muon, .states = 1},
      [AC_ADAM_MINI] = {.op = AC_OP_adam_mini, .states = 2},
      [AC_OPTIMIZER_CALLBACK] = {.op = AC_OP_clip},
  };
  const bool left = desc->optimizer.kind == AC_MUON && !is_hidden_matrix(parameter);
  ac_stepping stepping = kinds[left ? AC_ADAMW : desc->optimizer.kind];
  stepping.folds = !left;
  if (desc->optimizer.kind == AC_SGD && desc->optimizer.sgd_no_momentum) stepping.states = 0;
  if (desc->optimizer.kind == AC_OPTIMIZER_CALLBACK)
    stepping.states = desc->optimizer.callback_states;
  const bool eight = is_eight_bit(desc, parameter);
  for (int k = 0; k < stepping.states; k++) {
    stepping.state[k].dtype = eight ? AC_U8 : AC_F32;
    stepping.state[k].shape = eight ? blocks_of(parameter) : parameter->shape;
  }
  if (desc->optimizer.kind == AC_ADAFACTOR && parameter->shape.rank >= 2)
    keep_rows_and_columns(&stepping, &parameter->shape);
  if (desc->optimizer.kind == AC_ADAM_MINI) stepping.state[1].shape = adam_mini_blocks(parameter);
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
  ac_node *node = append(graph, AC_OP_fold, gradient);
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
  if (desc->optimizer.clipping < AC_CLIP_VALUE && desc->optimizer.kind != AC_OPTIMIZER_CALLBACK)
    return AC_OK;
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
  if (desc->optimizer.kind == AC_OPTIMIZER_CALLBACK) return AC_OK;
  const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[index]);
  const ac_stepping stepping = ac_optimizer_stepping(desc, parameter);
  ac_node *node = append(graph, stepping.op, ac_tensor_at(graph, t->gradient));
  if (!node) return graph->status;
  if (stepping.op == AC_OP_muon)
    ((ac_muon_attributes *)node->attributes)->factors = ac_optimizer_factors(desc);
  node->out[0] = parameter->id;
  for (int k = 0; k < stepping.states; k++) node->out[1 + k] = t->state[k];
  if (t->working >= 0) node->out[working_output(stepping.op)] = t->working;
  return AC_OK;
}

/* Runs after the step, and folds the parameter into the average. */
static ac_status append_average(ac_graph *graph, int index) {
  ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[index]);
  ac_tensor *average = ac_graph_new_tensor(graph, AC_ROLE_AVERAGE, AC_F32, &parameter->shape);
  ac_node *node = append(graph, AC_OP_fold, parameter);
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

/* ---- work ------------------------------------------------------------------------------------ */

double ac_update_bytes(const ac_op_args *args) {
  double bytes = ac_op_operand_bytes(args);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    if (ac_op_output_kind(args->op, i) != 's') bytes += ac_operand_bytes(&args->out[i]);
  return bytes;
}

const ac_op_desc ac_op_desc_gradient_statistics = {
    .phase = AC_PHASE_REDUCE,
    .by_window = true,
    .flops_per_element = 3,
    .sample = {{"p"}, {"2"}, &unscaled},
};
const ac_op_desc ac_op_desc_adamw = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 14,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p", "p"}, &adamw_example},
};
const ac_op_desc ac_op_desc_sgd = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 6,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p"}, &sgd_example},
};
