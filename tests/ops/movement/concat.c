/* Cases and references of concat. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* Puts parts from operand `from` on side by side. */
static void put_parts(const ac_op_args *args, int from) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  int64_t first = a->first;
  for (int i = from; i < AC_MAX_INPUTS && args->in[i].count; i++) {
    const ac_operand *x = &args->in[i];
    for (int64_t e = 0; e < x->count; e++) {
      int64_t index[AC_MAX_RANK], rest = e, at = 0;
      for (int d = x->rank - 1; d >= 0; d--) index[d] = rest % x->dim[d], rest /= x->dim[d];
      index[a->axis] += first;
      for (int d = 0; d < y->rank; d++) at = at * y->dim[d] + index[d];
      op_reals(y)[at] = op_value(x, e);
    }
    first += x->dim[a->axis];
  }
}

static void concat(const ac_op_args *args) {
  for (int64_t e = 0; e < args->out[0].count; e++) op_reals(&args->out[0])[e] = 0;
  put_parts(args, 0);
}

static void concat_more(const ac_op_args *args) {
  for (int64_t e = 0; e < args->out[0].count; e++)
    op_reals(&args->out[0])[e] = op_value(&args->in[0], e);
  put_parts(args, 1);
}

/* A copy. */
static op_tolerance copy_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_concat = {concat, copy_error, true, false};
const op_reference op_reference_concat_more = {concat_more, copy_error, true, false};

/* The gradient of a part is a slice that begins where the parts before end. */
#define STEPS .step = {1, 1, 1, 1, 1, 1}
#define SLICE(i, ...)                                                                              \
  {                                                                                                \
    .op = AC_OP_slice,                                                                             \
    .attributes = &(const op_attributes){.slice = {.first = {__VA_ARGS__}, STEPS}}, .in = {OP_DY}, \
    .of = {i}, .outputs = 1                                                                        \
  }
static const op_gradient of_three[] = {SLICE(0, 0), SLICE(1, 0, 5), SLICE(2, 0, 6)};
static const op_gradient of_last[] = {SLICE(0, 0), SLICE(1, 0, 0, 7)};
static const op_gradient of_eight[] = {SLICE(0, 0),  SLICE(1, 1),  SLICE(2, 3),  SLICE(3, 6),
                                       SLICE(4, 10), SLICE(5, 15), SLICE(6, 21), SLICE(7, 28)};
static const op_gradient of_more[] = {SLICE(1, 0, 3), SLICE(2, 0, 5)};

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
    CONCAT("with room after them", AC_OP_concat, 2, 0, 2, of_last,
           .in = {OP_F32(AC_BATCH, 5, 7), OP_F32(AC_BATCH, 5, 2)},
           .out = {OP_F32(AC_BATCH, 5, 65)}),
    CONCAT("eight parts without a batch", AC_OP_concat, 0, 0, 1, of_eight,
           .in = {OP_F32(1, 3), OP_F32(2, 3), OP_F32(3, 3), OP_F32(4, 3), OP_F32(5, 3),
                  OP_F32(6, 3), OP_F32(7, 3), OP_F32(8, 3)},
           .out = {OP_F32(36, 3)}),
    CONCAT("two more", AC_OP_concat_more, 1, 3, 3, of_more,
           .in = {OP_F32(AC_BATCH, 9, 7), OP_F32(AC_BATCH, 2, 7), OP_F32(AC_BATCH, 3, 7)},
           .out = {OP_F32(AC_BATCH, 9, 7)}),
    {.name = "integers",
     .op = AC_OP_concat,
     .attributes.concat = {1, 0},
     .batch = 3,
     .in = {OP_IDS(1 << 30, AC_BATCH, 2), OP_IDS(1 << 30, AC_BATCH, 7)},
     .out = {OP_IDS(1 << 30, AC_BATCH, 12)}},
};

static void set_part(op_gradient *gradient, op_attributes *attributes, int part, int axis,
                     int64_t first) {
  *gradient = (op_gradient){
      .op = AC_OP_slice, .attributes = attributes, .in = {OP_DY}, .of = {part}, .outputs = 1};
  attributes->slice = (ac_slice_attributes){STEPS};
  attributes->slice.first[axis] = first;
}

static void from_vector(op_case *result, const op_vector *vector) {
  static op_attributes parts[2];
  static op_gradient gradients[2];
  ac_concat_attributes *a = &result->attributes.concat;
  a->axis = (int64_t)op_vector_attribute(vector, "axis", 1);
  result->op = AC_OP_concat;
  result->gradients = gradients;
  result->gradient_count = 2;
  for (int i = 0; i < 2; i++)
    set_part(&gradients[i], &parts[i], i, a->axis, i ? result->in[0].dim[a->axis] : 0);
}

const op_family op_family_concat = {"concat",    cases, sizeof cases / sizeof *cases,
                                    from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= 2 && ac_shape_count(x) <= OP_DRAW_ELEMENTS / 12;
}

/* Parts in another order, one of them left out or taken twice; joined to another result; more than
 * one op can take; or stacked. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int first = x->shape.batched ? 1 : 0,
            axis = first + op_draw_below(d, x->shape.rank - first);
  const int64_t size = x->shape.dim[axis], cut = op_draw_below(d, (int)size);
  ac_tensor *parts[12];
  const int kind = op_draw_below(d, 4);
  int count = 0;
  if (kind == 0) parts[count++] = op_draw_result(d, &x->shape);
  if (kind == 1 && x->shape.rank < AC_MAX_RANK) {
    const int most = 1 + op_draw_below(d, 12);
    for (; count < most; count++) parts[count] = count % 3 ? x : ac_relu(x);
    return ac_stack(x->graph, parts, count, axis);
  }
  parts[count++] = ac_slice(x, axis, cut, size - cut);
  parts[count++] = op_draw_one_in(d, 2) || !cut ? x : ac_slice(x, axis, 0, cut);
  for (; kind == 2 && count < 12; count++) parts[count] = count % 3 ? x : ac_square(x);
  return ac_concat(x->graph, parts, count, axis);
}

/* What more was put into gets all of dy: that its producers take their own parts of it is theirs.
 */
static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_concat_attributes *a = forward->attributes;
  const bool more = forward->op == AC_OP_concat_more;
  int64_t first = a->first;
  int count = 0;
  for (; count < AC_MAX_INPUTS && forward->in[count].count; count++) {
    const bool whole = more && count == 0;
    set_part(&list[count], &attributes[count], count, a->axis, whole ? 0 : first);
    if (!whole) first += forward->in[count].dim[a->axis];
  }
  return count;
}

const op_generator op_generator_concat = {.takes = takes, .build = grow, .choose = choose};
