/* Cases and references of concat and slice. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* Visits the elements of a part of `whole` that begins at index `first` of the axis. */
static void visit(const ac_op_args *args, const ac_operand *whole, const ac_operand *part,
                  int64_t first, void (*take)(double *whole, double *part)) {
  int axis = ((const ac_concat_attributes *)args->attributes)->axis;
  for (int64_t e = 0; e < part->count; e++) {
    int64_t index[AC_MAX_RANK], rest = e, at = 0;
    for (int d = part->rank - 1; d >= 0; d--) index[d] = rest % part->dim[d], rest /= part->dim[d];
    index[axis] += first;
    for (int d = 0; d < whole->rank; d++) at = at * whole->dim[d] + index[d];
    take(op_reals(whole) + at, op_reals(part) + e);
  }
}

static void to_whole(double *whole, double *part) {
  *whole = *part;
}
static void to_part(double *whole, double *part) {
  *part = *whole;
}

static int64_t first_of(const ac_op_args *args) {
  return ((const ac_concat_attributes *)args->attributes)->first;
}

static void concat(const ac_op_args *args) {
  int axis = ((const ac_concat_attributes *)args->attributes)->axis;
  int64_t first = 0;
  for (int i = 0; i < AC_MAX_INPUTS && args->in[i].count; i++) {
    visit(args, &args->out[0], &args->in[i], first, to_whole);
    first += args->in[i].dim[axis];
  }
}

static void slice(const ac_op_args *args) {
  visit(args, &args->in[0], &args->out[0], first_of(args), to_part);
}

static void slice_gradient(const ac_op_args *args) {
  for (int64_t e = 0; e < args->out[0].count; e++) op_reals(&args->out[0])[e] = 0;
  visit(args, &args->out[0], &args->in[0], first_of(args), to_whole);
}

/* A copy. */
static op_tolerance copy_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_concat = {concat, copy_error, true, false};
const op_reference op_reference_slice = {slice, copy_error, true, false};
const op_reference op_reference_slice_gradient = {slice_gradient, copy_error, true, false};

/* The gradient of part i of a concatenation is a slice that begins where the parts before end. */
#define SLICE(first_, i, axis_)                                                         \
  {                                                                                     \
    .op = AC_OP_slice, .attributes = &(const op_attributes){.concat = {axis_, first_}}, \
    .in = {OP_DY}, .of = {i}, .outputs = 1                                              \
  }
static const op_gradient of_three[] = {SLICE(0, 0, 1), SLICE(5, 1, 1), SLICE(6, 2, 1)};
static const op_gradient of_last[] = {SLICE(0, 0, 2), SLICE(7, 1, 2)};
static const op_gradient of_eight[] = {SLICE(0, 0, 0),  SLICE(1, 1, 0),  SLICE(3, 2, 0),
                                       SLICE(6, 3, 0),  SLICE(10, 4, 0), SLICE(15, 5, 0),
                                       SLICE(21, 6, 0), SLICE(28, 7, 0)};
static const op_gradient of_slice[] = {
    {.op = AC_OP_slice_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define CONCAT(name_, op_, axis_, first_, batch_, gradients_, ...)                                 \
  {                                                                                                \
    .name = name_, .op = op_, .attributes.concat = {axis_, first_}, .batch = batch_,               \
    .gradients = gradients_, .gradient_count = sizeof gradients_ / sizeof *gradients_, __VA_ARGS__ \
  }

static const op_case cases[] = {
    CONCAT("channels 5, 1 and 3", AC_OP_concat, 1, 0, 3, of_three,
           .in = {OP_F32(AC_BATCH, 5, 4, 7), OP_F32(AC_BATCH, 1, 4, 7), OP_F32(AC_BATCH, 3, 4, 7)},
           .out = {OP_F32(AC_BATCH, 9, 4, 7)}),
    CONCAT("last axis", AC_OP_concat, 2, 0, 2, of_last,
           .in = {OP_F32(AC_BATCH, 65, 7), OP_F32(AC_BATCH, 65, 258)},
           .out = {OP_F32(AC_BATCH, 65, 265)}),
    CONCAT("eight parts without a batch", AC_OP_concat, 0, 0, 1, of_eight,
           .in = {OP_F32(1, 3), OP_F32(2, 3), OP_F32(3, 3), OP_F32(4, 3), OP_F32(5, 3),
                  OP_F32(6, 3), OP_F32(7, 3), OP_F32(8, 3)},
           .out = {OP_F32(36, 3)}),
    CONCAT("slice of channels", AC_OP_slice, 1, 2, 3, of_slice, .in = {OP_F32(AC_BATCH, 9, 4, 7)},
           .out = {OP_F32(AC_BATCH, 3, 4, 7)}),
    CONCAT("slice up to the end of the last axis", AC_OP_slice, 2, 3, 2, of_slice,
           .in = {OP_F32(AC_BATCH, 33, 300)}, .out = {OP_F32(AC_BATCH, 33, 297)}),
    CONCAT("slice of everything", AC_OP_slice, 1, 0, 2, of_slice, .in = {OP_F32(AC_BATCH, 65)},
           .out = {OP_F32(AC_BATCH, 65)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  static op_attributes parts[2];
  static op_gradient gradients[2];
  ac_concat_attributes *a = &result->attributes.concat;
  a->axis = (int64_t)op_vector_attribute(vector, "axis", 1);
  a->first = (int64_t)op_vector_attribute(vector, "first", 0);
  bool slice = op_vector_attribute(vector, "slice", 0) != 0;
  result->op = slice ? AC_OP_slice : AC_OP_concat;
  result->gradients = slice ? of_slice : gradients;
  result->gradient_count = slice ? 1 : 2;
  for (int i = 0; i < 2; i++) {
    parts[i].concat = (ac_concat_attributes){a->axis, i ? result->in[0].dim[a->axis] : 0};
    gradients[i] = (op_gradient){
        .op = AC_OP_slice, .attributes = &parts[i], .in = {OP_DY}, .of = {i}, .outputs = 1};
  }
}

const op_family op_family_concat = {"concat",    cases, sizeof cases / sizeof *cases,
                                    from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= 2 && ac_shape_count(x) <= OP_DRAW_ELEMENTS / 2;
}

/* A part; parts in another order, one of them left out or taken twice; or joined to another result.
 */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int first = x->shape.batched ? 1 : 0;
  int axis = first + op_draw_below(d, x->shape.rank - first);
  int64_t size = x->shape.dim[axis], cut = op_draw_below(d, (int)size);
  ac_tensor *parts[3];
  int kind = op_draw_below(d, 3), count = 0;
  if (kind == 0) return ac_slice(x, axis, cut, 1 + op_draw_below(d, (int)(size - cut)));
  if (kind == 1) parts[count++] = op_draw_result(d, &x->shape);
  parts[count++] = ac_slice(x, axis, cut, size - cut);
  parts[count++] = op_draw_one_in(d, 2) || !cut ? x : ac_slice(x, axis, 0, cut);
  return ac_concat(x->graph, parts, count, axis);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_concat_attributes *a = forward->attributes;
  int64_t first = 0;
  int count = 0;
  if (forward->op == AC_OP_slice) return list[0] = of_slice[0], 1;
  for (; count < AC_MAX_INPUTS && forward->in[count].count; count++) {
    attributes[count].concat = (ac_concat_attributes){a->axis, first};
    list[count] = (op_gradient){.op = AC_OP_slice,
                                .attributes = &attributes[count],
                                .in = {OP_DY},
                                .of = {count},
                                .outputs = 1};
    first += forward->in[count].dim[a->axis];
  }
  return count;
}

const op_generator op_generator_concat = {.takes = takes, .build = grow, .choose = choose};
