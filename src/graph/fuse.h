/* Neighbouring functions of elements become one, in a graph that is not differentiated yet. What is
 * fused depends on the graph alone, never on a budget, so that a budget changes no bits. */
#ifndef AC_GRAPH_FUSE_H
#define AC_GRAPH_FUSE_H

#include "core/error.h"
#include "graph/graph.h"

/* Nodes that were spared, and elements of their results: for each sample, and of others. */
typedef struct ac_fused {
  int nodes;
  int64_t per_sample, fixed;
} ac_fused;

/* Fuses what can be. */
ac_status ac_graph_fuse(ac_graph *graph, ac_fused *spared);

#endif
