/* Cases and references of permute. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* Axis d of y is axis axes[d] of x. */
static void permute(const ac_op_args *args) {
  const ac_permute_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  for (int64_t i = 0; i < y->count; i++) {
    int64_t index[AC_MAX_RANK], rest = i, from = 0;
    for (int d = y->rank - 1; d >= 0; d--) {
      index[a->axes[d]] = rest % y->dim[d];
      rest /= y->dim[d];
    }
    for (int d = 0; d < x->rank; d++) from = from * x->dim[d] + index[d];
    op_reals(y)[i] = op_value(x, from);
  }
}

/* A copy. */
static op_tolerance permute_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_permute = {permute, permute_error, true, false};

/* What brings axes back that are a, b, ... of those before. */
#define BACK(...)                                                                            \
  {                                                                                          \
    {                                                                                        \
      .op = AC_OP_permute, .attributes = &(const op_attributes){.permute = {{__VA_ARGS__}}}, \
      .in = {OP_DY}, .of = {0}, .outputs = 1                                                 \
    }                                                                                        \
  }
static const op_gradient back_021[] = BACK(0, 2, 1), back_0213[] = BACK(0, 2, 1, 3),
                         back_10[] = BACK(1, 0), back_0312[] = BACK(0, 3, 1, 2),
                         back_052341[] = BACK(0, 5, 2, 3, 4, 1),
                         back_024135[] = BACK(0, 2, 4, 1, 3, 5), back_3210[] = BACK(3, 2, 1, 0);

#define AXES(...) \
  { __VA_ARGS__ }
#define PERMUTE(name_, axes_, back_, batch_, ...)                                       \
  {                                                                                     \
    .name = name_, .op = AC_OP_permute, .attributes.permute = {axes_}, .batch = batch_, \
    .gradients = back_, .gradient_count = 1, __VA_ARGS__                                \
  }

static const op_case cases[] = {
    PERMUTE("last two 3x65x129", AXES(0, 2, 1), back_021, 3, .in = {OP_F32(AC_BATCH, 65, 129)},
            .out = {OP_F32(AC_BATCH, 129, 65)}),
    PERMUTE("heads 2x7x3x20", AXES(0, 2, 1, 3), back_0213, 2, .in = {OP_F32(AC_BATCH, 7, 3, 20)},
            .out = {OP_F32(AC_BATCH, 3, 7, 20)}),
    PERMUTE("pairs 2x7x5x2", AXES(0, 2, 1, 3), back_0213, 2, .in = {OP_F32(AC_BATCH, 7, 5, 2)},
            .out = {OP_F32(AC_BATCH, 5, 7, 2)}),
    PERMUTE("channels last 2x3x7x21", AXES(0, 2, 3, 1), back_0312, 2,
            .in = {OP_F32(AC_BATCH, 3, 7, 21)}, .out = {OP_F32(AC_BATCH, 7, 21, 3)}),
    PERMUTE("far apart 2x3x5x7x1x4", AXES(0, 5, 2, 3, 4, 1), back_052341, 2,
            .in = {OP_F32(AC_BATCH, 3, 5, 7, 1, 4)}, .out = {OP_F32(AC_BATCH, 4, 5, 7, 1, 3)}),
    PERMUTE("each by itself 2x3x4x5x2x3", AXES(0, 3, 1, 4, 2, 5), back_024135, 2,
            .in = {OP_F32(AC_BATCH, 3, 4, 5, 2, 3)}, .out = {OP_F32(AC_BATCH, 5, 3, 2, 4, 3)}),
    PERMUTE("backwards 20x3x5x33", AXES(3, 2, 1, 0), back_3210, 1, .in = {OP_F32(20, 3, 5, 33)},
            .out = {OP_F32(33, 5, 3, 20)}),
    PERMUTE("matrix 65x7", AXES(1, 0), back_10, 1, .in = {OP_F32(65, 7)}, .out = {OP_F32(7, 65)}),
    PERMUTE("a strip of 2000x3", AXES(1, 0), back_10, 1, .in = {OP_F32(2000, 3)},
            .out = {OP_F32(3, 2000)}),
    {.name = "integers 3x17x18",
     .op = AC_OP_permute,
     .attributes.permute = {{0, 2, 1}},
     .batch = 3,
     .in = {OP_IDS(1 << 30, AC_BATCH, 17, 18)},
     .out = {OP_IDS(1 << 30, AC_BATCH, 18, 17)}},
};

static void invert(const ac_permute_attributes *a, int rank, ac_permute_attributes *back) {
  for (int d = 0; d < rank; d++) back->axes[a->axes[d]] = d;
}

static const op_gradient back_again = {.op = AC_OP_permute, .in = {OP_DY}, .of = {0}, .outputs = 1};

static void from_vector(op_case *result, const op_vector *vector) {
  static op_attributes back;
  static op_gradient gradient;
  char name[] = "axis0";
  for (int d = 0; d < AC_MAX_RANK; d++, name[4]++)
    result->attributes.permute.axes[d] = (int32_t)op_vector_attribute(vector, name, d);
  invert(&result->attributes.permute, AC_MAX_RANK, &back.permute);
  gradient = back_again;
  gradient.attributes = &back;
  result->op = AC_OP_permute;
  result->gradients = &gradient;
  result->gradient_count = 1;
}

const op_family op_family_permute = {"permute",   cases, sizeof cases / sizeof *cases,
                                     from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= (x->batched ? 3 : 2);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int axes[AC_MAX_RANK];
  const int first = x->shape.batched ? 1 : 0;
  for (int k = 0; k < x->shape.rank; k++) axes[k] = k;
  for (int k = x->shape.rank - 1; k > first; k--) {
    const int other = first + op_draw_below(d, k - first + 1), axis = axes[k];
    axes[k] = axes[other];
    axes[other] = axis;
  }
  if (op_draw_one_in(d, 2)) return ac_permute(x, x->shape.rank, axes);
  return ac_transpose(x, axes[x->shape.rank - 1], axes[x->shape.rank - 2]);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  invert(forward->attributes, forward->in[0].rank, &attributes->permute);
  list[0] = back_again;
  list[0].attributes = attributes;
  return 1;
}

const op_generator op_generator_permute = {.takes = takes, .build = grow, .choose = choose};
