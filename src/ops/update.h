/* What ends a window, as nodes of a graph. */
#ifndef AC_OPS_UPDATE_H
#define AC_OPS_UPDATE_H

#include "graph/graph.h"

/* Appends to a differentiated and stored graph what ends a window, parameter by parameter: the
 * statistics of each gradient, and its step by `step` with `states` tensors of state. */
ac_status ac_optimizer_append(ac_graph *graph, ac_op step, int states);

#endif
