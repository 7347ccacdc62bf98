/* concat puts tensors side by side along an axis. Up to 8 are one op; of more, the first ones are
 * followed by zeros, and concat_more puts up to 7 others into their places, in the same memory. The
 * gradient of a part is the slice of dy that it became; that of what concat_more was put into is
 * dy itself: the ops before it take their own slices of that. */
#include "ops/movement/concat.h"

#include <accrue/movement.h>

#include "graph/differentiate.h"
#include "ops/movement/move.h"
#include "ops/movement/slice.h"

#include <string.h>

/* Of one node: as many as the list of ops has letters for. */
enum { MOST_PARTS = 8 };

/* ---- builders -------------------------------------------------------------------------------- */

/* Whether the shapes are equal except for the axis. */
static bool matches(const ac_shape *a, const ac_shape *b, int axis) {
  ac_shape other = *b;
  if (a->rank != b->rank) return false;
  other.dim[axis] = a->dim[axis];
  return ac_shape_equal(a, &other);
}

/* Nodes for parts that have been checked; `as`: each is seen in this shape; NULL: in its own. */
static ac_tensor *emit(ac_graph *graph, ac_tensor *const *parts, int count, int axis,
                       const ac_shape *as, const ac_shape *shape) {
  ac_concat_attributes attributes = {axis, 0};
  ac_tensor *y = NULL;
  for (int i = 0; i < count;) {
    ac_tensor *in[MOST_PARTS];
    int n = 0;
    int64_t length = 0;
    if (y) in[n++] = y;
    for (; n < MOST_PARTS && i < count; n++, i++) {
      in[n] = as ? ac_graph_view(graph, parts[i], as) : parts[i];
      if (!in[n]) return NULL;
      length += in[n]->shape.dim[axis];
    }
    y = ac_emit_moved(graph, y ? AC_OP_concat_more : AC_OP_concat, &attributes, sizeof attributes,
                      n, in, shape);
    if (!y) return NULL;
    attributes.first += length;
  }
  return y;
}

/* What is wrong with a part by itself; NULL: nothing. */
static const char *wrong_part(const ac_graph *graph, const ac_tensor *part,
                              const ac_tensor *first) {
  if (!part) return "is missing";
  if (part->graph != graph) return "belongs to another graph";
  if (part->role == AC_ROLE_LOSS) return "is a loss, which no op takes";
  if (!ac_is_moved(part)) return "is not f32 or i32";
  return part->dtype != first->dtype ? "has another type than parts[0]" : NULL;
}

/* Whether there are parts, all good by themselves. */
static bool begin(ac_graph *graph, const ac_builder *builder, ac_tensor *const *parts, int count) {
  if (count < 1 || !parts) {
    ac_builder_fail(graph, builder, parts, "%d parts%s; there must be at least one", count,
                    parts ? "" : " at NULL");
    return false;
  }
  if (!ac_builder_begin(graph, builder, parts)) return false;
  for (int i = 0; i < count; i++) {
    const char *wrong = wrong_part(graph, parts[i], parts[0]);
    if (!wrong) continue;
    ac_builder_fail(graph, builder, parts, "parts[%d] %s", i, wrong);
    return false;
  }
  return true;
}

/* Parts that a sentence can tell of. */
static int told(ac_tensor *const *parts, int count) {
  return !parts || count < 0 ? 0 : count < MOST_PARTS ? count : MOST_PARTS;
}

ac_tensor *ac_concat(ac_graph *graph, ac_tensor *const *parts, int count, int axis) {
  if (!AC_GIVEN(graph)) return NULL;
  const ac_builder builder = {"concat", told(parts, count), {"parts[] f32 or i32"}};
  if (!begin(graph, &builder, parts, count)) return NULL;
  ac_shape shape = parts[0]->shape;
  const int at = ac_shape_axis(&shape, axis);
  if (!ac_is_axis(&shape, at))
    return ac_builder_fail(graph, &builder, parts,
                           "there is no axis %d; give one after the batch, which is axis 0", axis);
  shape.dim[at] = 0;
  for (int i = 0; i < count; i++) {
    const ac_shape *own = &parts[i]->shape;
    if (!matches(&parts[0]->shape, own, at))
      return ac_builder_fail(graph, &builder, parts,
                             "parts[%d] differs elsewhere than along axis %d", i, axis);
    if (own->dim[at] > AC_MAX_ELEMENTS - shape.dim[at])
      return ac_builder_fail(graph, &builder, parts, "the result is beyond any device");
    shape.dim[at] += own->dim[at];
  }
  return emit(graph, parts, count, at, NULL, &shape);
}

ac_tensor *ac_stack(ac_graph *graph, ac_tensor *const *parts, int count, int axis) {
  if (!AC_GIVEN(graph)) return NULL;
  const ac_builder builder = {"stack", told(parts, count), {"parts[] f32 or i32"}};
  if (!begin(graph, &builder, parts, count)) return NULL;
  ac_shape one = parts[0]->shape;
  const int at = axis < 0 ? axis + one.rank + 1 : axis;
  if (one.rank == AC_MAX_RANK || at < (one.batched ? 1 : 0) || at > one.rank)
    return ac_builder_fail(graph, &builder, parts, "axis %d cannot be a new one%s", axis,
                           one.rank == AC_MAX_RANK ? "; there are as many as can be" : "");
  for (int i = 1; i < count; i++)
    if (!ac_shape_equal(&parts[0]->shape, &parts[i]->shape))
      return ac_builder_fail(graph, &builder, parts, "parts[%d] has another shape than parts[0]",
                             i);
  for (int d = one.rank++; d > at; d--) one.dim[d] = one.dim[d - 1];
  one.dim[at] = 1;
  ac_shape shape = one;
  shape.dim[at] = count;
  return emit(graph, parts, count, at, &one, &shape);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Of parts from operand number `from` on. */
static ac_status parts_gradient(ac_differentiation *d, const ac_node *node, int from) {
  const ac_concat_attributes *a = (const void *)node->attributes;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  ac_slice_attributes slice = ac_slice_whole();
  slice.first[a->axis] = a->first;
  for (int i = from; i < AC_MAX_INPUTS && node->in[i] >= 0; i++) {
    AC_TRY(ac_gradient_emit(d, AC_OP_slice, &slice, sizeof slice, 1, &dy, 1, &node->in[i]));
    slice.first[a->axis] += ac_tensor_at(d->graph, node->in[i])->shape.dim[a->axis];
  }
  return AC_OK;
}

static ac_status concat_gradient(ac_differentiation *d, const ac_node *node) {
  return parts_gradient(d, node, 0);
}

static ac_status concat_more_gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(parts_gradient(d, node, 1));
  return ac_gradient_pass(d, node->in[0], ac_gradient_of(d, node->out[0]));
}

/* ---- description ----------------------------------------------------------------------------- */

/* What is there already stays there. */
static double more_bytes(const ac_op_args *args) {
  double bytes = 0;
  for (int i = 1; i < AC_MAX_INPUTS; i++) bytes += 2 * ac_operand_bytes(&args->in[i]);
  return bytes;
}

static const ac_concat_attributes sampled = {1, 0}, sampled_more = {1, 1};

const ac_op_desc ac_op_desc_concat = {
    .copies_values = true,
    .gradient = concat_gradient,
    .sample = {{"8kSS", "8kSS"}, {"8KSS"}, &sampled},
};
const ac_op_desc ac_op_desc_concat_more = {
    .in_place = 1,
    .copies_values = true,
    .gradient = concat_more_gradient,
    .bytes = more_bytes,
    .sample = {{"8KSS", "8kSS"}, {"8KSS"}, &sampled_more},
};
