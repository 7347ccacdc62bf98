/* Cases and references of cumulative_sum. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <accrue/reduction.h>

#include "ops/reduction/along.h"

/* y[o, j, i] = the sum of x[o, k, i] up to k = j, or from there on */
static void cumulative_sum(const ac_op_args *args) {
  const ac_cumulative_sum_attributes *attributes = args->attributes;
  const ac_along a = ac_along_axis(&args->in[0], attributes->axis);
  for (int64_t k = 0; k < a.outer * a.inner; k++) {
    const int64_t base = k / a.inner * a.length * a.inner + k % a.inner;
    double sum = 0;
    for (int64_t n = 0; n < a.length; n++) {
      const int64_t at = base + (attributes->reversed ? a.length - 1 - n : n) * a.inner;
      op_reals(&args->out[0])[at] = sum += op_reals(&args->in[0])[at];
    }
  }
}

static op_tolerance cumulative_sum_error(const ac_op_args *args, int output) {
  const ac_cumulative_sum_attributes *a = args->attributes;
  (void)output;
  return (op_tolerance){1, op_sum_error(args->in[0].dim[a->axis]) * op_largest(&args->in[0])};
}

const op_reference op_reference_cumulative_sum = {cumulative_sum, cumulative_sum_error, true,
                                                  false};

static const op_attributes reversed[] = {{.cumulative_sum = {0, 1}},
                                         {.cumulative_sum = {1, 1}},
                                         {.cumulative_sum = {2, 1}},
                                         {.cumulative_sum = {1, 0}},
                                         {.cumulative_sum = {2, 0}}};
#define REVERSED(i) \
  { .op = AC_OP_cumulative_sum, .attributes = &reversed[i], .in = {OP_DY}, .of = {0}, .outputs = 1 }
static const op_gradient gradients[] = {REVERSED(0), REVERSED(1), REVERSED(2), REVERSED(3),
                                        REVERSED(4)};

#define SUMS(name_, axis_, reversed_, batch_, ...)                                               \
  {                                                                                              \
    .name = name_, .op = AC_OP_cumulative_sum, .batch = batch_,                                  \
    .attributes = {.cumulative_sum = {axis_, reversed_}}, .in = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .out = {OP_F32(AC_BATCH, __VA_ARGS__)},                                                      \
    .gradients = &gradients[reversed_ ? axis_ + 2 : axis_], .gradient_count = 1                  \
  }

static const op_case cases[] = {
    SUMS("3x65x129 along 2", 2, 0, 3, 65, 129),
    SUMS("3x65x129 along 1", 1, 0, 3, 65, 129),
    SUMS("3x65x300 along 1, reversed", 1, 1, 3, 65, 300),
    SUMS("2x5x1025 along 2, reversed", 2, 1, 2, 5, 1025),
    SUMS("7x1 along 1", 1, 0, 7, 1),
};

static void from_vector(op_case *result, const op_vector *vector) {
  const int axis = (int)op_vector_attribute(vector, "axis", 0);
  result->op = AC_OP_cumulative_sum;
  result->attributes.cumulative_sum = (ac_cumulative_sum_attributes){axis, 0};
  result->gradients = &gradients[axis];
  result->gradient_count = 1;
}

const op_family op_family_cumulative_sum = {"cumulative_sum", cases, sizeof cases / sizeof *cases,
                                            from_vector,      NULL,  NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int first = x->shape.batched ? 1 : 0;
  const int axis = first + op_draw_below(d, x->shape.rank - first);
  return ac_cumulative_sum(x, op_draw_one_in(d, 2) ? axis : axis - x->shape.rank);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_cumulative_sum_attributes *a = forward->attributes;
  attributes[0].cumulative_sum = (ac_cumulative_sum_attributes){a->axis, !a->reversed};
  list[0] = gradients[0];
  list[0].attributes = attributes;
  return 1;
}

const op_generator op_generator_cumulative_sum = {
    .takes = op_takes_rows, .build = grow, .choose = choose};
