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

bool ac_axes_parse(const ac_shape *shape, int count, const int *axes, uint32_t *bits) {
  const int first = shape->batched ? 1 : 0;
  *bits = 0;
  if (count < 0 || (count > 0 && !axes)) return false;
  if (count == 0)
    for (int d = first; d < shape->rank; d++) *bits |= 1u << d;
  for (int i = 0; i < count; i++) {
    const int axis = axes[i] < 0 ? axes[i] + shape->rank : axes[i];
    if (axis < first || axis >= shape->rank || *bits >> axis & 1) return false;
    *bits |= 1u << axis;
  }
  return *bits != 0;
}

void ac_axes_fail(ac_graph *graph, const ac_builder *builder, ac_tensor *x, int count,
                  const int *axes) {
  const int rank = x->shape.rank;
  uint32_t seen = 0;
  if (count < 0 || (count > 0 && !axes)) {
    ac_builder_fail(graph, builder, &x, "%d axes at %s", count, axes ? "an address" : "NULL");
    return;
  }
  for (int i = 0; i < count; i++) {
    const int axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const char *wrong = axis < 0 || axis >= rank ? "is none of x"
                        : axis == 0 && x->shape.batched
                            ? "is the batch, whose samples only a loss adds up"
                        : seen >> axis & 1 ? "comes twice"
                                           : NULL;
    if (wrong) {
      ac_builder_fail(graph, builder, &x, "axis %d %s", axes[i], wrong);
      return;
    }
    seen |= 1u << axis;
  }
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
