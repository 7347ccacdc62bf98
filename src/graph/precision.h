/* Mixed precision as a pass over a graph: which tensors are stored in 16 bits.
 *
 * The letters of AC_OP_LIST decide. An activation is stored as its producer's letter says. If a
 * letter says `s` for a parameter, it is read from a working copy in 16 bits (AC_ROLE_WORKING); all
 * code that changes the parameter also writes the copy. If the parameter is trained and the plan
 * has no copies, there is a cast node before each node that does not round it itself. A constant
 * that is read in 16 bits has a copy in them. If an op wants another dtype than a tensor has (for
 * example than an f32 input of the graph), there is a cast node before the op, one for each such
 * tensor. Parameters, their gradients and loss sums stay f32, unless the caller asks for weights,
 * or also gradients, in 16 bits.
 *
 * A parameter in blocks has a copy in blocks (AC_ROLE_WORKING), and no other values. There is a
 * cast node, which decodes it, before each node that reads it and does not decode it itself. */
#ifndef AC_GRAPH_PRECISION_H
#define AC_GRAPH_PRECISION_H

#include "core/error.h"
#include "graph/graph.h"

typedef struct ac_graph_storage {
  ac_dtype operands; /* what letters `s` mean; AC_F32 leaves all but gradients as it is */
  bool weights;      /* parameters that are read, and only where a letter says `s`, are stored in 16
                        bits themselves */
  bool gradients; /* those of large parameters are in bf16, and an op rounds by chance what is added
                     to them */
  bool copies;    /* there are working copies of trained parameters */
  const uint32_t *decodes; /* by op: inputs, as bits, that are read in blocks; NULL: none */
  const uint32_t *rounds; /* by op: inputs, as bits, that read a trained parameter without a copy as
                             it is and round it themselves; NULL: none */
} ac_graph_storage;

/* Rewrites a graph, differentiated or not, once. */
ac_status ac_graph_set_storage(ac_graph *graph, const ac_graph_storage *storage);

#endif
