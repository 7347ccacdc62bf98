/* Cases and references of custom: an op that a caller might describe (support/correlation.h), with
 * operands as they are stored and with floats. */
#include "ops/driver.h"
#include "ops/generator.h"

#include "core/hash.h"
#include "support/correlation.h"

/* What a graph would keep of the descriptions. */
enum { STORED, FLOATS, KINDS };
static ac_custom ops[KINDS], ops_gradient[KINDS];

static const ac_custom *op_of(const ac_custom_desc *desc, ac_custom *op, ac_custom *gradient) {
  op->desc = *desc;
  op->source_key = ac_hash_text(desc->opencl_source);
  op->gradient = gradient;
  if (desc->gradient) op_of(desc->gradient, gradient, NULL);
  return op;
}

static void set_up(op_attributes *forward, op_attributes *backward, int kind) {
  const char letter = kind == STORED ? 's' : 'f';
  op_of(kind == STORED ? &correlation_stored : &correlation_floats, &ops[kind],
        &ops_gradient[kind]);
  forward->custom =
      (ac_custom_attributes){.kinds = {{letter, letter}, {letter}}, .stream = 1, .op = &ops[kind]};
  backward->custom = (ac_custom_attributes){.kinds = {{letter, letter, letter}, {letter, letter}},
                                            .stream = 1,
                                            .op = &ops_gradient[kind]};
}

/* ---- references ------------------------------------------------------------------------------ */

static double scale_of(const ac_op_args *args) {
  return (double)((const correlation_constants *)ac_custom_of(args)->desc.constants)->scale;
}

/* y[r, t] = scale * sum over k of x[r, t + k] w[k] */
static void forward(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *w = &args->in[1];
  const int64_t T = ac_columns(x), K = w->count, Y = T - K + 1;
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double sum = 0;
    for (int64_t k = 0; k < K; k++) sum += op_reals(x)[i / Y * T + i % Y + k] * op_reals(w)[k];
    op_reals(&args->out[0])[i] = scale_of(args) * sum;
  }
}

/* dx[r, t] and dw[k]: each product of y's sum, seen from its factors */
static void backward(const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *x = &args->in[1], *w = &args->in[2];
  const int64_t T = ac_columns(x), K = w->count, Y = T - K + 1;
  double *dx = args->out[0].count ? op_reals(&args->out[0]) : NULL;
  double *dw = args->out[1].count ? op_reals(&args->out[1]) : NULL;
  for (int64_t e = 0; dx && e < x->count; e++) dx[e] = 0;
  for (int64_t k = 0; dw && k < K; k++) dw[k] = 0;
  for (int64_t i = 0; i < dy->count; i++)
    for (int64_t k = 0; k < K; k++) {
      const int64_t at = i / Y * T + i % Y + k;
      const double d = scale_of(args) * op_reals(dy)[i];
      if (dx) dx[at] += d * op_reals(w)[k];
      if (dw) dw[k] += d * op_reals(x)[at];
    }
}

static void custom(const ac_op_args *args) {
  if (args->in[2].count) backward(args);
  else forward(args);
}

/* Sums of K products, and of a product for each element of dy. */
static op_tolerance error(const ac_op_args *args, int output) {
  const bool gradient = args->in[2].count;
  const int64_t terms = !gradient     ? args->in[1].count
                        : output == 0 ? args->in[2].count
                                      : args->in[0].count;
  const ac_operand *a = &args->in[0], *b = &args->in[gradient && output == 0 ? 2 : 1];
  return (op_tolerance){2, op_sum_error(terms) * op_largest(a) * op_largest(b)};
}

const op_reference op_reference_custom = {custom, error, true, false};

/* ---- cases ----------------------------------------------------------------------------------- */

static op_attributes backward_attributes[KINDS];
static op_gradient gradients[KINDS];

#define CORRELATION(name_, K, batch_, T, ...)                    \
  {                                                              \
    .name = name_, .op = AC_OP_custom, .batch = batch_,          \
    .in = {OP_F32(AC_BATCH, __VA_ARGS__ T), OP_F32(K)}, .out = { \
      OP_F32(AC_BATCH, __VA_ARGS__ T - K + 1)                    \
    }                                                            \
  }
#define ALONG 7,
static op_case cases[] = {
    CORRELATION("3x7x129 with 5", 5, 3, 129, 7, ),
    CORRELATION("floats, 3x7x129 with 5", 5, 3, 129, 7, ),
    CORRELATION("1x1 with 1", 1, 1, 1, ),
    CORRELATION("floats, 2x64 with 64", 64, 2, 64, ),
};
enum { CASES = sizeof cases / sizeof *cases };

__attribute__((constructor)) static void describe(void) {
  for (int i = 0; i < CASES; i++) {
    const int kind = i % KINDS;
    set_up(&cases[i].attributes, &backward_attributes[kind], kind);
    gradients[kind] = (op_gradient){.op = AC_OP_custom,
                                    .attributes = &backward_attributes[kind],
                                    .in = {OP_DY, OP_INPUT(0), OP_INPUT(1)},
                                    .of = {0, 1},
                                    .outputs = 2,
                                    .optional = true};
    cases[i].gradients = &gradients[kind];
    cases[i].gradient_count = 1;
  }
}

const op_family op_family_custom = {"custom", cases, CASES, NULL, NULL, NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t T = x->shape.dim[x->shape.rank - 1], K = op_draw_size(d, T < 4 ? (int)T : 4);
  ac_tensor *in[] = {x, op_draw_weight(d, K, AC_SHAPE(K))};
  return ac_custom_op(d->graph, in, 2, NULL,
                      op_draw_one_in(d, 2) ? &correlation_stored : &correlation_floats);
}

/* The gradient is of the same kind. */
static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const int kind = ac_custom_of(forward)->desc.plan_storage ? STORED : FLOATS;
  (void)attributes;
  list[0] = gradients[kind];
  return 1;
}

const op_generator op_generator_custom = {.takes = op_takes_rows, .build = grow, .choose = choose};
