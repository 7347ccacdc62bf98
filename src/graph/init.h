/* Initial values of parameters, as they are described. */
#ifndef AC_GRAPH_INIT_H
#define AC_GRAPH_INIT_H

#include <accrue/graph.h>

/* Fills in what is left open, for a tensor of this rank. False, with the reason in `reason`, if the
 * description is refused. */
bool ac_init_resolve(ac_init *init, int rank, char *reason, size_t size);

#endif
