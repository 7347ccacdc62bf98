/* The same elements in another shape: a view, so no op runs and no data moves. */
#include <accrue/movement.h>

#include "graph/builder.h"

ac_tensor *ac_reshape(ac_tensor *x, int rank, const int64_t *dim) {
  static const ac_builder builder = {"reshape", 1, {"x"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (rank < 1 || rank > AC_MAX_RANK || !dim)
    return ac_builder_fail(graph, &builder, &x, "the shape's rank is %d%s; it must be 1 to %d",
                           rank, dim ? "" : " and the shape NULL", AC_MAX_RANK);
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
      ac_shape_count(&shape) != elements)
    return ac_builder_fail(graph, &builder, &x,
                           "x has other elements or another batch than the new shape");
  return ac_graph_view(graph, x, &shape);
}
