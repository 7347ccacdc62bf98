/* What the functions that build ops share (src/ops). */
#ifndef AC_GRAPH_BUILDER_H
#define AC_GRAPH_BUILDER_H

#include "core/error.h"
#include "graph/graph.h"

/* The graph of the tensors if it is good, those that must be there are there, and all are of one
 * graph and no losses; else NULL, with the failure recorded. */
ac_graph *ac_builder_graph(const ac_builder *builder, ac_tensor *const *tensors);
/* The same of a graph that is known. */
bool ac_builder_begin(ac_graph *graph, const ac_builder *builder, ac_tensor *const *tensors);

/* Fails the graph and returns NULL. The sentence names the builder, the scope and what each tensor
 * is; `reason` NULL says what is taken. */
ac_tensor *ac_builder_fail(ac_graph *graph, const ac_builder *builder, ac_tensor *const *tensors,
                           const char *reason, ...) AC_PRINTF(4, 5);

/* Whether it is f32 [count], without the batch. */
bool ac_is_float_vector(const ac_tensor *tensor, int64_t count);

/* What differentiation and storage in 16 bits append, as ac_graph_append does. The files of these
 * ops define it. */
int ac_append_scale(ac_graph *graph, float factor, ac_tensor *x);
ac_tensor *ac_emit_sum(ac_graph *graph, ac_tensor *const terms[2]);
int ac_append_rounded_sum(ac_graph *graph, uint32_t stream, ac_tensor *x);

#endif
