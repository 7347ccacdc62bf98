/* Cases and references of pointwise: programs of functions, operands repeated. Kernels that are
 * compiled for each program see one with all functions; the functions by themselves are run on the
 * CPU, where they cost nothing to compile. */
#include <accrue/pointwise.h>

#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include "ops/pointwise/functions.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ac_program *program_of(const ac_op_args *args) {
  return &((const ac_pointwise_attributes *)args->attributes)->program;
}

/* ---- reference ------------------------------------------------------------------------------- */

static void take(const ac_op_args *args, int64_t e, double operand[AC_PROGRAM_OPERANDS]) {
  for (int i = 0; i < program_of(args)->operands; i++)
    operand[i] = op_reals(&args->in[i])[op_repeated_element(&args->in[i], &args->out[0], e)];
}

static void pointwise(const ac_op_args *args) {
  const ac_program *p = program_of(args);
  for (int64_t e = 0; e < args->out[0].count; e++) {
    double operand[AC_PROGRAM_OPERANDS], result[AC_PROGRAM_RESULTS];
    take(args, e, operand);
    ac_program_evaluate(p, operand, result);
    for (int j = 0; j < p->results; j++)
      if (args->out[j].count) op_reals(&args->out[j])[e] = result[j];
  }
}

/* The program's values, step `changed` off by a part of 2^20. */
static void evaluate(const ac_program *p, const double *operand, int changed, double *value) {
  for (int i = 0; i < p->operands; i++) value[i] = operand[i];
  for (int k = 0; k < p->constants; k++) value[AC_FIRST_CONSTANT + k] = (double)p->constant[k];
  for (int s = 0; s < p->steps; s++) {
    const uint8_t *in = p->step[s].in;
    double y = ac_function_value(p->step[s].function, value[in[0]], value[in[1]], value[in[2]]);
    value[AC_FIRST_STEP + s] = s == changed ? y * (1 + 0x1p-20) : y;
  }
}

/* What a result is off by if each step is off by a unit, in these units. */
static double step_error(const ac_op_args *args, int output, int64_t e) {
  const ac_program *p = program_of(args);
  double operand[AC_PROGRAM_OPERANDS], value[AC_FIRST_STEP + AC_PROGRAM_STEPS];
  double sum = 0;
  take(args, e, operand);
  evaluate(p, operand, -1, value);
  const double exact = value[p->result[output]];
  for (int s = 0; s < p->steps; s++) {
    evaluate(p, operand, s, value);
    const double off = fabs(value[p->result[output]] - exact) * 0x1p20;
    /* Next to a jump the whole of it. */
    if (isfinite(off)) sum += fmin(off, 16 * (1 + fabs(exact)));
  }
  return sum;
}

/* Functions are off by up to OP_MATH_ERROR of their value, and where they cross zero by as much of
 * what is around. */
static op_tolerance pointwise_error(const ac_op_args *args, int output) {
  const ac_program *p = program_of(args);
  if (p->steps == 0) return (op_tolerance){0.5, 0};
  const int64_t count = args->out[output].count, stride = count / 256 + 1;
  double largest = 0;
  for (int64_t e = 0; p->steps > 1 && e < count; e += stride)
    largest = fmax(largest, step_error(args, output, e));
  return (op_tolerance){2 * OP_MATH_ERROR, 2 + OP_MATH_ERROR * largest};
}

const op_reference op_reference_pointwise = {pointwise, pointwise_error, true, false};

/* ---- gradients ------------------------------------------------------------------------------- */

/* A program for each operand that has a gradient, in the result's shape; where the operand is
 * repeated only if `all`. */
static int choose_some(const ac_program *p, uint32_t repeated, bool all, op_gradient *list,
                       op_attributes *attributes) {
  int count = 0;
  for (int i = 0; i < p->operands; i++) {
    op_gradient *g = &list[count];
    ac_pointwise_attributes *a = &attributes[count].pointwise;
    int of[AC_PROGRAM_OPERANDS];
    memset(&attributes[count], 0, sizeof *attributes);
    if (p->results > 1 || (!all && (repeated >> i & 1)) || !ac_program_reaches(p, i) ||
        !ac_program_differentiate(p, 1, &i, &a->program, of))
      continue;
    *g = (op_gradient){.op = AC_OP_pointwise,
                       .attributes = &attributes[count],
                       .of = {i},
                       .outputs = 1,
                       .like_dy = true};
    for (int k = 0; k < a->program.operands; k++)
      g->in[k] = of[k] == AC_OF_RESULT_GRADIENT ? (op_source)OP_DY
                 : of[k] == AC_OF_RESULT        ? (op_source)OP_OUTPUT(0)
                                                : (op_source)OP_INPUT(of[k]);
    count++;
  }
  return count;
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  return choose_some(program_of(forward), 0, true, list, attributes);
}

/* ---- cases ----------------------------------------------------------------------------------- */

enum { CASES = 16, FUNCTIONS = AC_FUNCTION_COUNT };

static op_case cases[CASES], functions[FUNCTIONS];
static op_gradient gradients[CASES + FUNCTIONS][AC_MAX_INPUTS];
static op_attributes gradient_attributes[CASES + FUNCTIONS][AC_MAX_INPUTS];
static int case_count;

static op_operand_spec operand(double low, double high, int rank, const int64_t *dim) {
  op_operand_spec spec = {.dtype = AC_F32, .rank = rank, .low = low, .high = high};
  memcpy(spec.dim, dim, (size_t)rank * sizeof *dim);
  return spec;
}
#define OPERAND(low, high, ...) operand(low, high, OP_RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__})

/* With gradients of what is not repeated; `index` of all cases. */
static void complete(op_case *c, int index) {
  ac_pointwise_attributes *a = &c->attributes.pointwise;
  c->op = AC_OP_pointwise;
  for (int i = 0; i < a->program.operands; i++)
    if (c->in[i].rank != c->out[0].rank || memcmp(c->in[i].dim, c->out[0].dim, sizeof c->in[i].dim))
      a->repeated |= 1u << i;
  c->gradients = gradients[index];
  c->gradient_count =
      choose_some(&a->program, a->repeated, false, gradients[index], gradient_attributes[index]);
}

static void add_case(const char *name, const char *formula, int64_t batch,
                     const op_operand_spec *in, int count, op_operand_spec out) {
  op_case *c = &cases[case_count];
  char message[AC_FORMULA_MESSAGE];
  *c = (op_case){.name = name, .batch = batch, .out = {out}};
  for (int i = 0; i < count; i++) c->in[i] = in[i];
  if (!ac_program_parse(&c->attributes.pointwise.program, formula, count, message)) {
    fprintf(stderr, "%s: %s\n", formula, message);
    abort();
  }
  complete(c, FUNCTIONS + case_count++);
}
#define CASE(name, formula, batch, out, ...)                       \
  add_case(name, formula, batch, (op_operand_spec[]){__VA_ARGS__}, \
           (int)(sizeof((op_operand_spec[]){__VA_ARGS__}) / sizeof(op_operand_spec)), out)

/* Comparisons meet equal operands, and conditions are sometimes 0. */
static void make_function(int id) {
  const ac_function *f = &ac_functions[id];
  op_case *c = &functions[id];
  ac_program *p = &c->attributes.pointwise.program;
  *c = (op_case){.name = f->name, .batch = 3};
  p->operands = (uint8_t)f->operands;
  p->steps = p->results = 1;
  p->result[0] = AC_FIRST_STEP;
  p->step[0] =
      (ac_program_step){(uint8_t)id, {0, f->operands > 1 ? 1 : 0, f->operands > 2 ? 2 : 0}};
  c->out[0] = OPERAND(-1, 1, AC_BATCH, 65, 13);
  const bool smooth = f->gradient[0] || f->hidden;
  for (int i = 0; i < f->operands; i++) {
    c->in[i] = OPERAND(f->low, f->high, AC_BATCH, 65, 13);
    if (smooth || i > 1) continue;
    c->in[i].fill = OP_SOMETIMES;
    c->in[i].special = 0;
  }
  complete(c, id);
}

/* Half of all functions, as sums of terms. The operands: any number, one that is positive, and one
 * that is 0 sometimes. */
static void make_half(int half) {
  op_case *c = &cases[case_count];
  ac_program *p = &c->attributes.pointwise.program;
  int sum[AC_PROGRAM_RESULTS] = {-1, -1, -1, -1};
  *c = (op_case){.name = half ? "the other functions" : "half of all functions", .batch = 3};
  ac_program_begin(p, 3);
  for (int id = half; id < AC_FUNCTION_COUNT; id += 2) {
    const ac_function *f = &ac_functions[id];
    const bool condition = !f->gradient[0] && !f->hidden;
    const int x = condition ? 2 : f->low > -2 ? 1 : 0;
    const int y = ac_program_apply(p, id, x, f->operands > 1 ? 1 : 0, f->operands > 2 ? 0 : 0);
    const int j = id / 2 % AC_PROGRAM_RESULTS;
    const int term = id % 3 ? y : ac_program_apply(p, AC_FUNCTION_multiply, y, 1, 0);
    sum[j] = sum[j] < 0 ? term : ac_program_apply(p, AC_FUNCTION_add, sum[j], term, 0);
  }
  for (int j = 0; j < AC_PROGRAM_RESULTS; j++)
    if (sum[j] < 0) abort();
  ac_program_end(p, AC_PROGRAM_RESULTS, sum, NULL);
  c->in[0] = OPERAND(-4, 4, AC_BATCH, 7, 13);
  c->in[1] = OPERAND(0.25, 3, AC_BATCH, 7, 13);
  c->in[2] = OPERAND(-1, 1, AC_BATCH, 7, 13);
  c->in[2].fill = OP_SOMETIMES;
  for (int j = 0; j < AC_PROGRAM_RESULTS; j++) c->out[j] = OPERAND(-1, 1, AC_BATCH, 7, 13);
  complete(c, FUNCTIONS + case_count++);
}

/* Repeated along leading, inner and outer dimensions, and both; with short and with long rows, and
 * more operands than one that are. */
static void __attribute__((constructor)) make_cases(void) {
  for (int id = 0; id < AC_FUNCTION_COUNT; id++) make_function(id);
  make_half(0);
  make_half(1);
  CASE("a chain 3x65x129", "tanh(a * 2 + 1) * sigmoid(a) - exp(-a^2)", 3,
       OPERAND(-1, 1, AC_BATCH, 65, 129), OPERAND(-2, 2, AC_BATCH, 65, 129));
  CASE("3x65x129 by 129", "a * b", 3, OPERAND(-1, 1, AC_BATCH, 65, 129),
       OPERAND(-1, 1, AC_BATCH, 65, 129), OPERAND(-1, 1, 129));
  CASE("3x65x13 by 65x13", "a * b", 3, OPERAND(-1, 1, AC_BATCH, 65, 13),
       OPERAND(-1, 1, AC_BATCH, 65, 13), OPERAND(-1, 1, 65, 13));
  CASE("3x700 by 700", "a * b", 3, OPERAND(-1, 1, AC_BATCH, 700), OPERAND(-1, 1, AC_BATCH, 700),
       OPERAND(-1, 1, 700));
  CASE("7x1 by 1", "a * b", 7, OPERAND(-1, 1, AC_BATCH, 1), OPERAND(-1, 1, AC_BATCH, 1),
       OPERAND(-1, 1, 1));
  CASE("3x5x300 by 5x1", "a * b", 3, OPERAND(-1, 1, AC_BATCH, 5, 300),
       OPERAND(-1, 1, AC_BATCH, 5, 300), OPERAND(-1, 1, 5, 1));
  CASE("3x1x7 by 5x1", "a * b", 3, OPERAND(-1, 1, AC_BATCH, 5, 7), OPERAND(-1, 1, AC_BATCH, 1, 7),
       OPERAND(-1, 1, 5, 1));
  CASE("3x5x4x3 by a sample's 4x1, channels and a number", "a * b + c * d", 3,
       OPERAND(-1, 1, AC_BATCH, 5, 4, 3), OPERAND(-1, 1, AC_BATCH, 5, 4, 3),
       OPERAND(-1, 1, AC_BATCH, 1, 4, 1), OPERAND(-1, 1, 5, 1, 1), OPERAND(-1, 1, 1));
  CASE("2x3x4x2x3x2, every other dimension", "a * b", 2, OPERAND(-1, 1, AC_BATCH, 3, 4, 2, 3, 2),
       OPERAND(-1, 1, AC_BATCH, 1, 4, 1, 3, 1), OPERAND(-1, 1, 1, 3, 1, 2, 1, 2));
}

/* A case of PyTorch's is called by its function, with `_points` or without. What is a number there
 * is an attribute with the operand's letter. */
static void from_vector(op_case *result, const op_vector *vector) {
  static op_gradient list[AC_MAX_INPUTS];
  static op_attributes of_gradients[AC_MAX_INPUTS];
  const size_t length =
      strlen(vector->name) - (strstr(vector->name, "_points") ? strlen("_points") : 0);
  ac_program *p = &result->attributes.pointwise.program;
  int in[3] = {0}, count = 0;
  while (result->in[count].rank) count++;
  ac_program_begin(p, count);
  for (int i = 0; i < 3; i++) {
    const char letter[] = {(char)('a' + i), 0};
    const double number = op_vector_attribute(vector, letter, NAN);
    in[i] = i < count ? i : isnan(number) ? 0 : ac_program_constant(p, number);
  }
  for (int id = 0; id < AC_FUNCTION_COUNT; id++)
    if (!strncmp(ac_functions[id].name, vector->name, length) && !ac_functions[id].name[length])
      in[0] = ac_program_apply(p, id, in[0], in[1], in[2]);
  ac_program_end(p, 1, in, NULL);
  result->op = AC_OP_pointwise;
  result->gradients = list;
  result->gradient_count = choose_some(p, 0, true, list, of_gradients);
  /* PyTorch has none for what does not require it. */
  for (int g = 0; g < result->gradient_count; g++) {
    char name[16];
    snprintf(name, sizeof name, "grad%d", list[g].of[0]);
    if (!op_vector_find(vector, name)) list[g--] = list[--result->gradient_count];
  }
}

static const op_family each = {"pointwise", functions, FUNCTIONS, NULL, NULL, NULL};

static void special(ac_device *device) {
  if (device->backend->is_host) op_check_cases(&each, device);
}

static void special_host(void) {
  op_check_reference(&each);
}

const op_family op_family_pointwise = {"pointwise", cases, 11, from_vector, special, special_host};

/* ---- random graphs --------------------------------------------------------------------------- */

/* An operand that goes with x: of its shape, or with some dimensions 1 or absent; sometimes a
 * result, and x may be repeated to it. */
static ac_tensor *draw_operand(op_draw *d, ac_tensor *x) {
  const ac_shape *shape = &x->shape;
  if (op_draw_one_in(d, 2)) return op_draw_broadcast(d, x, -1, 1);
  int64_t dim[AC_MAX_RANK];
  const int least = shape->batched ? 1 : 0;
  const int skip = op_draw_below(d, shape->rank); /* leading dimensions that it does not have */
  for (int k = skip; k < shape->rank; k++)
    dim[k - skip] = k < least || op_draw_one_in(d, 2) ? 1 : shape->dim[k];
  return op_draw_parameter(d, -1, 1, shape->rank - skip, dim);
}

/* Smooth ones, and of numbers that keep their size. */
static const char *const formulas[] = {
    "a * sigmoid(b)",      "tanh(a) + b",           "softplus(a - b)",
    "a / (1 + b^2)",       "sin(a) * cos(b)",       "mish(a) + gelu(b)",
    "log1p(exp(a)) * b",   "sqrt(a^2 + b^2 + 0.1)", "erf(a * b)",
    "silu(a) * b + a",     "exp(-square(a - b))",   "softsign(a) - gelu_tanh(b)",
    "a + 0.5 * elu(b, 1)", "log(1 + a^2) - b",      "rsqrt(1 + square(a)) * b"};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_tensor *other = draw_operand(d, x);
  ac_tensor *operands[] = {x, other};
  const int kind = op_draw_below(d, 6);
  if (!other) return NULL;
  if (kind == 0) return ac_subtract(x, other);
  if (kind == 1) return ac_swiglu(other, x);
  if (kind == 2) return ac_add_scalar(ac_sin(x), (float)op_draw_between(d, -1, 1));
  return ac_formula(d->graph, formulas[op_draw_below(d, sizeof formulas / sizeof *formulas)],
                    operands, 2);
}

const op_generator op_generator_pointwise = {
    .takes = op_takes_all, .build = grow, .choose = choose};
