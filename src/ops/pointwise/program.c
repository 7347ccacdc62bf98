/* Making programs and reading them. What a program is made of goes through ac_program_apply alone:
 * there constants are folded, what changes nothing is left out, and equal steps become one. Rules
 * keep every bit for all values, also infinities and NaN, but for the sign of zero. */
#include "ops/pointwise/program.h"

#include "core/half.h"
#include "ops/pointwise/functions.h"

#include <math.h>
#include <string.h>

enum { NOTHING = -2 }; /* no rule applies */

void ac_program_begin(ac_program *program, int operands) {
  memset(program, 0, sizeof *program);
  program->operands = (uint8_t)operands;
}

int ac_program_constant(ac_program *program, double value) {
  float constant = (float)value;
  int i = 0;
  while (i < program->constants && ac_float_bits(program->constant[i]) != ac_float_bits(constant))
    i++;
  if (i == AC_PROGRAM_CONSTANTS) return -1;
  program->constant[i] = constant;
  if (i == program->constants) program->constants++;
  return AC_FIRST_CONSTANT + i;
}

static bool is_constant(int value) {
  return value >= AC_FIRST_CONSTANT && value < AC_FIRST_STEP;
}

static double constant_of(const ac_program *program, int value) {
  return (double)program->constant[value - AC_FIRST_CONSTANT];
}

static bool equals(const ac_program *program, int value, double number) {
  return is_constant(value) && constant_of(program, value) == number;
}

/* The operand of a step that negates, else -1. */
static int negated(const ac_program *program, int value) {
  if (value < AC_FIRST_STEP) return -1;
  const ac_program_step *step = &program->step[value - AC_FIRST_STEP];
  return step->function == AC_FUNCTION_negate ? step->in[0] : -1;
}

static int unary(ac_program *program, int function, int a) {
  return ac_program_apply(program, function, a, 0, 0);
}

static int binary(ac_program *program, int function, int a, int b) {
  return ac_program_apply(program, function, a, b, 0);
}

/* The result if all operands are constants and it is finite. */
static int folded(ac_program *program, int function, const int in[3]) {
  double x[3] = {0, 0, 0};
  for (int i = 0; i < ac_functions[function].operands; i++) {
    if (!is_constant(in[i])) return NOTHING;
    x[i] = constant_of(program, in[i]);
  }
  double value = ac_function_value(function, x[0], x[1], x[2]);
  return isfinite((float)value) ? ac_program_constant(program, value) : NOTHING;
}

static int simpler_sum(ac_program *program, int a, int b) {
  if (equals(program, a, 0)) return b;
  if (equals(program, b, 0)) return a;
  if (negated(program, b) >= 0)
    return binary(program, AC_FUNCTION_subtract, a, negated(program, b));
  if (negated(program, a) >= 0)
    return binary(program, AC_FUNCTION_subtract, b, negated(program, a));
  return NOTHING;
}

static int simpler_difference(ac_program *program, int a, int b) {
  if (equals(program, b, 0)) return a;
  if (equals(program, a, 0)) return unary(program, AC_FUNCTION_negate, b);
  if (negated(program, b) >= 0) return binary(program, AC_FUNCTION_add, a, negated(program, b));
  return NOTHING;
}

static int simpler_product(ac_program *program, int a, int b) {
  if (a == b) return unary(program, AC_FUNCTION_square, a);
  if (equals(program, a, 1)) return b;
  if (equals(program, b, 1)) return a;
  if (equals(program, a, -1)) return unary(program, AC_FUNCTION_negate, b);
  if (equals(program, b, -1)) return unary(program, AC_FUNCTION_negate, a);
  if (negated(program, a) >= 0 && negated(program, b) >= 0)
    return binary(program, AC_FUNCTION_multiply, negated(program, a), negated(program, b));
  if (negated(program, a) >= 0 && is_constant(b))
    return binary(program, AC_FUNCTION_multiply, negated(program, a),
                  unary(program, AC_FUNCTION_negate, b));
  if (negated(program, b) >= 0 && is_constant(a))
    return binary(program, AC_FUNCTION_multiply, unary(program, AC_FUNCTION_negate, a),
                  negated(program, b));
  return NOTHING;
}

/* Exponents for which there is a shorter way, as in PyTorch. */
static int simpler_power(ac_program *program, int a, int b) {
  if (!is_constant(b)) return NOTHING;
  double exponent = constant_of(program, b);
  if (exponent == 0) return ac_program_constant(program, 1);
  if (exponent == 1) return a;
  if (exponent == 2) return unary(program, AC_FUNCTION_square, a);
  if (exponent == 3)
    return binary(program, AC_FUNCTION_multiply, a, unary(program, AC_FUNCTION_square, a));
  if (exponent == 0.5) return unary(program, AC_FUNCTION_sqrt, a);
  if (exponent == -0.5) return unary(program, AC_FUNCTION_rsqrt, a);
  if (exponent == -1) return unary(program, AC_FUNCTION_reciprocal, a);
  if (exponent == -2)
    return unary(program, AC_FUNCTION_reciprocal, unary(program, AC_FUNCTION_square, a));
  return NOTHING;
}

static int simpler(ac_program *program, int function, const int in[3]) {
  int a = in[0], b = in[1];
  switch (function) {
  case AC_FUNCTION_add:
    return simpler_sum(program, a, b);
  case AC_FUNCTION_subtract:
    return simpler_difference(program, a, b);
  case AC_FUNCTION_multiply:
    return simpler_product(program, a, b);
  case AC_FUNCTION_power:
    return simpler_power(program, a, b);
  case AC_FUNCTION_divide:
    if (equals(program, a, 1)) return unary(program, AC_FUNCTION_reciprocal, b);
    return equals(program, b, 1) ? a : NOTHING;
  case AC_FUNCTION_negate:
    return negated(program, a) >= 0 ? negated(program, a) : NOTHING;
  case AC_FUNCTION_where:
    if (b == in[2]) return b;
    if (is_constant(a)) return equals(program, a, 0) ? in[2] : b;
    return NOTHING;
  default:
    return NOTHING;
  }
}

/* Of functions for which the order does not matter, so that a b and b a are one step. */
static bool commutes(int function) {
  return function == AC_FUNCTION_add || function == AC_FUNCTION_multiply ||
         function == AC_FUNCTION_equal || function == AC_FUNCTION_not_equal;
}

int ac_program_apply(ac_program *program, int function, int a, int b, int c) {
  int in[3] = {a, b, c};
  ac_program_step step = {.function = (uint8_t)function};
  for (int i = 0; i < ac_functions[function].operands; i++)
    if (in[i] < 0) return -1;
  if (commutes(function) && b < a) in[0] = b, in[1] = a;
  int value = folded(program, function, in);
  if (value == NOTHING) value = simpler(program, function, in);
  if (value != NOTHING) return value;
  for (int i = 0; i < ac_functions[function].operands; i++) step.in[i] = (uint8_t)in[i];
  for (int i = 0; i < program->steps; i++)
    if (!memcmp(&program->step[i], &step, sizeof step)) return AC_FIRST_STEP + i;
  if (program->steps == AC_PROGRAM_STEPS) return -1;
  program->step[program->steps] = step;
  return AC_FIRST_STEP + program->steps++;
}

bool ac_program_append(ac_program *program, const ac_program *other, const int *operand,
                       int result[AC_PROGRAM_RESULTS]) {
  int value[AC_FIRST_STEP + AC_PROGRAM_STEPS] = {0};
  bool fits = true;
  for (int i = 0; i < other->operands; i++) value[i] = operand[i];
  for (int i = 0; i < other->constants; i++)
    value[AC_FIRST_CONSTANT + i] = ac_program_constant(program, (double)other->constant[i]);
  for (int i = 0; i < other->steps; i++) {
    const ac_program_step *step = &other->step[i];
    value[AC_FIRST_STEP + i] = ac_program_apply(program, step->function, value[step->in[0]],
                                                value[step->in[1]], value[step->in[2]]);
  }
  for (int i = 0; i < other->results; i++) {
    result[i] = value[other->result[i]];
    fits = fits && result[i] >= 0;
  }
  return fits;
}

/* Which values the results need; steps only read what is before them. */
static void mark_needed(const ac_program *program, int results, const int *result, bool *needed) {
  for (int i = 0; i < results; i++) needed[result[i]] = true;
  for (int i = program->steps - 1; i >= 0; i--) {
    const ac_program_step *step = &program->step[i];
    if (!needed[AC_FIRST_STEP + i]) continue;
    for (int k = 0; k < ac_functions[step->function].operands; k++) needed[step->in[k]] = true;
  }
}

/* Constants are numbered as they are read first, so that it does not matter when they were made. */
static int moved(ac_program *program, const ac_program *old, const int *value, int from) {
  return is_constant(from) ? ac_program_constant(program, constant_of(old, from)) : value[from];
}

void ac_program_end(ac_program *program, int results, const int *result, unsigned *used) {
  bool needed[AC_FIRST_STEP + AC_PROGRAM_STEPS] = {0};
  int value[AC_FIRST_STEP + AC_PROGRAM_STEPS] = {0};
  const ac_program old = *program;
  mark_needed(&old, results, result, needed);
  ac_program_begin(program, old.operands);
  unsigned bits = 0;
  for (int i = 0; i < old.operands; i++) {
    value[i] = i;
    bits |= needed[i] ? 1u << i : 0;
  }
  for (int i = 0; i < old.steps; i++) {
    if (!needed[AC_FIRST_STEP + i]) continue;
    ac_program_step *step = &program->step[program->steps];
    step->function = old.step[i].function;
    for (int k = 0; k < ac_functions[step->function].operands; k++)
      step->in[k] = (uint8_t)moved(program, &old, value, old.step[i].in[k]);
    value[AC_FIRST_STEP + i] = AC_FIRST_STEP + program->steps++;
  }
  program->results = (uint8_t)results;
  for (int i = 0; i < results; i++)
    program->result[i] = (uint8_t)moved(program, &old, value, result[i]);
  if (used) *used = bits;
}

void ac_program_evaluate(const ac_program *program, const double *operand, double *result) {
  double value[AC_FIRST_STEP + AC_PROGRAM_STEPS] = {0};
  for (int i = 0; i < program->operands; i++) value[i] = operand[i];
  for (int i = 0; i < program->constants; i++)
    value[AC_FIRST_CONSTANT + i] = (double)program->constant[i];
  for (int i = 0; i < program->steps; i++) {
    const ac_program_step *step = &program->step[i];
    value[AC_FIRST_STEP + i] = ac_function_value(step->function, value[step->in[0]],
                                                 value[step->in[1]], value[step->in[2]]);
  }
  for (int i = 0; i < program->results; i++) result[i] = value[program->result[i]];
}

double ac_program_flops(const ac_program *program) {
  double flops = 0;
  for (int i = 0; i < program->steps; i++) flops += ac_functions[program->step[i].function].flops;
  return flops;
}
