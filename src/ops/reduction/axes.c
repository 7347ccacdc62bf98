/* The axes of a reduction: those a caller names, as bits, and as kernels go over them. */
#include "ops/reduction/reduction.h"

#include "graph/builder.h"

static void add_axis(ac_reduced_axes *axes, int64_t dim, int64_t stride) {
  axes->dim[axes->rank] = dim;
  axes->stride[axes->rank++] = stride;
  axes->count *= dim;
}

/* An axis, or several neighbours that are alike. */
typedef struct group {
  bool reduced;
  int64_t dim, stride;
} group;

/* The last one first; returns how many, at least one. */
static int collapse(const ac_operand *x, uint32_t axes, group groups[AC_MAX_RANK]) {
  int count = 0;
  int64_t stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    const bool reduced = axes >> d & 1;
    const int64_t dim = x->dim[d];
    if (dim == 1) continue;
    if (count && groups[count - 1].reduced == reduced) groups[count - 1].dim *= dim;
    else groups[count++] = (group){reduced, dim, stride};
    stride *= dim;
  }
  if (!count) groups[count++] = (group){true, 1, 1};
  return count;
}

static ac_reduction reduction_from(const ac_operand *x, uint32_t axes, int first) {
  group groups[AC_MAX_RANK];
  const int count = collapse(x, axes, groups);
  ac_reduction r = {.kept = {.count = 1},
                    .reduced = {.count = 1},
                    .run = groups[0].dim,
                    .run_kept = !groups[0].reduced};
  for (int i = first; i < count; i++)
    add_axis(groups[i].reduced ? &r.reduced : &r.kept, groups[i].dim, groups[i].stride);
  return r;
}

ac_reduction ac_reduction_of(const ac_operand *x, uint32_t axes) {
  return reduction_from(x, axes, 1);
}

ac_reduction ac_reduction_whole(const ac_operand *x, uint32_t axes) {
  return reduction_from(x, axes, 0);
}

ac_reduced_axes ac_reduction_results(const ac_operand *x, uint32_t axes) {
  group groups[AC_MAX_RANK];
  const int count = collapse(x, axes, groups);
  ac_reduced_axes results = {.count = 1};
  int64_t stride = groups[0].reduced ? 1 : groups[0].dim;
  for (int i = 1; i < count; i++) {
    add_axis(&results, groups[i].dim, groups[i].reduced ? 0 : stride);
    if (!groups[i].reduced) stride *= groups[i].dim;
  }
  return results;
}

/* What is wrong with axis number i; NULL: nothing. */
static const char *wrong_axis(const ac_shape *shape, const int *axes, int i, uint32_t *bits) {
  const int axis = ac_shape_axis(shape, axes[i]);
  if (axis < 0 || axis >= shape->rank) return "is none of x";
  if (axis == 0 && shape->batched) return "is the batch; only a loss adds up samples";
  if (*bits >> axis & 1) return "comes twice";
  *bits |= 1u << axis;
  return NULL;
}

ac_graph *ac_axes_begin(const ac_builder *builder, ac_tensor *x, int count, const int *axes,
                        uint32_t *bits) {
  ac_graph *graph = ac_builder_graph(builder, &x);
  if (!graph) return NULL;
  const char *wrong = NULL;
  const int first = x->shape.batched ? 1 : 0;
  *bits = 0;
  if (x->dtype != AC_F32) ac_builder_fail(graph, builder, &x, NULL);
  else if (x->shape.rank == first)
    ac_builder_fail(graph, builder, &x, "the batch is the only dimension of x");
  else if (count < 0 || (count > 0 && !axes))
    ac_builder_fail(graph, builder, &x, "%d axes at %s", count, axes ? "an address" : "NULL");
  else if (count == 0) *bits = ((1u << x->shape.rank) - 1) >> first << first;
  for (int i = 0; i < count && graph->status == AC_OK; i++)
    if ((wrong = wrong_axis(&x->shape, axes, i, bits)))
      ac_builder_fail(graph, builder, &x, "axis %d %s", axes[i], wrong);
  return graph->status == AC_OK ? graph : NULL;
}

ac_shape ac_shape_reduced(const ac_shape *shape, uint32_t axes, bool keep) {
  ac_shape y = {.batched = shape->batched};
  for (int d = 0; d < shape->rank; d++) {
    const bool reduced = axes >> d & 1;
    if (!reduced || keep) y.dim[y.rank++] = reduced ? 1 : shape->dim[d];
  }
  if (!y.rank) y.dim[y.rank++] = 1;
  return y;
}
