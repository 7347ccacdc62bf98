/* What ends a window: statistics of gradients and of what batch norms pool, then the steps of
 * parameters. */
#include "ops/optimizer.h"

#include "core/error.h"
#include "ops/update.h"

#include <stdlib.h>

/* ---- nodes ----------------------------------------------------------------------------------- */

/* By parameter: tensors, or -1. */
typedef struct tensors {
  int gradient, working;
} tensors;

/* Attributes of a middling update, for whoever only measures. */
static const ac_gradient_statistics_attributes unscaled = {1};
static const ac_adamw_attributes adamw_example = {1,      1e-3f, 0.01f, 0.9f,
                                                  0.999f, 1e-8f, 0.1f,  0.03f};
static const ac_sgd_attributes sgd_example = {1, 1e-3f, 0.01f, 0.9f, false, false};

static ac_node *append(ac_graph *graph, ac_op op, const void *attributes, size_t size,
                       ac_tensor *gradient) {
  int index = ac_graph_append(graph, op, attributes, size, 1, &gradient);
  return index < 0 ? NULL : ac_node_at(graph, index);
}

/* Of a gradient, or of pooled statistics, which must be finite as well. */
static ac_status append_statistics(ac_graph *graph, ac_tensor *gradient) {
  static const ac_shape pair = {.rank = 1, .dim = {2}};
  ac_tensor *out = ac_graph_new_tensor(graph, AC_ROLE_STATISTICS, AC_F32, &pair);
  ac_node *node = append(graph, AC_OP_gradient_statistics, &unscaled, sizeof unscaled, gradient);
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

static ac_status append_step(ac_graph *graph, ac_op op, int states, int index, const tensors *t) {
  bool adamw = op == AC_OP_adamw;
  ac_node *node =
      append(graph, op, adamw ? (const void *)&adamw_example : &sgd_example,
             adamw ? sizeof adamw_example : sizeof sgd_example, ac_tensor_at(graph, t->gradient));
  if (!node) return graph->status;
  node->out[0] = graph->parameters[index];
  const ac_shape *shape = &ac_tensor_at(graph, graph->parameters[index])->shape;
  for (int k = 0; k < states; k++) {
    ac_tensor *state = ac_graph_new_tensor(graph, AC_ROLE_STATE, AC_F32, shape);
    if (!state) return graph->status;
    state->parameter = index;
    state->state = k;
    node->out[1 + k] = state->id;
  }
  if (t->working >= 0) node->out[working_output(op)] = t->working;
  return AC_OK;
}

static ac_status append_all(ac_graph *graph, ac_op op, int states, const tensors *list) {
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0)
      AC_TRY(append_statistics(graph, ac_tensor_at(graph, list[i].gradient)));
  const int tensor_count = graph->tensor_count;
  for (int i = 0; i < tensor_count; i++)
    if (ac_tensor_at(graph, i)->role == AC_ROLE_POOLED)
      AC_TRY(append_statistics(graph, ac_tensor_at(graph, i)));
  for (int i = 0; i < graph->parameter_count; i++)
    if (list[i].gradient >= 0) AC_TRY(append_step(graph, op, states, i, &list[i]));
  return AC_OK;
}

ac_status ac_optimizer_append(ac_graph *graph, ac_op step, int states) {
  tensors *list = malloc(((size_t)graph->parameter_count + 1) * sizeof *list);
  if (!list) return ac_fail(AC_ERROR_MEMORY, "no memory for the nodes of an update");
  for (int i = 0; i < graph->parameter_count; i++) list[i] = (tensors){-1, -1};
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->storage != i) continue;
    if (tensor->role == AC_ROLE_GRADIENT) list[tensor->parameter].gradient = i;
    if (tensor->role == AC_ROLE_WORKING) list[tensor->parameter].working = i;
  }
  ac_status status = append_all(graph, step, states, list);
  free(list);
  return status;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Parameter and moments are read and written; the copy in 16 bits, which comes last, is written. */
static double update_bytes(const ac_op_args *args) {
  double bytes = ac_op_operand_bytes(args);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    if (args->out[i].dtype == AC_F32) bytes += ac_operand_bytes(&args->out[i]);
  return bytes;
}

const ac_op_desc ac_op_desc_gradient_statistics = {
    .phase = AC_PHASE_REDUCE,
    .by_window = true,
    .flops_per_element = 3,
    .sample = {{"p"}, {"2"}, &unscaled},
};
const ac_op_desc ac_op_desc_adamw = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 14,
    .bytes = update_bytes,
    .sample = {{"p"}, {"p", "p", "p"}, &adamw_example},
};
const ac_op_desc ac_op_desc_sgd = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 6,
    .bytes = update_bytes,
    .sample = {{"p"}, {"p", "p"}, &sgd_example},
};
