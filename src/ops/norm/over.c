/* Norms over chosen axes, by norms of rows. Neighbouring axes that are alike are one. If those that
 * are normalised are the last ones, all this is another view; otherwise a copy has them there, and
 * another one brings the result back. */
#include "ops/norm/norm.h"

typedef struct order {
  ac_shape shape;                           /* of neighbours that are alike */
  bool chosen[AC_MAX_RANK];                 /* by axis of this shape */
  int from[AC_MAX_RANK], back[AC_MAX_RANK]; /* axes: of the view moved, and of that moved back */
  bool moved;
  int64_t size; /* of what is chosen */
} order;

/* The axes as bits; none at all are all but the batch. False with the failure recorded. */
static bool read_axes(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands,
                      int count, const int *axes, uint32_t *bits) {
  const ac_shape *shape = &operands[0]->shape;
  *bits = 0;
  if (count < 0 || (count && !axes)) {
    ac_builder_fail(graph, builder, operands, "%d axes at %s", count, axes ? "an address" : "NULL");
    return false;
  }
  for (int i = shape->batched; !count && i < shape->rank; i++) *bits |= 1u << i;
  for (int i = 0; i < count; i++) {
    const int axis = ac_shape_axis(shape, axes[i]);
    const char *fault = axis < 0 || axis >= shape->rank ? "is none of its axes"
                        : axis == 0 && shape->batched   ? "is the batch"
                        : *bits >> axis & 1             ? "is there twice"
                                                        : NULL;
    if (fault) {
      ac_builder_fail(graph, builder, operands, "axis %d %s", axes[i], fault);
      return false;
    }
    *bits |= 1u << axis;
  }
  if (*bits) return true;
  ac_builder_fail(graph, builder, operands, "there is no axis but the batch");
  return false;
}

static order order_of(const ac_shape *shape, uint32_t axes) {
  order o = {.shape = {.batched = shape->batched}, .size = 1};
  int last = -1;
  for (int i = 0; i < shape->rank; i++) {
    const bool chosen = axes >> i & 1;
    if (chosen) o.size *= shape->dim[i];
    if (last >= 0 && o.chosen[last] == chosen && !(last == 0 && shape->batched)) {
      o.shape.dim[last] *= shape->dim[i];
      continue;
    }
    o.shape.dim[++last] = shape->dim[i];
    o.chosen[last] = chosen;
  }
  o.shape.rank = last + 1;
  return o;
}

/* What is left comes first, then what is chosen, each in its order. Returns the view with its axes
 * in this order, or unchanged. */
static ac_tensor *move(order *o, ac_tensor *x) {
  const int rank = o->shape.rank;
  int count = 0;
  for (int chosen = 0; chosen < 2; chosen++)
    for (int i = 0; i < rank; i++)
      if (o->chosen[i] == chosen) {
        o->back[i] = count;
        o->moved = o->moved || i != count;
        o->from[count++] = i;
      }
  return o->moved ? ac_permute(x, rank, o->from) : x;
}

static bool has_shape(const ac_tensor *vector, const ac_shape *x, uint32_t axes) {
  ac_shape shape = {.rank = 0};
  for (int i = 0; i < x->rank; i++)
    if (axes >> i & 1) shape.dim[shape.rank++] = x->dim[i];
  return !vector || (vector->dtype == AC_F32 && ac_shape_equal(&vector->shape, &shape));
}

ac_tensor *ac_norm_over(const ac_builder *builder, ac_tensor *const *operands, int count,
                        const int *axes, float epsilon, ac_row_norm norm) {
  ac_graph *graph = ac_builder_graph(builder, operands);
  uint32_t bits;
  if (!graph || !read_axes(graph, builder, operands, count, axes, &bits)) return NULL;
  ac_tensor *x = operands[0], *rows[3] = {NULL};
  if (x->dtype != AC_F32) return ac_builder_fail(graph, builder, operands, NULL);
  order o = order_of(&x->shape, bits);
  const ac_shape vector = {.rank = 1, .dim = {o.size}}, whole = x->shape;
  for (int i = 1; i < builder->count; i++) {
    if (!has_shape(operands[i], &x->shape, bits))
      return ac_builder_fail(graph, builder, operands, NULL);
    if (operands[i]) rows[i] = ac_graph_view(graph, operands[i], &vector);
  }
  if (!ac_norm_epsilon(graph, builder, operands, &epsilon)) return NULL;
  rows[0] = move(&o, ac_graph_view(graph, x, &o.shape));
  if (!rows[0]) return NULL;
  const ac_shape moved = rows[0]->shape;
  ac_shape flat = {.batched = moved.batched};
  for (int i = 0; i < moved.rank; i++)
    if (!o.chosen[i]) flat.dim[flat.rank] = moved.dim[flat.rank], flat.rank++;
  flat.dim[flat.rank++] = o.size;
  rows[0] = ac_graph_view(graph, rows[0], &flat);
  ac_tensor *y = rows[0] ? norm(graph, rows, epsilon) : NULL;
  if (y) y = ac_graph_view(graph, y, &moved);
  if (y && o.moved) y = ac_permute(y, o.shape.rank, o.back);
  return y ? ac_graph_view(graph, y, &whole) : NULL;
}
