/* How far gradients go. Functions without a gradient, such as comparisons, end them: what is made
 * of their results wants none, and a parameter that the losses depend on through these alone would
 * be trained by nothing, in silence. */
#ifndef AC_GRAPH_REACH_H
#define AC_GRAPH_REACH_H

#include "core/error.h"
#include "graph/graph.h"

/* Whether a gradient of the node's results would go on to its operand. */
bool ac_node_passes(const ac_node *node, int operand);

/* Whether gradients of the node's results have somewhere to go. */
bool ac_node_wants_gradients(const ac_graph *graph, const ac_node *node);

/* Refuses losses that have a gradient with respect to no parameter, and trainable parameters that
 * losses depend on but have no gradient with respect to. For a graph of forward nodes. */
ac_status ac_graph_check_reach(const ac_graph *graph);

#endif
