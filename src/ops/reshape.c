/* The same elements in another shape: a view, so no op runs and no data moves. */
#include "graph/graph.h"

ac_tensor *ac_reshape(ac_tensor *x, int rank, const int64_t *dim) {
  if (!x || x->graph->status != AC_OK) return NULL;
  ac_graph *graph = x->graph;
  if (rank < 1 || rank > AC_MAX_RANK)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "reshape: rank %d is not in 1 to %d", rank,
                         AC_MAX_RANK);
  int64_t resolved[AC_MAX_RANK], product = 1, elements = ac_shape_count(&x->shape);
  int deduced = -1, missing = 0;
  for (int i = 0; i < rank; i++) {
    resolved[i] = dim[i];
    if (dim[i] == 0) deduced = i, missing++;
    else product *= i == 0 && dim[i] < 0 ? -dim[i] : dim[i];
  }
  bool possible = missing <= 1 && product > 0 && elements % product == 0;
  if (possible && missing) {
    int64_t rest = elements / product;
    resolved[deduced] = deduced == 0 && x->shape.batched ? AC_BATCH_TIMES(rest) : rest;
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
