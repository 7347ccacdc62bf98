/* Parameters that are frozen by name, in a graph that is not differentiated yet. They need no
 * gradient, nor does anything that follows from no other parameter: differentiation then ends where
 * nothing trainable lies below. */
#ifndef AC_GRAPH_FREEZE_H
#define AC_GRAPH_FREEZE_H

#include "core/error.h"
#include "graph/graph.h"

/* Freezes parameters by shell patterns, separated by commas (core/platform/patterns.h); NULL: none.
 * Fails with AC_ERROR_ARGUMENT if a pattern matches no parameter. */
ac_status ac_graph_freeze(ac_graph *graph, const char *patterns);

#endif
