/* Cases and references of slice. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* Where element e of a part was taken from; -1: outside. */
static int64_t origin(const ac_slice_attributes *a, const ac_operand *whole, const ac_operand *part,
                      int64_t e) {
  int64_t at = 0, step = 1;
  bool outside = false;
  for (int d = part->rank - 1; d >= 0; d--) {
    const int64_t n = whole->dim[d];
    int64_t i = a->first[d] + e % part->dim[d] * a->step[d];
    e /= part->dim[d];
    if (i < 0 || i >= n) {
      if (a->outside == AC_OUTSIDE_REFLECTED) i = i < 0 ? -i : 2 * n - 2 - i;
      else if (a->outside == AC_OUTSIDE_EDGE) i = i < 0 ? 0 : n - 1;
      else outside = true;
    }
    at += i * step;
    step *= n;
  }
  return outside ? -1 : at;
}

static void slice(const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  for (int64_t e = 0; e < y->count; e++) {
    const int64_t at = origin(a, x, y, e);
    op_reals(y)[e] = at < 0 ? op_round(y->dtype, (double)a->value) : op_value(x, at);
  }
}

static void slice_gradient(const ac_op_args *args) {
  const ac_slice_attributes *a = args->attributes;
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  for (int64_t e = 0; e < dx->count; e++) op_reals(dx)[e] = 0;
  for (int64_t e = 0; e < dy->count; e++) {
    const int64_t at = origin(a, dx, dy, e);
    if (at >= 0) op_reals(dx)[at] += op_reals(dy)[e];
  }
}

/* A copy. */
static op_tolerance copy_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

/* An element is taken at most once for each that is outside, and once. */
static op_tolerance gradient_error(const ac_op_args *args, int output) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  int64_t terms = 1;
  (void)output;
  for (int d = 0; d < dx->rank; d++)
    if (dy->dim[d] > dx->dim[d]) terms *= 1 + dy->dim[d] - dx->dim[d];
  return (op_tolerance){terms > 1 ? 1 : 0, terms > 1 ? op_sum_error(terms) : 0};
}

const op_reference op_reference_slice = {slice, copy_error, true, false};
const op_reference op_reference_slice_gradient = {slice_gradient, gradient_error, true, false};

/* A part of dy where no more is needed. */
#define TURNED(name, ...)                                                                         \
  static const op_gradient name[] = {{.op = AC_OP_slice,                                          \
                                      .attributes = &(const op_attributes){.slice = __VA_ARGS__}, \
                                      .in = {OP_DY},                                              \
                                      .of = {0},                                                  \
                                      .outputs = 1}};
static const op_gradient added[] = {
    {.op = AC_OP_slice_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};
#define LIST(...) \
  { __VA_ARGS__ }
#define PART(first_, step_, outside_, value_) \
  { .first = first_, .step = step_, .outside = outside_, .value = value_ }

#define SLICE(name_, attributes_, batch_, gradients_, ...)                              \
  {                                                                                     \
    .name = name_, .op = AC_OP_slice, .attributes.slice = attributes_, .batch = batch_, \
    .gradients = gradients_, .gradient_count = 1, __VA_ARGS__                           \
  }
#define ONES LIST(1, 1, 1, 1, 1, 1)

TURNED(of_channels, PART(LIST(0, -2), ONES, 0, 0))
TURNED(of_end, PART(LIST(0, 0, -3), ONES, 0, 0))
TURNED(of_flip, PART(LIST(0, 4, 0, 6), LIST(1, -1, 1, -1), 0, 0))
TURNED(of_flipped_part, PART(LIST(0, 5), LIST(1, -1, 1), 0, 0))
TURNED(of_padding, PART(LIST(0, 0, 2, 1), ONES, 0, 0))
TURNED(of_rows, PART(LIST(3), ONES, 0, 0))

static const op_case cases[] = {
    SLICE("channels", PART(LIST(0, 2), ONES, 0, 0), 3, of_channels,
          .in = {OP_F32(AC_BATCH, 9, 4, 7)}, .out = {OP_F32(AC_BATCH, 3, 4, 7)}),
    SLICE("up to the end of the last axis", PART(LIST(0, 0, 3), ONES, 0, 0), 2, of_end,
          .in = {OP_F32(AC_BATCH, 33, 300)}, .out = {OP_F32(AC_BATCH, 33, 297)}),
    SLICE("every third", PART(LIST(0, 1, 1), LIST(1, 3, 3), 0, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 8, 600)}, .out = {OP_F32(AC_BATCH, 3, 200)}),
    SLICE("backwards in steps of 2", PART(LIST(0, 6), LIST(1, -2, 1), 0, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 8, 5)}, .out = {OP_F32(AC_BATCH, 3, 5)}),
    SLICE("backwards in steps of 3, the last axis", PART(LIST(0, 0, 640), LIST(1, 1, -3), 0, 0), 2,
          added, .in = {OP_F32(AC_BATCH, 2, 650)}, .out = {OP_F32(AC_BATCH, 2, 200)}),
    SLICE("flipped channels and columns", PART(LIST(0, 4, 0, 6), LIST(1, -1, 1, -1), 0, 0), 2,
          of_flip, .in = {OP_F32(AC_BATCH, 5, 3, 7)}, .out = {OP_F32(AC_BATCH, 5, 3, 7)}),
    SLICE("a flipped part", PART(LIST(0, 5), LIST(1, -1, 1), 0, 0), 2, of_flipped_part,
          .in = {OP_F32(AC_BATCH, 9, 65)}, .out = {OP_F32(AC_BATCH, 4, 65)}),
    SLICE("padded by 1.5", PART(LIST(0, 0, -2, -1), ONES, 0, 1.5f), 2, of_padding,
          .in = {OP_F32(AC_BATCH, 3, 5, 7)}, .out = {OP_F32(AC_BATCH, 3, 8, 10)}),
    SLICE("rows before a matrix", PART(LIST(-3), ONES, 0, 0), 1, of_rows, .in = {OP_F32(5, 65)},
          .out = {OP_F32(8, 65)}),
    SLICE("reflected", PART(LIST(0, 0, -4, -2), ONES, AC_OUTSIDE_REFLECTED, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 3, 5, 7)}, .out = {OP_F32(AC_BATCH, 3, 13, 12)}),
    SLICE("reflected rows", PART(LIST(0, -2), ONES, AC_OUTSIDE_REFLECTED, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 3, 600)}, .out = {OP_F32(AC_BATCH, 6, 600)}),
    SLICE("edges", PART(LIST(0, -1, 0, -5), ONES, AC_OUTSIDE_EDGE, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 3, 2, 7)}, .out = {OP_F32(AC_BATCH, 7, 2, 13)}),
    SLICE("edges of long rows", PART(LIST(0, -3), ONES, AC_OUTSIDE_EDGE, 0), 2, added,
          .in = {OP_F32(AC_BATCH, 1100)}, .out = {OP_F32(AC_BATCH, 1109)}),
    {.name = "integers",
     .op = AC_OP_slice,
     .attributes.slice = {.first = {0, 7}, .step = {1, -2}},
     .batch = 3,
     .in = {OP_IDS(1 << 30, AC_BATCH, 9)},
     .out = {OP_IDS(1 << 30, AC_BATCH, 4)}},
};

static void turn(const ac_slice_attributes *a, ac_slice_attributes *back) {
  *back = (ac_slice_attributes){.value = 0};
  for (int d = 0; d < AC_MAX_RANK; d++) {
    back->step[d] = a->step[d];
    back->first[d] = a->step[d] > 0 ? -a->first[d] : a->first[d];
  }
}

static bool is_turned(const ac_slice_attributes *a) {
  bool turned = a->outside == AC_OUTSIDE_VALUE;
  for (int d = 0; d < AC_MAX_RANK; d++) turned = turned && a->step[d] * a->step[d] <= 1;
  return turned;
}

static const op_gradient of_dy = {.op = AC_OP_slice, .in = {OP_DY}, .of = {0}, .outputs = 1};

static void from_vector(op_case *result, const op_vector *vector) {
  static op_attributes back;
  static op_gradient gradient;
  ac_slice_attributes *a = &result->attributes.slice;
  char first[] = "first0", step[] = "step0";
  for (int d = 0; d < AC_MAX_RANK; d++, first[5]++, step[4]++) {
    a->first[d] = (int64_t)op_vector_attribute(vector, first, 0);
    a->step[d] = (int64_t)op_vector_attribute(vector, step, 1);
  }
  a->outside = (int32_t)op_vector_attribute(vector, "outside", 0);
  a->value = (float)op_vector_attribute(vector, "value", 0);
  turn(a, &back.slice);
  gradient = is_turned(a) ? of_dy : added[0];
  if (is_turned(a)) gradient.attributes = &back;
  result->op = AC_OP_slice;
  result->gradients = &gradient;
  result->gradient_count = 1;
}

const op_family op_family_slice = {"slice",     cases, sizeof cases / sizeof *cases,
                                   from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= 2 && ac_shape_count(x) <= OP_DRAW_ELEMENTS / 4;
}

static ac_tensor *pad(op_draw *d, ac_tensor *x, int axis) {
  ac_pad_desc desc = {.mode = (ac_pad_mode)op_draw_below(d, 3)};
  const int last = x->shape.rank - 1;
  const int64_t size = x->shape.dim[axis], most = desc.mode == AC_PAD_REFLECT ? size - 1 : size;
  desc.value = (float)op_draw_between(d, -1, 1);
  desc.before[axis] = op_draw_below(d, (int)most + 1);
  desc.after[axis] = op_draw_below(d, (int)most + 1);
  if (x->shape.dim[last] > 1 && last > 0) desc.after[last] = 1;
  return ac_pad(x, &desc);
}

/* A part, in steps or not, backwards or not; x flipped; or padded. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int first = x->shape.batched ? 1 : 0,
            axis = first + op_draw_below(d, x->shape.rank - first);
  const int64_t size = x->shape.dim[axis], cut = op_draw_below(d, (int)size);
  switch (op_draw_below(d, 5)) {
  case 0:
    return ac_slice(x, axis, cut, 1 + op_draw_below(d, (int)(size - cut)));
  case 1:
    return ac_slice_step(x, axis, cut, 1 + (size - 1 - cut) / 2, 2);
  case 2:
    return ac_slice_step(x, axis, cut, 1 + cut / 3, -3);
  case 3:
    return ac_flip(x, 1, &axis);
  default:
    return pad(d, x, axis);
  }
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_slice_attributes *a = forward->attributes;
  list[0] = is_turned(a) ? of_dy : added[0];
  if (!is_turned(a)) return 1;
  turn(a, &attributes->slice);
  list[0].attributes = attributes;
  return 1;
}

const op_generator op_generator_slice = {.takes = takes, .build = grow, .choose = choose};
