/* The same elements in another shape: a view, so no op runs and no data moves. */
#include "graph/graph.h"

ac_tensor *ac_reshape(ac_tensor *x, int rank, const int64_t *dim) {
  if (!x || x->graph->status != AC_OK) return NULL;
  ac_graph *graph = x->graph;
  if (rank < 1 || rank > AC_MAX_RANK)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "reshape: rank %d is not in 1 to %d", rank,
                         AC_MAX_RANK);
  if (x->role == AC_ROLE_LOSS)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "reshape: a loss is no operand");
  int64_t resolved[AC_MAX_RANK], elements = ac_shape_count(&x->shape);
  int deduced = -1, missing = 0;
  for (int i = 0; i < rank; i++) {
    resolved[i] = dim[i] ? dim[i] : 1;
    if (dim[i] == 0) deduced = i, missing++;
  }
  ac_shape rest;
  bool possible = missing <= 1 && ac_shape_parse(&rest, rank, resolved) &&
                  elements % ac_shape_count(&rest) == 0;
  if (possible && missing) {
    int64_t size = elements / ac_shape_count(&rest);
    resolved[deduced] = deduced == 0 && x->shape.batched ? AC_BATCH_TIMES(size) : size;
  }
  ac_shape shape;
  if (!possible || !ac_shape_parse(&shape, rank, resolved) || shape.batched != x->shape.batched ||
      ac_shape_count(&shape) != elements) {
    char text[AC_SHAPE_TEXT];
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "reshape: %s has other elements or another batch than the new shape",
                         ac_shape_text(text, &x->shape));
  }
  return ac_graph_view(graph, x, &shape);
}
