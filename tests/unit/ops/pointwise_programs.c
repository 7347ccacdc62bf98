/* Programs: what is folded and left out while one is made, appending and dropping, text, flops,
 * and random compositions: their values against direct evaluation, their gradients against finite
 * differences, and what happens where room ends. */
#include "support/check.h"

#include "ops/pointwise/functions.h"
#include "ops/pointwise/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void parse(ac_program *program, const char *formula, int operands) {
  char message[AC_FORMULA_MESSAGE];
  if (!ac_program_parse(program, formula, operands, message)) fail_msg("%s: %s", formula, message);
}

static const char *text_of(const ac_program *program, int result) {
  static char text[2000];
  ac_program_text(program, result, text, sizeof text);
  return text;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void leaves_out_what_changes_nothing(void **state) {
  (void)state;
  static const struct {
    const char *formula, *text;
  } cases[] = {
      {"a * 1 + 0", "a"},
      {"0 + 1 * a", "a"},
      {"a / 1 - 0", "a"},
      {"a * -1", "-a"},
      {"0 - a", "-a"},
      {"--a", "a"},
      {"a - -a", "a + a"},
      {"a + -exp(a)", "a - exp(a)"},
      {"-a + exp(a)", "exp(a) - a"},
      {"-a * -exp(a)", "a * exp(a)"},
      {"-a * 3", "a * -3"},
      {"3 * -a", "a * -3"},
      {"a * a", "square(a)"},
      {"a^2", "square(a)"},
      {"a^3", "a * square(a)"},
      {"a^1", "a"},
      {"a^0.5", "sqrt(a)"},
      {"a^-0.5", "rsqrt(a)"},
      {"a^-1", "reciprocal(a)"},
      {"a^-2", "reciprocal(square(a))"},
      {"1 / a", "reciprocal(a)"},
      {"2 * 3 + 4 * a", "6 + a * 4"},
      {"a * exp(0)", "a"},
      {"where(2, a, 7)", "a"},
      {"where(0, 7, a)", "a"},
      {"where(a < 0, exp(a), exp(a))", "exp(a)"},
      {"a * (1 < 2)", "a"},
      /* These would not be the same for infinities or NaN. */
      {"a * 0", "a * 0"},
      {"a - a", "a - a"},
      {"a / a", "a / a"},
      {"a + log(0)", "a + log(0)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_program program;
    parse(&program, cases[i].formula, 1);
    if (strcmp(text_of(&program, 0), cases[i].text))
      fail_msg("%s becomes %s, not %s", cases[i].formula, text_of(&program, 0), cases[i].text);
  }
}

static void finds_equal_steps(void **state) {
  (void)state;
  ac_program program, other;
  parse(&program, "exp(a * b) + exp(b * a)", 2);
  assert_int_equal(program.steps, 3);
  parse(&program, "(a - b) * 2 + (a - b) * 2 + 0 * 1", 2);
  assert_int_equal(program.steps, 3);
  assert_int_equal(program.constants, 1);
  parse(&program, "sin(a) + cos(b)", 2);
  parse(&other, "cos(b) * 1 + (sin(a) + 0)", 2);
  assert_int_equal(program.steps, other.steps);
}

/* Texts that are parsed to the same program. */
static void writes_formulas(void **state) {
  (void)state;
  static const char *const formulas[] = {"a + b + c",
                                         "a - (b - c)",
                                         "a - b - c",
                                         "a * b / c",
                                         "a / (b * c)",
                                         "a / (b / c)",
                                         "(a + b) * c",
                                         "-(a + b) / c",
                                         "-(a * b) + c",
                                         "(-a)^b + c",
                                         "-a^b + c",
                                         "a^b^c",
                                         "(a^b)^c",
                                         "a^-b + c",
                                         "(a + b < c) * a",
                                         "(a < b) == (b < c)",
                                         "where(a < b, b, -c)",
                                         "clamp(a, b, c)",
                                         "a * -0.25 + b - c",
                                         "exp(a)^2 / (b * 1e-10) + c",
                                         "tanh(softplus(a)) * b - c / 3"};
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    ac_program program, again;
    parse(&program, formulas[i], 3);
    parse(&again, text_of(&program, 0), 3);
    if (memcmp(&program, &again, sizeof program))
      fail_msg("%s is written as %s", formulas[i], text_of(&program, 0));
  }
}

/* Also what would be longer than any memory. */
static void cuts_texts_off(void **state) {
  (void)state;
  ac_program program;
  char text[64], whole[4096];
  ac_program_begin(&program, 1);
  int value = 0;
  for (int i = 0; i < AC_PROGRAM_STEPS; i++)
    value = ac_program_apply(&program, AC_FUNCTION_maximum, value, value, 0);
  ac_program_end(&program, 1, &value, NULL);
  assert_int_equal(program.steps, AC_PROGRAM_STEPS);
  ac_program_text(&program, 0, whole, sizeof whole);
  assert_int_equal(strlen(whole), sizeof whole - 1);
  for (size_t size = 0; size <= sizeof text; size++) {
    memset(text, '#', sizeof text);
    ac_program_text(&program, 0, text, size);
    if (size) assert_int_equal(strlen(text), size - 1);
    assert_memory_equal(text, whole, size ? size - 1 : 0);
    if (size < sizeof text) assert_int_equal(text[size], '#');
  }
}

static void appends(void **state) {
  (void)state;
  ac_program inner, outer;
  parse(&inner, "exp(a) * 2", 1);
  parse(&outer, "a + b", 2);
  ac_program program;
  int result[AC_PROGRAM_RESULTS];
  ac_program_begin(&program, 3);
  assert_true(ac_program_append(&program, &inner, (int[]){2}, result));
  int first = result[0];
  assert_true(ac_program_append(&program, &inner, (int[]){2}, result)); /* the same steps */
  assert_int_equal(result[0], first);
  assert_true(ac_program_append(&program, &outer, (int[]){0, first}, result));
  unsigned used;
  ac_program_end(&program, 1, result, &used);
  assert_string_equal(text_of(&program, 0), "a + 2 * exp(c)");
  assert_int_equal(used, 5);
  assert_int_equal(program.operands, 3);
}

static void drops_what_no_result_needs(void **state) {
  (void)state;
  ac_program program;
  ac_program_begin(&program, 2);
  int dead = ac_program_apply(&program, AC_FUNCTION_exp, 0, 0, 0);
  int seven = ac_program_constant(&program, 7), two = ac_program_constant(&program, 2);
  ac_program_apply(&program, AC_FUNCTION_multiply, dead, seven, 0);
  int kept = ac_program_apply(&program, AC_FUNCTION_multiply, 1, two, 0);
  unsigned used;
  ac_program_end(&program, 2, (int[]){kept, 1}, &used);
  assert_int_equal(program.steps, 1);
  assert_int_equal(program.constants, 1);
  assert_int_equal(used, 2);
  assert_string_equal(text_of(&program, 0), "b * 2");
  assert_string_equal(text_of(&program, 1), "b");
}

/* Nothing is written where there is no room, and -1 goes through. */
static void knows_its_room(void **state) {
  (void)state;
  struct {
    ac_program program;
    uint8_t after[64];
  } guarded;
  memset(&guarded, 0x5a, sizeof guarded);
  ac_program *program = &guarded.program;
  ac_program_begin(program, AC_PROGRAM_OPERANDS);
  for (int i = 0; i < 2 * AC_PROGRAM_CONSTANTS; i++)
    assert_int_equal(ac_program_constant(program, i),
                     i < AC_PROGRAM_CONSTANTS ? AC_FIRST_CONSTANT + i : -1);
  assert_int_equal(ac_program_constant(program, 3), AC_FIRST_CONSTANT + 3);
  int value = 0;
  for (int i = 0; i < 2 * AC_PROGRAM_STEPS; i++) {
    int before = value;
    value = ac_program_apply(program, AC_FUNCTION_divide, value, 1 + i % 7, 0);
    assert_int_equal(value, i < AC_PROGRAM_STEPS ? AC_FIRST_STEP + i : -1);
    if (before < 0) assert_int_equal(value, -1);
  }
  assert_int_equal(ac_program_apply(program, AC_FUNCTION_add, 0, -1, 0), -1);
  assert_int_equal(ac_program_apply(program, AC_FUNCTION_exp, 0, -1, -1), -1); /* full */
  for (size_t i = 0; i < sizeof guarded.after; i++) assert_int_equal(guarded.after[i], 0x5a);
  /* Another program no longer fits. */
  ac_program other;
  int result[AC_PROGRAM_RESULTS];
  parse(&other, "sin(cos(a))", 1);
  assert_false(ac_program_append(program, &other, (int[]){0}, result));
}

static void counts_flops(void **state) {
  (void)state;
  ac_program program;
  parse(&program, "exp(a) + sin(exp(a)) * cos(a)", 1);
  /* exp, sin, cos, the product, the sum */
  assert_int_equal(program.steps, 5);
  assert_true(ac_program_flops(&program) == 8 + 8 + 8 + 1 + 1);
}

/* ---- random compositions --------------------------------------------------------------------- */

enum { OPERANDS = 3 };

typedef struct draws {
  uint64_t seed;
  uint32_t next;
} draws;

static uint32_t draw(draws *d, uint32_t below) {
  d->seed = d->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(d->seed >> 33) % below;
}

static double draw_real(draws *d, double low, double high) {
  return low + (high - low) * draw(d, 1u << 20) / (1u << 20);
}

/* A random formula as text, and its value at x, computed on the way. */
static double compose(draws *d, int depth, const double *x, char *text) {
  if (depth == 0 || draw(d, 8) == 0) {
    if (draw(d, 4) == 0) {
      double number = draw(d, 33) / 4. - 4;
      sprintf(text, number < 0 ? "(%g)" : "%g", number);
      return number;
    }
    int operand = (int)draw(d, OPERANDS);
    sprintf(text, "%c", 'a' + operand);
    return x[operand];
  }
  int function;
  do function = (int)draw(d, AC_FUNCTION_COUNT);
  while (ac_functions[function].hidden || ac_functions[function].stopped);
  char inner[3][3000];
  double value[3] = {0, 0, 0};
  for (int i = 0; i < ac_functions[function].operands; i++)
    value[i] = compose(d, depth - 1, x, inner[i]);
  int length = sprintf(text, "%s(", ac_functions[function].name);
  for (int i = 0; i < ac_functions[function].operands; i++)
    length += sprintf(text + length, "%s%s", i ? ", " : "", inner[i]);
  sprintf(text + length, ")");
  return ac_function_value(function, value[0], value[1], value[2]);
}

static bool near(double a, double b, double tolerance) {
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b));
}

/* As folded constants are floats, they may differ by the rounding of one, times what follows. */
static void computes_what_the_formula_says(void **state) {
  (void)state;
  draws d = {1, 0};
  int taken = 0, close = 0;
  for (int i = 0; i < 20000; i++) {
    char text[12000], message[AC_FORMULA_MESSAGE], whole[12100];
    double x[OPERANDS], result;
    for (int k = 0; k < OPERANDS; k++) x[k] = draw_real(&d, -3, 3);
    double value = compose(&d, 1 + (int)draw(&d, 4), x, text);
    snprintf(whole, sizeof whole, "%s + 0 * (a + b + c)", text);
    ac_program program;
    if (!ac_program_parse(&program, whole, OPERANDS, message)) continue;
    ac_program_evaluate(&program, x, &result);
    taken++;
    if (near(value, result, 1e-4)) close++;
    else if (isfinite(value) && fabs(value) < 1e3 && close * 100 < taken * 99 && taken > 1000)
      fail_msg("%s is %.9g, not %.9g", whole, result, value);
  }
  assert_true(taken > 10000);
  assert_true(close > taken * 0.99);
}

/* The derivative of one operand at x, by the program of gradients. */
static bool derivative(const ac_program *program, int operand, const double *x, double *slope) {
  ac_program gradient;
  int of[AC_PROGRAM_OPERANDS];
  double y, in[AC_PROGRAM_OPERANDS];
  if (!ac_program_differentiate(program, 1, &operand, &gradient, of)) return false;
  assert_int_equal(of[0], AC_OF_RESULT_GRADIENT);
  ac_program_evaluate(program, x, &y);
  for (int i = 0; i < gradient.operands; i++)
    in[i] = of[i] == AC_OF_RESULT_GRADIENT ? 1 : of[i] == AC_OF_RESULT ? y : x[of[i]];
  ac_program_evaluate(&gradient, in, slope);
  return true;
}

static double difference(const ac_program *program, int operand, const double *at, double step) {
  double x[OPERANDS], more, less;
  memcpy(x, at, sizeof x);
  x[operand] = at[operand] + step;
  ac_program_evaluate(program, x, &more);
  x[operand] = at[operand] - step;
  ac_program_evaluate(program, x, &less);
  return (more - less) / (2 * step);
}

static bool all_finite(const ac_program *program, const double *x) {
  ac_program part = *program;
  double value = 0;
  for (int i = 0; i < program->steps && isfinite(value); i++) {
    part.result[0] = (uint8_t)(AC_FIRST_STEP + i);
    ac_program_evaluate(&part, x, &value);
  }
  return isfinite(value);
}

/* Where two steps agree on the difference, so that there is no kink between. Formulas such as
 * sqrt(a - a) have an infinite slope on the way, which makes NaN as in PyTorch; they are rare. */
static void derives_gradients(void **state) {
  (void)state;
  draws d = {7, 0};
  int compared = 0, drawn = 0, singular = 0;
  while (compared < 5000) {
    char text[12000], message[AC_FORMULA_MESSAGE], whole[12100];
    double x[OPERANDS], slope;
    if (drawn++ > 200000) fail_msg("only %d formulas could be compared", compared);
    for (int k = 0; k < OPERANDS; k++) x[k] = draw_real(&d, -3, 3);
    compose(&d, 1 + (int)draw(&d, 3), x, text);
    snprintf(whole, sizeof whole, "%s + 0 * (a + b + c)", text);
    ac_program program;
    int operand = (int)draw(&d, OPERANDS);
    if (!ac_program_parse(&program, whole, OPERANDS, message)) continue;
    if (!derivative(&program, operand, x, &slope)) continue;
    double coarse = difference(&program, operand, x, 2e-4);
    double fine = difference(&program, operand, x, 1e-4);
    if (!all_finite(&program, x) || fabs(fine) > 1e4 || !near(coarse, fine, 1e-6)) continue;
    compared++;
    if (isnan(slope) && ++singular < 50) continue;
    if (!near(slope, fine, 1e-4))
      fail_msg("the derivative of %s by %c at %g %g %g is %.9g, not %.9g", whole, 'a' + operand,
               x[0], x[1], x[2], slope, fine);
    if (!ac_program_reaches(&program, operand)) assert_true(slope == 0);
  }
}

/* All at once are the same as one by one. */
static void derives_several(void **state) {
  (void)state;
  ac_program program, gradient, single;
  int of[AC_PROGRAM_OPERANDS], of_single[AC_PROGRAM_OPERANDS];
  parse(&program, "a * tanh(softplus(b)) + where(c < 0, a, b * c)", 3);
  const double x[] = {0.7, -1.3, 0.9};
  double y, in[AC_PROGRAM_OPERANDS], all[3], one;
  assert_true(ac_program_differentiate(&program, 3, (int[]){2, 0, 1}, &gradient, of));
  ac_program_evaluate(&program, x, &y);
  for (int i = 0; i < gradient.operands; i++)
    in[i] = of[i] == -1 ? 2.5 : of[i] == -2 ? y : x[of[i]];
  ac_program_evaluate(&gradient, in, all);
  for (int j = 0; j < 3; j++) {
    assert_true(ac_program_differentiate(&program, 1, (int[]){(j + 2) % 3}, &single, of_single));
    for (int i = 0; i < single.operands; i++)
      in[i] = of_single[i] == -1 ? 2.5 : of_single[i] == -2 ? y : x[of_single[i]];
    ac_program_evaluate(&single, in, &one);
    assert_true(one == all[j]);
  }
}

static void reads_only_what_it_needs(void **state) {
  (void)state;
  static const struct {
    const char *formula, *of; /* g: the result's gradient, y: the result */
  } cases[] = {
      {"exp(a)", "gy"},          {"relu(a)", "gy"},     {"tanh(a)", "gy"},
      {"sigmoid(a)", "gy"},      {"softplus(a)", "gy"}, {"leaky_relu(a, 0.1)", "gy"},
      {"elu(a, 1)", "gy"},       {"sqrt(a)", "gy"},     {"leaky_relu(a, -0.1)", "ga"},
      {"gelu(a)", "ga"},         {"2 * a + 1", "g"},    {"sign(a)", "g"},
      {"relu(a) + 0 * a", "ga"}, {"-a", "g"},           {"relu(-2 * a)", "gy"},
      {"square(a)", "ga"},       {"exp(a) / 3", "ga"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_program program, gradient;
    int of[AC_PROGRAM_OPERANDS], operand = 0;
    char text[AC_PROGRAM_OPERANDS + 1] = "";
    parse(&program, cases[i].formula, 1);
    assert_true(ac_program_differentiate(&program, 1, &operand, &gradient, of));
    for (int k = 0; k < gradient.operands; k++)
      text[k] = of[k] == AC_OF_RESULT_GRADIENT ? 'g' : of[k] == AC_OF_RESULT ? 'y' : 'a';
    if (strcmp(text, cases[i].of))
      fail_msg("the gradient of %s reads %s, not %s", cases[i].formula, text, cases[i].of);
  }
}

static void blocks_gradients(void **state) {
  (void)state;
  static const char *const formulas[] = {"where(b, a, 2)", "a * sign(b)", "a * (b < 0)",
                                         "where(b < 1, a, exp(a))", "a + not(b)"};
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    ac_program program;
    double slope;
    parse(&program, formulas[i], 2);
    assert_true(ac_program_reaches(&program, 0));
    assert_false(ac_program_reaches(&program, 1));
    assert_true(derivative(&program, 1, (double[]){0.5, 2, 0}, &slope));
    assert_true(slope == 0);
  }
  /* What is not chosen has no effect, even if it is NaN. */
  ac_program program;
  double slope;
  parse(&program, "where(a > 0, log(a), a * 3)", 1);
  assert_true(derivative(&program, 0, (double[]){-2, 0, 0}, &slope));
  assert_true(slope == 3);
}

/* If a gradient is too long, that is said, and nothing beyond the program is written. */
static void refuses_long_gradients(void **state) {
  (void)state;
  char formula[1000] = "a", message[AC_FORMULA_MESSAGE];
  int refused = 0;
  for (int steps = 1; steps <= 12; steps++) {
    ac_program program, gradient;
    int of[AC_PROGRAM_OPERANDS];
    char before[1000];
    strcpy(before, formula);
    snprintf(formula, sizeof formula, "(%.900s + %d)^b", before, steps);
    if (!ac_program_parse(&program, formula, 2, message)) break;
    refused += !ac_program_differentiate(&program, 2, (int[]){0, 1}, &gradient, of);
  }
  assert_true(refused > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_out_what_changes_nothing),
      cmocka_unit_test(finds_equal_steps),
      cmocka_unit_test(writes_formulas),
      cmocka_unit_test(cuts_texts_off),
      cmocka_unit_test(appends),
      cmocka_unit_test(drops_what_no_result_needs),
      cmocka_unit_test(knows_its_room),
      cmocka_unit_test(counts_flops),
      cmocka_unit_test(computes_what_the_formula_says),
      cmocka_unit_test(derives_gradients),
      cmocka_unit_test(derives_several),
      cmocka_unit_test(reads_only_what_it_needs),
      cmocka_unit_test(blocks_gradients),
      cmocka_unit_test(refuses_long_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
