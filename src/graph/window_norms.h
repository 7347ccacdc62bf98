/* Batch norm over whole windows: each batch norm of a graph that is not differentiated yet becomes
 * the ops that gather statistics over micro-batches and then use them (ops/norm/batch_norm.h).
 * Those with frozen statistics stay as they are. */
#ifndef AC_GRAPH_WINDOW_NORMS_H
#define AC_GRAPH_WINDOW_NORMS_H

#include "core/error.h"
#include "graph/graph.h"

/* *count receives how many there are. */
ac_status ac_graph_spread_norms(ac_graph *graph, int *count);

#endif
