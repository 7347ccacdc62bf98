#include "graph/differentiate.h"

#include "core/error.h"
#include "graph/builder.h"

#include <stdlib.h>

ac_tensor *ac_gradient_of(ac_differentiation *d, int tensor) {
  ac_graph *graph = d->graph;
  const ac_tensor *forward = ac_tensor_at(graph, tensor);
  int id = d->gradient[forward->storage];
  if (id < 0) return NULL;
  ac_tensor *gradient = ac_tensor_at(graph, id);
  if (ac_shape_equal(&gradient->shape, &forward->shape)) return gradient;
  return ac_graph_view(graph, gradient, &forward->shape);
}

bool ac_gradient_wanted(const ac_differentiation *d, int tensor) {
  return tensor >= 0 && ac_tensor_at(d->graph, tensor)->requires_gradient;
}

/* The persistent sum that every contribution to a parameter's gradient is added to. */
static ac_tensor *parameter_gradient(ac_differentiation *d, const ac_tensor *parameter) {
  int index = parameter->parameter;
  if (d->parameter[index] < 0) {
    const ac_tensor *whole = ac_tensor_at(d->graph, d->graph->parameters[index]);
    ac_tensor *sum = ac_graph_new_tensor(d->graph, AC_ROLE_GRADIENT, AC_F32, &whole->shape);
    if (!sum) return NULL;
    sum->parameter = index;
    d->parameter[index] = sum->id;
  }
  return ac_tensor_at(d->graph, d->parameter[index]);
}

ac_status ac_gradient_pass(ac_differentiation *d, int target, ac_tensor *gradient) {
  ac_graph *graph = d->graph;
  if (!gradient) return graph->status;
  const ac_tensor *forward = ac_tensor_at(graph, target);
  if (!forward->requires_gradient) return AC_OK;
  if (forward->role == AC_ROLE_PARAMETER) {
    ac_tensor *sum = parameter_gradient(d, forward);
    if (!sum) return graph->status;
    /* A parameter that was given another shape is told of a gradient in its own. */
    if (!ac_shape_equal(&gradient->shape, &sum->shape))
      gradient = ac_graph_view(graph, gradient, &sum->shape);
    int node = gradient ? ac_append_scale(graph, 1, gradient) : -1;
    if (node < 0) return graph->status;
    ac_node_at(graph, node)->out[0] = sum->id;
    return AC_OK;
  }
  int *held = &d->gradient[forward->storage];
  if (*held >= 0) {
    ac_tensor *terms[] = {ac_gradient_of(d, target), gradient};
    gradient = ac_emit_sum(graph, terms);
    if (!gradient) return graph->status;
  }
  *held = gradient->id;
  return AC_OK;
}

/* Decides where output j of the node goes; sets *rest to a tensor that remains to be passed on, if
 * any. */
static ac_tensor *place_output(ac_differentiation *d, ac_node *node, int j,
                               const ac_tensor *forward, bool *rest) {
  bool can_add = ac_op_describe(node->op)->can_add >> j & 1;
  *rest = false;
  if (forward->role == AC_ROLE_PARAMETER && can_add) {
    ac_tensor *sum = parameter_gradient(d, forward);
    if (!sum || ac_shape_equal(&sum->shape, &forward->shape)) return sum;
    return ac_graph_view(d->graph, sum, &forward->shape);
  }
  int held = d->gradient[forward->storage];
  *rest = forward->role == AC_ROLE_PARAMETER || (held >= 0 && !(can_add && j == 0));
  if (held >= 0 && !*rest) node->accumulate = held;
  return ac_graph_new_tensor(d->graph, AC_ROLE_ACTIVATION, AC_F32, &forward->shape);
}

ac_status ac_gradient_emit(ac_differentiation *d, ac_op op, const void *attributes, size_t size,
                           int in_count, ac_tensor *const *in, int target_count,
                           const int *target) {
  ac_graph *graph = d->graph;
  bool wanted = false;
  for (int j = 0; j < target_count; j++) wanted |= ac_gradient_wanted(d, target[j]);
  if (!wanted) return graph->status;
  int index = ac_graph_append(graph, op, attributes, size, in_count, in);
  if (index < 0) return graph->status;
  bool rest[AC_MAX_OUTPUTS] = {false};
  for (int j = 0; j < target_count; j++) {
    if (!ac_gradient_wanted(d, target[j])) continue;
    const ac_tensor *forward = ac_tensor_at(graph, target[j]);
    ac_node *node = ac_node_at(graph, index);
    ac_tensor *output = place_output(d, node, j, forward, &rest[j]);
    if (!output) return graph->status;
    node->out[j] = output->id;
    if (output->role == AC_ROLE_ACTIVATION) {
      output->producer = index;
      if (!rest[j]) d->gradient[forward->storage] = output->id;
    }
  }
  for (int j = 0; j < target_count; j++)
    if (rest[j])
      AC_TRY(ac_gradient_pass(d, target[j], ac_tensor_at(graph, ac_node_at(graph, index)->out[j])));
  return graph->status;
}

/* A loss node starts from the loss scale; any other node needs a gradient of an output. */
static bool reached(const ac_differentiation *d, const ac_node *node) {
  const ac_tensor *output = ac_tensor_at(d->graph, node->out[0]);
  if (output->role == AC_ROLE_LOSS) return ac_graph_loss_index(d->graph, output->id) >= 0;
  for (int j = 0; j < AC_MAX_OUTPUTS && node->out[j] >= 0; j++)
    if (d->gradient[ac_tensor_at(d->graph, node->out[j])->storage] >= 0) return true;
  return false;
}

static bool requires_gradient(const ac_graph *graph, const ac_node *node) {
  for (int j = 0; j < AC_MAX_OUTPUTS && node->out[j] >= 0; j++)
    if (ac_tensor_at(graph, node->out[j])->requires_gradient) return true;
  return false;
}

static ac_status emit_gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  if (!reached(d, node) || !requires_gradient(graph, node)) return AC_OK;
  char text[128];
  const ac_op_desc *desc = ac_op_describe(node->op);
  if (!desc->gradient)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s has no gradient",
                   ac_node_text(text, sizeof text, graph, node));
  return desc->gradient(d, node);
}

static ac_status visit(ac_differentiation *d, int index) {
  ac_graph *graph = d->graph;
  const ac_node *node = ac_node_at(graph, index);
  const ac_op_desc *desc = ac_op_describe(node->op);
  int first = graph->node_count;
  graph->scope = node->scope;
  AC_TRY(emit_gradient(d, node));
  if (desc->window) AC_TRY(desc->window(d, node));
  int loss = node->out[0] < 0 ? -1 : ac_graph_loss_index(graph, node->out[0]);
  for (int i = first; i < graph->node_count; i++) {
    if (loss >= 0) ac_node_at(graph, i)->loss = loss;
    ac_node_at(graph, i)->backward = ac_node_at(graph, i)->phase == AC_PHASE_MICRO_BATCH;
    ac_node_at(graph, i)->forward = index;
  }
  return graph->status;
}

ac_status ac_graph_differentiate(ac_graph *graph) {
  if (!graph->loss_count) return ac_fail(AC_ERROR_ARGUMENT, "the graph has no loss to train on");
  int forward_tensors = graph->tensor_count;
  ac_differentiation d = {.graph = graph};
  d.gradient = malloc((size_t)forward_tensors * sizeof *d.gradient);
  d.parameter = malloc(((size_t)graph->parameter_count + 1) * sizeof *d.parameter);
  ac_status status = AC_OK;
  if (!d.gradient || !d.parameter) {
    status = ac_fail(AC_ERROR_MEMORY, "no memory to differentiate the graph");
  } else {
    for (int i = 0; i < forward_tensors; i++) d.gradient[i] = -1;
    for (int i = 0; i < graph->parameter_count; i++) d.parameter[i] = -1;
    for (int i = graph->node_count - 1; i >= 0 && status == AC_OK; i--) status = visit(&d, i);
  }
  free(d.gradient);
  free(d.parameter);
  return status;
}
