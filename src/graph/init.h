/* Initial values of parameters, as they are described. */
#ifndef AC_GRAPH_INIT_H
#define AC_GRAPH_INIT_H

#include <accrue/graph.h>

/* Fills in the default gain. False, with the reason in `reason`, if the description is refused. */
bool ac_init_resolve(ac_init *init, char *reason, size_t size);

#endif
