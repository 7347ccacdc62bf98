#include "graph/freeze.h"

#include "core/platform/patterns.h"
#include "graph/reach.h"

static ac_status freeze(ac_graph *graph, const char *pattern) {
  int matches = 0;
  for (int i = 0; i < graph->parameter_count; i++) {
    ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[i]);
    if (!ac_pattern_matches(pattern, parameter->name)) continue;
    parameter->desc.frozen = true;
    matches++;
  }
  if (matches) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "plan: no parameter's name matches \"%s\", which is to be frozen", pattern);
}

static bool needs_gradient(const ac_graph *graph, const ac_tensor *tensor) {
  if (tensor->stopped) return false;
  if (tensor->storage != tensor->id) return ac_tensor_at(graph, tensor->storage)->requires_gradient;
  if (tensor->role == AC_ROLE_PARAMETER) return !tensor->desc.frozen;
  if (tensor->dtype == AC_I32) return false; /* ids that an op finds */
  const ac_node *node = ac_node_at(graph, tensor->producer);
  return node && ac_node_wants_gradients(graph, node);
}

/* Each tensor comes after those that it is computed from. */
ac_status ac_graph_freeze(ac_graph *graph, const char *patterns) {
  char pattern[AC_PATTERN_BYTES];
  if (!patterns) return AC_OK;
  while (ac_pattern_next(&patterns, pattern)) AC_TRY(freeze(graph, pattern));
  for (int i = 0; i < graph->tensor_count; i++) {
    ac_tensor *tensor = ac_tensor_at(graph, i);
    tensor->requires_gradient = needs_gradient(graph, tensor);
  }
  return AC_OK;
}
