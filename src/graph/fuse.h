/* Neighbouring functions of elements become one, in a graph that is not differentiated yet. What is
 * fused depends on the graph alone, never on a budget, so that a budget changes no bits. */
#ifndef AC_GRAPH_FUSE_H
#define AC_GRAPH_FUSE_H

#include "core/error.h"
#include "graph/graph.h"

/* Fuses what can be, and says how many nodes that spared. */
ac_status ac_graph_fuse(ac_graph *graph, int *spared);

#endif
