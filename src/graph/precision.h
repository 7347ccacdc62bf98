/* Mixed precision as a pass over a graph: which tensors are stored in 16 bits.
 *
 * The letters of AC_OP_LIST decide. An activation is stored as its producer's letter says; a
 * parameter that is read where a letter says `s` is read from a working copy in 16 bits
 * (AC_ROLE_WORKING), which whoever changes the parameter keeps up to date. Where an op wants
 * another dtype than a tensor has (an f32 input of the graph, say), a cast node goes before it, one
 * for each such tensor. Parameters, their gradients and loss sums stay f32, unless weights are
 * asked for in 16 bits as well; so may gradients be. */
#ifndef AC_GRAPH_PRECISION_H
#define AC_GRAPH_PRECISION_H

#include "core/error.h"
#include "graph/graph.h"

/* Rewrites a graph, differentiated or not, once; AC_F32 leaves it as it is. With `weights`,
 * parameters that are read, and only where a letter says `s`, are stored in 16 bits themselves;
 * with `gradients`, those of large parameters are in bf16, and an op rounds by chance what is added
 * to them. */
ac_status ac_graph_set_storage(ac_graph *graph, ac_dtype storage, bool weights, bool gradients);

#endif
