/* Movement that other ops make: repetition is what functions of elements do with their operands,
 * squares of pixels are a permutation, a bag is a sum of rows with weights. */
#include <accrue/movement.h>
#include <accrue/reduction.h>

#include "ops/movement/move.h"
#include "ops/pointwise/elementwise.h"

#include <string.h>

/* ---- expand ---------------------------------------------------------------------------------- */

/* The shape with dimensions of 0 taken from x. */
static bool resolve(const ac_shape *x, int rank, const int64_t *dim, ac_shape *shape) {
  int64_t resolved[AC_MAX_RANK];
  if (rank < x->rank || rank > AC_MAX_RANK || !dim) return false;
  for (int i = 0; i < rank; i++) {
    const int own = i - (rank - x->rank);
    resolved[i] = dim[i];
    if (dim[i] == 0 && own >= 0)
      resolved[i] = own == 0 && x->batched ? AC_BATCH_TIMES(x->dim[0]) : x->dim[own];
  }
  return ac_shape_parse(shape, rank, resolved);
}

/* Whether NumPy's rules repeat x to the shape. */
static bool is_repeated_to(const ac_shape *x, const ac_shape *shape) {
  if (x->batched && (!shape->batched || x->rank < shape->rank || x->dim[0] != shape->dim[0]))
    return false;
  for (int k = 1; k <= x->rank; k++) {
    const int64_t own = x->dim[x->rank - k];
    const bool batch = shape->batched && k == shape->rank;
    if (batch && !x->batched && own != 1) return false;
    if (own != 1 && own != shape->dim[shape->rank - k]) return false;
  }
  return true;
}

ac_tensor *ac_expand(ac_tensor *x, int rank, const int64_t *dim) {
  static const ac_builder builder = {"expand", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  ac_shape shape;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, &builder, &x, NULL);
  if (!resolve(&x->shape, rank, dim, &shape) || !is_repeated_to(&x->shape, &shape))
    return ac_builder_fail(graph, &builder, &x,
                           "x cannot be repeated to the shape: from the last dimension backwards "
                           "its own must be equal, or 1, or absent");
  if (ac_shape_equal(&x->shape, &shape)) return ac_graph_view(graph, x, &shape);
  ac_program program;
  const int same = 0;
  ac_program_begin(&program, 1);
  ac_program_end(&program, 1, &same, NULL);
  ac_pointwise_attributes attributes = ac_pointwise_attributes_of(&program, &x, &shape);
  attributes.title = ac_pointwise_title(builder.name);
  return ac_graph_emit(graph, AC_OP_pointwise, &attributes, sizeof attributes, 1, &x, &shape);
}

/* ---- embedding bag --------------------------------------------------------------------------- */

/* Whether b is a without its last dimension. */
static bool lacks_last(const ac_shape *a, const ac_shape *b) {
  ac_shape shape = *a;
  shape.rank--;
  return ac_shape_equal(&shape, b);
}

/* rows [..., L, C] times w [..., L], summed over L. */
static ac_tensor *weighted_sum(ac_tensor *rows, ac_tensor *w) {
  int64_t dim[AC_MAX_RANK];
  const ac_shape *s = &w->shape;
  for (int d = 0; d < s->rank; d++) dim[d] = s->dim[d];
  if (s->batched) dim[0] = AC_BATCH_TIMES(s->dim[0]);
  dim[s->rank] = dim[s->rank - 1];
  dim[s->rank - 1] = 1;
  ac_tensor *y = ac_matmul(ac_reshape(w, s->rank + 1, dim), rows, false, false);
  if (!y) return NULL;
  dim[s->rank - 1] = rows->shape.dim[rows->shape.rank - 1];
  return ac_reshape(y, s->rank, dim);
}

/* The largest of the rows that a mask [..., L] has ones for; zeros if there is none. */
static ac_tensor *masked_max(ac_graph *graph, ac_tensor *rows, ac_tensor *mask, ac_tensor *count) {
  int64_t dim[AC_MAX_RANK];
  const ac_shape *s = &mask->shape;
  for (int d = 0; d < s->rank; d++) dim[d] = s->dim[d];
  if (s->batched) dim[0] = AC_BATCH_TIMES(s->dim[0]);
  dim[s->rank] = 1;
  ac_tensor *shown[] = {ac_reshape(mask, s->rank + 1, dim), rows};
  ac_tensor *y[] = {
      count, ac_max(ac_formula(graph, "where(a, b, -3.4028234e38)", shown, 2), AC_AXES(-2), false)};
  return ac_formula(graph, "where(a, b, 0)", y, 2);
}

ac_tensor *ac_embedding_bag(ac_tensor *table, ac_tensor *ids, ac_tensor *lengths,
                            ac_tensor *weights, const ac_embedding_bag_desc *desc) {
  static const ac_builder builder = {
      "embedding_bag",
      4,
      {"table f32 [V, C]", "ids i32 [..., L]", "lengths? i32 [...]", "weights? f32 [..., L]"}};
  ac_tensor *operands[] = {table, ids, lengths, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const ac_bag_mode mode = desc ? desc->mode : AC_BAG_SUM;
  const ac_shape *s = &ids->shape;
  if (table->dtype != AC_F32 || table->shape.rank != 2 || table->shape.batched ||
      ids->dtype != AC_I32 || s->rank < 2 || s->rank >= AC_MAX_RANK ||
      (lengths && (lengths->dtype != AC_I32 || !lacks_last(s, &lengths->shape))) ||
      (weights && (weights->dtype != AC_F32 || !ac_shape_equal(s, &weights->shape))))
    return ac_builder_fail(graph, &builder, operands, NULL);
  if ((unsigned)mode > AC_BAG_MAX)
    return ac_builder_fail(graph, &builder, operands, "unknown mode %d", (int)mode);
  if (weights && mode != AC_BAG_SUM)
    return ac_builder_fail(graph, &builder, operands, "only a sum can have weights");
  ac_tensor *rows = ac_embedding(table, ids);
  ac_tensor *mask = lengths ? ac_length_mask(lengths, ac_shape_last(s)) : NULL;
  ac_tensor *count = mask ? ac_sum(mask, AC_AXES(-1), true) : NULL;
  if (graph->status != AC_OK) return NULL;
  if (mode == AC_BAG_MAX)
    return mask ? masked_max(graph, rows, mask, count) : ac_max(rows, AC_AXES(-2), false);
  ac_tensor *w = mask && weights ? ac_multiply(mask, weights) : mask ? mask : weights;
  if (mode == AC_BAG_MEAN)
    return w ? ac_divide(weighted_sum(rows, w), ac_clamp(count, 1, (float)ac_shape_last(s)))
             : ac_mean(rows, AC_AXES(-2), false);
  return w ? weighted_sum(rows, w) : ac_sum(rows, AC_AXES(-2), false);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* [B, C, H, W] -> the shape `split` with axes in another order -> the shape `joined`. */
static ac_tensor *rearrange(ac_tensor *x, const int64_t split[6], const int axes[6],
                            const int64_t joined[4]) {
  return ac_reshape(ac_permute(ac_reshape(x, 6, split), 6, axes), 4, joined);
}

static bool takes_images(const ac_builder *builder, ac_tensor **x, int factor, ac_graph **graph) {
  *graph = ac_builder_graph(builder, x);
  if (!*graph) return false;
  if ((*x)->dtype != AC_F32 || (*x)->shape.rank != 4) ac_builder_fail(*graph, builder, x, NULL);
  else if (factor < 1 || factor > 1 << 15)
    ac_builder_fail(*graph, builder, x, "the factor is %d", factor);
  return (*graph)->status == AC_OK;
}

/* The first dimension as builders take it. */
static int64_t images_of(const ac_shape *x) {
  return x->batched ? AC_BATCH_TIMES(x->dim[0]) : x->dim[0];
}

ac_tensor *ac_pixel_shuffle(ac_tensor *x, int factor) {
  static const ac_builder builder = {"pixel_shuffle", 1, {"x f32 [B, C, H, W]"}};
  ac_graph *graph;
  if (!takes_images(&builder, &x, factor, &graph)) return NULL;
  const int64_t B = images_of(&x->shape), C = x->shape.dim[1], H = x->shape.dim[2],
                W = x->shape.dim[3], f = factor;
  if (C % (f * f))
    return ac_builder_fail(graph, &builder, &x, "%d x %d does not divide the channels", factor,
                           factor);
  static const int axes[] = {0, 1, 4, 2, 5, 3};
  return rearrange(x, (const int64_t[]){B, C / (f * f), f, f, H, W}, axes,
                   (const int64_t[]){B, C / (f * f), H * f, W * f});
}

ac_tensor *ac_pixel_unshuffle(ac_tensor *x, int factor) {
  static const ac_builder builder = {"pixel_unshuffle", 1, {"x f32 [B, C, H, W]"}};
  ac_graph *graph;
  if (!takes_images(&builder, &x, factor, &graph)) return NULL;
  const int64_t B = images_of(&x->shape), C = x->shape.dim[1], H = x->shape.dim[2],
                W = x->shape.dim[3], f = factor;
  if (H % f || W % f)
    return ac_builder_fail(graph, &builder, &x, "%d does not divide height and width", factor);
  static const int axes[] = {0, 1, 3, 5, 2, 4};
  return rearrange(x, (const int64_t[]){B, C, H / f, f, W / f, f}, axes,
                   (const int64_t[]){B, C * f * f, H / f, W / f});
}

/* ---- gradients ------------------------------------------------------------------------------- */

ac_tensor *ac_stop_gradient(ac_tensor *x) {
  static const ac_builder builder = {"stop_gradient", 1, {"x"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  ac_tensor *view = graph ? ac_graph_view(graph, x, &x->shape) : NULL;
  if (!view) return NULL;
  view->requires_gradient = false;
  view->stopped = true;
  return view;
}
