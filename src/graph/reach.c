/* Two walks from the losses backwards, one to all that they depend on and one only where gradients
 * go. Trainable parameters that the first one finds and the second does not are refused. A third
 * walk, from such a parameter forwards, finds the function to name. Time is linear in the graph. */
#include "graph/reach.h"

#include <stdlib.h>
#include <string.h>

bool ac_node_passes(const ac_node *node, int operand) {
  const ac_op_desc *desc = ac_op_describe(node->op);
  return desc->gradient && (!desc->passes || desc->passes(node->attributes, operand));
}

bool ac_node_wants_gradients(const ac_graph *graph, const ac_node *node) {
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    if (node->in[i] >= 0 && ac_tensor_at(graph, node->in[i])->requires_gradient &&
        ac_node_passes(node, i))
      return true;
  return false;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* By storage. */
typedef struct walks {
  const ac_graph *graph;
  bool *needed;  /* losses depend on it */
  bool *reached; /* by a gradient of a loss */
  bool *made;    /* it depends on some parameter */
} walks;

static bool begin(walks *w, const ac_graph *graph) {
  const size_t count = (size_t)graph->tensor_count + 1;
  *w = (walks){graph, calloc(count, sizeof *w->needed), calloc(count, sizeof *w->reached),
               calloc(count, sizeof *w->made)};
  return w->needed && w->reached && w->made;
}

static void end(walks *w) {
  free(w->needed);
  free(w->reached);
  free(w->made);
}

static int storage_of(const walks *w, int tensor) {
  return ac_tensor_at(w->graph, tensor)->storage;
}

/* Where the caller has ended gradients himself (ac_stop_gradient), neither walk goes on. */
static bool is_stopped(const walks *w, int tensor) {
  return ac_tensor_at(w->graph, tensor)->stopped;
}

/* Integers have no gradient, whatever op reads them. */
static bool passes(const walks *w, const ac_node *node, int operand) {
  return ac_tensor_at(w->graph, node->in[operand])->dtype != AC_I32 &&
         ac_node_passes(node, operand);
}

static bool has_output(const walks *w, const ac_node *node, const bool *marked) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (node->out[j] >= 0 && marked[storage_of(w, node->out[j])]) return true;
  return false;
}

static void walk_back(walks *w) {
  for (int n = w->graph->node_count - 1; n >= 0; n--) {
    const ac_node *node = ac_node_at(w->graph, n);
    if (!has_output(w, node, w->needed)) continue;
    const bool reached = has_output(w, node, w->reached);
    for (int i = 0; i < AC_MAX_INPUTS; i++) {
      if (node->in[i] < 0 || is_stopped(w, node->in[i])) continue;
      const int storage = storage_of(w, node->in[i]);
      w->needed[storage] = true;
      if (reached && passes(w, node, i)) w->reached[storage] = true;
    }
  }
}

/* From some of the losses. */
static void walk(walks *w, int first, int count) {
  const size_t bytes = (size_t)w->graph->tensor_count * sizeof(bool);
  memset(w->needed, 0, bytes);
  memset(w->reached, 0, bytes);
  for (int k = first; k < first + count; k++) {
    const int storage = storage_of(w, w->graph->losses[k].tensor);
    w->needed[storage] = w->reached[storage] = true;
  }
  walk_back(w);
}

/* The first node that losses depend on, reads what is made of the parameter, and passes no gradient
 * on to it. Of integers it is the one that found them: other results of it may have a gradient. */
static const ac_node *find_end(walks *w, const ac_tensor *parameter) {
  memset(w->made, 0, (size_t)w->graph->tensor_count * sizeof *w->made);
  w->made[parameter->id] = true;
  for (int n = 0; n < w->graph->node_count; n++) {
    const ac_node *node = ac_node_at(w->graph, n);
    if (!has_output(w, node, w->needed)) continue;
    for (int i = 0; i < AC_MAX_INPUTS; i++) {
      if (node->in[i] < 0 || is_stopped(w, node->in[i]) || !w->made[storage_of(w, node->in[i])])
        continue;
      if (!ac_node_passes(node, i)) return node;
      if (!passes(w, node, i))
        return ac_node_at(w->graph, ac_tensor_at(w->graph, node->in[i])->producer);
      for (int j = 0; j < AC_MAX_OUTPUTS; j++)
        if (node->out[j] >= 0) w->made[storage_of(w, node->out[j])] = true;
    }
  }
  return NULL;
}

/* ---- refusing -------------------------------------------------------------------------------- */

/* The first trainable parameter that losses depend on and no gradient reaches; NULL: none. Sets
 * `any` if one is reached. */
static const ac_tensor *find_unreached(const walks *w, bool *any) {
  const ac_tensor *unreached = NULL;
  for (int i = 0; i < w->graph->parameter_count; i++) {
    const ac_tensor *parameter = ac_tensor_at(w->graph, w->graph->parameters[i]);
    if (parameter->desc.frozen || !w->needed[parameter->id]) continue;
    if (w->reached[parameter->id]) *any = true;
    else if (!unreached) unreached = parameter;
  }
  return unreached;
}

static ac_status check_loss(walks *w, int k) {
  const char *name = w->graph->losses[k].name;
  char text[128];
  bool any = false;
  walk(w, k, 1);
  const ac_tensor *parameter = find_unreached(w, &any);
  if (any) return AC_OK;
  const ac_node *node = parameter ? find_end(w, parameter) : NULL;
  if (!node)
    return ac_fail(AC_ERROR_ARGUMENT, "the loss%s%s depends on no trainable parameter",
                   *name ? " " : "", name);
  return ac_fail(AC_ERROR_ARGUMENT,
                 "the loss%s%s has no gradient, and would train nothing: it depends on parameter "
                 "\"%s\" only through %s, which passes no gradient on",
                 *name ? " " : "", name, parameter->name,
                 ac_node_text(text, sizeof text, w->graph, node));
}

static ac_status check_parameters(walks *w) {
  char text[128];
  bool any = false;
  walk(w, 0, w->graph->loss_count);
  const ac_tensor *parameter = find_unreached(w, &any);
  const ac_node *node = parameter ? find_end(w, parameter) : NULL;
  if (!node) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "parameter \"%s\" would not be trained: the losses depend on it only through %s, "
                 "which passes no gradient on; freeze it, or use a function that has a gradient",
                 parameter->name, ac_node_text(text, sizeof text, w->graph, node));
}

ac_status ac_graph_check_reach(const ac_graph *graph) {
  walks w;
  ac_status status = AC_OK;
  if (!begin(&w, graph)) status = ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  for (int k = 0; k < graph->loss_count && status == AC_OK; k++) status = check_loss(&w, k);
  if (status == AC_OK && graph->loss_count) status = check_parameters(&w);
  end(&w);
  return status;
}
