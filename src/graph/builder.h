/* What the functions that build ops share (src/ops). */
#ifndef AC_GRAPH_BUILDER_H
#define AC_GRAPH_BUILDER_H

#include "core/error.h"
#include "graph/graph.h"

/* A function of the public headers that takes tensors. Each is described as "NAME WHAT", such as
 * "x f32 [..., in]"; a `?` behind the name says that it may be NULL, and "parts[] f32" describes
 * all tensors from its place on. */
typedef struct ac_builder {
  const char *name;
  int count; /* tensors that it is handed */
  const char *takes[AC_MAX_INPUTS];
} ac_builder;

/* The graph of the tensors if it is good, those that must be there are there, and all are of one
 * graph and no losses; else NULL, with the failure recorded. */
ac_graph *ac_builder_graph(const ac_builder *builder, ac_tensor *const *tensors);

/* Fails the graph and returns NULL. The sentence names the builder, the scope and what each tensor
 * is; `reason` NULL says what is taken. */
ac_tensor *ac_builder_fail(ac_graph *graph, const ac_builder *builder, ac_tensor *const *tensors,
                           const char *reason, ...) AC_PRINTF(4, 5);

/* Whether it is f32 [count], without the batch. */
bool ac_is_float_vector(const ac_tensor *tensor, int64_t count);

#endif
