/* Parts of a tensor: y[i, j, ...] = x[first[0] + i step[0], first[1] + j step[1], ...]. It cuts, it
 * flips (a step of -1), and beyond the ends of x, where there is a value, or x once more, it pads.
 *
 * The gradient adds each dy to the element that it was taken from. Where a part with steps of 1 or
 * -1 has each element at most once that is itself a part of dy, with zeros outside. */
#include "ops/movement/slice.h"

#include <accrue/movement.h>

#include <math.h>

#include "graph/differentiate.h"
#include "ops/movement/move.h"
#include "ops/words.h"

/* ---- slices ---------------------------------------------------------------------------------- */

ac_tensor *ac_emit_slice(ac_graph *graph, ac_tensor *x, const ac_slice_attributes *slice,
                         const ac_shape *shape) {
  const ac_slice_attributes whole = ac_slice_whole();
  bool all = ac_shape_equal(&x->shape, shape);
  for (int d = 0; d < shape->rank; d++)
    all = all && slice->first[d] == whole.first[d] && slice->step[d] == whole.step[d];
  if (all) return ac_graph_view(graph, x, shape);
  return ac_emit_moved(graph, AC_OP_slice, slice, sizeof *slice, 1, &x, shape);
}

/* Whether `length` elements from the first one on, every step-th, are all of the axis. */
static bool is_part(int64_t size, int64_t first, int64_t length, int64_t step) {
  if (first < 0 || first >= size || length < 1 || step == 0) return false;
  const int64_t room = step > 0 ? (size - 1 - first) / step : step > -size ? first / -step : 0;
  return length - 1 <= room;
}

static ac_tensor *slice(const ac_builder *builder, ac_tensor *x, int axis, int64_t first,
                        int64_t length, int64_t step) {
  ac_graph *graph = ac_builder_graph(builder, &x);
  if (!graph) return NULL;
  ac_shape shape = x->shape;
  const int at = ac_shape_axis(&shape, axis);
  if (!ac_is_moved(x) || !ac_is_axis(&shape, at) || !is_part(shape.dim[at], first, length, step))
    return step == 1
               ? ac_builder_fail(graph, builder, &x, "cannot take %lld from %lld on along axis %d",
                                 (long long)length, (long long)first, axis)
               : ac_builder_fail(graph, builder, &x,
                                 "cannot take %lld from %lld on in steps of %lld along axis "
                                 "%d",
                                 (long long)length, (long long)first, (long long)step, axis);
  ac_slice_attributes attributes = ac_slice_whole();
  shape.dim[at] = length;
  attributes.first[at] = first;
  attributes.step[at] = length == 1 ? 1 : step;
  return ac_emit_slice(graph, x, &attributes, &shape);
}

ac_tensor *ac_slice(ac_tensor *x, int axis, int64_t first, int64_t length) {
  static const ac_builder builder = {"slice", 1, {"x f32 or i32"}};
  return slice(&builder, x, axis, first, length, 1);
}

ac_tensor *ac_slice_step(ac_tensor *x, int axis, int64_t first, int64_t length, int64_t step) {
  static const ac_builder builder = {"slice_step", 1, {"x f32 or i32"}};
  return slice(&builder, x, axis, first, length, step);
}

/* The sizes of all parts if they are good; `equal`: of each. */
static bool fill_axis(int64_t size, int count, const int64_t *sizes, int64_t *equal) {
  *equal = count > 0 && size % count == 0 ? size / count : 0;
  if (!sizes) return *equal > 0;
  for (int i = 0; i < count; i++) {
    if (sizes[i] < 1 || sizes[i] > size) return false;
    size -= sizes[i];
  }
  return count > 0 && size == 0;
}

void ac_split(ac_tensor *x, int axis, int count, const int64_t *sizes, ac_tensor **parts) {
  static const ac_builder builder = {"split", 1, {"x f32 or i32"}};
  for (int i = 0; parts && i < count; i++) parts[i] = NULL;
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return;
  const int at = ac_shape_axis(&x->shape, axis);
  int64_t first = 0, equal = 0;
  if (!parts) ac_builder_fail(graph, &builder, &x, "there is no room for the parts");
  else if (!ac_is_moved(x)) ac_builder_fail(graph, &builder, &x, NULL);
  else if (!ac_is_axis(&x->shape, at))
    ac_builder_fail(graph, &builder, &x, "there is no axis %d; give one after the batch", axis);
  else if (!fill_axis(x->shape.dim[at], count, sizes, &equal))
    ac_builder_fail(graph, &builder, &x, "%d %s do not make up axis %d", count,
                    sizes ? "sizes" : "equal parts", axis);
  for (int i = 0; graph->status == AC_OK && i < count; i++) {
    const int64_t length = sizes ? sizes[i] : equal;
    parts[i] = slice(&builder, x, axis, first, length, 1);
    first += length;
  }
}

ac_tensor *ac_flip(ac_tensor *x, int count, const int *axes) {
  static const ac_builder builder = {"flip", 1, {"x f32 or i32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (!ac_is_moved(x)) return ac_builder_fail(graph, &builder, &x, NULL);
  if (count < 0 || (count > 0 && !axes))
    return ac_builder_fail(graph, &builder, &x, "%d axes%s", count, axes ? "" : " at NULL");
  ac_slice_attributes attributes = ac_slice_whole();
  bool flipped[AC_MAX_RANK] = {false};
  for (int i = 0; i < (count ? count : x->shape.rank); i++) {
    const int axis = count ? ac_shape_axis(&x->shape, axes[i]) : i;
    if (!count && axis == 0 && x->shape.batched) continue;
    if (!ac_is_axis(&x->shape, axis) || flipped[axis])
      return ac_builder_fail(graph, &builder, &x, "axis %d %s", axes[i],
                             !ac_is_axis(&x->shape, axis) ? "is none of x, or the batch"
                                                          : "comes twice");
    flipped[axis] = true;
    if (x->shape.dim[axis] == 1) continue;
    attributes.first[axis] = x->shape.dim[axis] - 1;
    attributes.step[axis] = -1;
  }
  return ac_emit_slice(graph, x, &attributes, &x->shape);
}

/* ---- padding --------------------------------------------------------------------------------- */

/* What is wrong with the padding of an axis; NULL: nothing. */
static const char *wrong_padding(const ac_shape *shape, int axis, const ac_pad_desc *desc) {
  const int64_t before = desc->before[axis], after = desc->after[axis];
  if (axis >= shape->rank) return before || after ? "is none of x" : NULL;
  if (before < 0 || after < 0) return "has less than nothing; ac_slice takes a part";
  if (axis == 0 && shape->batched) return before || after ? "is the batch" : NULL;
  if (before > AC_MAX_ELEMENTS || after > AC_MAX_ELEMENTS) return "gets beyond any device";
  if (desc->mode == AC_PAD_REFLECT && (before >= shape->dim[axis] || after >= shape->dim[axis]))
    return "is too short to be reflected that far";
  return NULL;
}

ac_tensor *ac_pad(ac_tensor *x, const ac_pad_desc *desc) {
  static const ac_builder builder = {"pad", 1, {"x f32"}};
  const ac_pad_desc described = AC_DESCRIBED(ac_pad_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, &builder, &x, NULL);
  if ((unsigned)described.mode > AC_PAD_EDGE)
    return ac_builder_fail(graph, &builder, &x, "unknown mode %d", (int)described.mode);
  if (!isfinite(described.value))
    return ac_builder_fail(graph, &builder, &x, "the value %g is not finite",
                           (double)described.value);
  ac_shape shape = x->shape;
  ac_slice_attributes attributes = ac_slice_whole();
  attributes.outside = described.mode == AC_PAD_REFLECT ? AC_OUTSIDE_REFLECTED
                       : described.mode == AC_PAD_EDGE  ? AC_OUTSIDE_EDGE
                                                        : AC_OUTSIDE_VALUE;
  attributes.value = described.value;
  for (int d = 0; d < AC_MAX_RANK; d++) {
    const char *wrong = wrong_padding(&x->shape, d, &described);
    if (wrong)
      return ac_builder_fail(graph, &builder, &x, "axis %d, padded by %lld and %lld, %s", d,
                             (long long)described.before[d], (long long)described.after[d], wrong);
    if (d >= shape.rank) continue;
    shape.dim[d] += described.before[d] + described.after[d];
    attributes.first[d] = -described.before[d];
  }
  return ac_emit_slice(graph, x, &attributes, &shape);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The part of dy that the gradient of x is, if it is one. */
static bool turn(const ac_slice_attributes *a, int rank, ac_slice_attributes *back) {
  *back = ac_slice_whole();
  if (a->outside != AC_OUTSIDE_VALUE) return false;
  for (int d = 0; d < rank; d++) {
    if (a->step[d] != 1 && a->step[d] != -1) return false;
    back->step[d] = a->step[d];
    back->first[d] = a->step[d] > 0 ? -a->first[d] : a->first[d];
  }
  return true;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  const ac_slice_attributes *a = (const void *)node->attributes;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  ac_slice_attributes back;
  const bool turned = turn(a, ac_tensor_at(d->graph, node->in[0])->shape.rank, &back);
  return ac_gradient_emit(d, turned ? AC_OP_slice : AC_OP_slice_gradient, turned ? &back : a,
                          sizeof *a, 1, &dy, 1, &node->in[0]);
}

/* ---- for kernels ----------------------------------------------------------------------------- */

static bool is_whole(const ac_sliced_axis *a) {
  return a->first == 0 && a->step == 1 && a->whole == a->part;
}

ac_sliced_axes ac_sliced_axes_of(const ac_operand *whole, const ac_operand *part,
                                 const ac_slice_attributes *a) {
  ac_sliced_axes s = {.inner = 1};
  bool last_is_whole = false;
  for (int d = 0; d < whole->rank; d++) {
    const ac_sliced_axis axis = {whole->dim[d], part->dim[d], a->first[d], a->step[d]};
    const bool all = is_whole(&axis);
    if (all && axis.whole == 1) continue;
    if (all && last_is_whole) {
      s.axis[s.rank - 1].whole *= axis.whole;
      s.axis[s.rank - 1].part *= axis.part;
    } else {
      s.axis[s.rank++] = axis;
    }
    last_is_whole = all;
  }
  if (s.rank > 1 && last_is_whole) s.inner = s.axis[--s.rank].whole;
  if (!s.rank) s.axis[s.rank++] = (ac_sliced_axis){1, 1, 0, 1};
  return s;
}

/* ---- description ----------------------------------------------------------------------------- */

static void words(ac_words *words, const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  for (int d = 0; d < args->in[0].rank; d++)
    if (a->step[d] != 1) ac_words_put(words, ", steps of %lld", (long long)a->step[d]);
  if (a->outside != AC_OUTSIDE_VALUE)
    ac_words_put(words, a->outside == AC_OUTSIDE_EDGE ? ", edge" : ", reflected");
}

/* What was a part of the other operand, at most all of it, moves. */
static double bytes(const ac_op_args *args) {
  const double y = ac_operand_bytes(&args->out[0]), x = ac_operand_bytes(&args->in[0]);
  return y + (x < y ? x : y) * (args->add[0] ? 2 : 1);
}

static const ac_slice_attributes sampled = {.step = {1, 1, 1, 1}},
                                 sampled_steps = {.step = {1, 2, 1, 1}};

const ac_op_desc ac_op_desc_slice = {
    .can_add = 1,
    .copies_values = true,
    .gradient = gradient,
    .bytes = bytes,
    .words = words,
    .sample = {{"8KSS"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_slice_gradient = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 1,
    .words = words,
    .sample = {{"8kSS"}, {"8KSS"}, &sampled_steps},
};
