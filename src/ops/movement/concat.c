/* concat puts tensors side by side along an axis, slice takes a part out along an axis. The
 * gradient of a part of a concatenation is the slice of dy that it became; that of a slice is dy
 * where the slice was taken, and zero elsewhere. */
#include "ops/movement/concat.h"

#include "graph/builder.h"
#include "graph/differentiate.h"

#include <string.h>

enum { MOST_PARTS = 8 };

static bool is_axis(const ac_shape *shape, int axis) {
  return axis >= (shape->batched ? 1 : 0) && axis < shape->rank;
}

/* Whether the shapes are equal except for the axis. */
static bool matches(const ac_shape *a, const ac_shape *b, int axis) {
  ac_shape other = *b;
  if (a->rank != b->rank) return false;
  other.dim[axis] = a->dim[axis];
  return ac_shape_equal(a, &other);
}

ac_tensor *ac_concat(ac_graph *graph, ac_tensor *const *parts, int count, int axis) {
  if (!AC_GIVEN(graph)) return NULL;
  const int given = !parts || count < 0 ? 0 : count < MOST_PARTS ? count : MOST_PARTS;
  const ac_builder builder = {"concat", given, {"parts[] f32"}};
  if (count < 1 || count > MOST_PARTS || !parts)
    return ac_builder_fail(graph, &builder, parts, "%d parts%s; there must be 1 to %d", count,
                           parts ? "" : " at NULL", MOST_PARTS);
  if (!ac_builder_begin(graph, &builder, parts)) return NULL;
  ac_shape shape = parts[0]->shape;
  const int at = ac_shape_axis(&shape, axis);
  if (!is_axis(&shape, at))
    return ac_builder_fail(graph, &builder, parts,
                           "there is no axis %d; give one after the batch, which is axis 0", axis);
  shape.dim[at] = 0;
  for (int i = 0; i < count; i++) {
    if (parts[i]->dtype != AC_F32 || !matches(&parts[0]->shape, &parts[i]->shape, at))
      return ac_builder_fail(graph, &builder, parts,
                             "parts[%d] is not f32, or differs elsewhere than along axis %d", i,
                             axis);
    shape.dim[at] += parts[i]->shape.dim[at];
  }
  ac_concat_attributes attributes = {at, 0};
  return ac_graph_emit(graph, AC_OP_concat, &attributes, sizeof attributes, count, parts, &shape);
}

static ac_status concat_gradient(ac_differentiation *d, const ac_node *node) {
  ac_concat_attributes attributes;
  memcpy(&attributes, node->attributes, sizeof attributes);
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  for (int i = 0; i < AC_MAX_INPUTS && node->in[i] >= 0; i++) {
    AC_TRY(
        ac_gradient_emit(d, AC_OP_slice, &attributes, sizeof attributes, 1, &dy, 1, &node->in[i]));
    attributes.first += ac_tensor_at(d->graph, node->in[i])->shape.dim[attributes.axis];
  }
  return AC_OK;
}

ac_tensor *ac_slice(ac_tensor *x, int axis, int64_t first, int64_t length) {
  static const ac_builder builder = {"slice", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  ac_shape shape = x->shape;
  const int at = ac_shape_axis(&shape, axis);
  if (x->dtype != AC_F32 || !is_axis(&shape, at) || first < 0 || length < 1 ||
      first > shape.dim[at] || length > shape.dim[at] - first)
    return ac_builder_fail(graph, &builder, &x, "cannot take %lld from %lld on along axis %d",
                           (long long)length, (long long)first, axis);
  shape.dim[at] = length;
  ac_concat_attributes attributes = {at, first};
  return ac_graph_emit(graph, AC_OP_slice, &attributes, sizeof attributes, 1, &x, &shape);
}

static ac_status slice_gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_slice_gradient, node->attributes, sizeof(ac_concat_attributes),
                          1, &dy, 1, &node->in[0]);
}

static const ac_concat_attributes sampled = {1, 0};

const ac_op_desc ac_op_desc_concat = {
    .copies_values = true,
    .gradient = concat_gradient,
    .sample = {{"8kSS", "8kSS"}, {"8KSS"}, &sampled},
};
const ac_op_desc ac_op_desc_slice = {
    .can_add = 1,
    .copies_values = true,
    .gradient = slice_gradient,
    .sample = {{"8KSS"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_slice_gradient = {
    .can_add = 1,
    .copies_values = true,
    .backward = true,
    .sample = {{"8kSS"}, {"8KSS"}, &sampled},
};
