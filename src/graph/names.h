/* The names of a graph's leaves, to find one in constant expected time. */
#ifndef AC_GRAPH_NAMES_H
#define AC_GRAPH_NAMES_H

#include "graph/graph.h"

/* Looks for a leaf of this role; *found receives its tensor id, -1: there is none. False: there is
 * no memory. */
bool ac_graph_find_leaf(ac_graph *graph, ac_role role, const char *name, int *found);

#endif
