/* The parser of formulas: what it takes, what the operators bind, and the sentence of each fault.
 */
#include "support/check.h"

#include "ops/pointwise/functions.h"
#include "ops/pointwise/program.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double value_of(const char *formula, double a, double b) {
  ac_program program;
  char message[AC_FORMULA_MESSAGE];
  int operands = strchr(formula, 'b') ? 2 : 1;
  double operand[] = {a, b}, result;
  if (!ac_program_parse(&program, formula, operands, message)) fail_msg("%s: %s", formula, message);
  ac_program_evaluate(&program, operand, &result);
  return result;
}

static void binds(void **state) {
  (void)state;
  const double a = 3, b = 5;
  const struct {
    const char *formula;
    double value;
  } cases[] = {
      {"a+2*b", 13},
      {"(a+2)*b", 25},
      {"a-b-1", -3},
      {"a-(b-1)", -1},
      {"a/b/2", a / b / 2},
      {"a/(b/2)", a / (b / 2)},
      {"a*b/2*3", 22.5},
      {"-a^2", -9},
      {"(-a)^2", 9},
      {"a^-2", 1 / 9.},
      {"2^a^2", 512},
      {"(2^a)^2", 64},
      {"a--b", 8},
      {"a+-b", -2},
      {"a-+b", -2},
      {"- - a", 3},
      {"-a*b", -15},
      {"a*-b", -15},
      {"-a-b", -8},
      {"a+1<b", 1},
      {"a+b<4", 0},
      {"(a < b) == 1", 1},
      {"a <= 3", 1},
      {"a >= 3.5", 0},
      {"a == 3", 1},
      {"a != 3", 0},
      {"a > b", 0},
      {"where(a < b, a, b) * 2", 6},
      {"maximum(a, b) - minimum(a, b)", 2},
      {"clamp(a, -1, 1)", 1},
      {".5*a", 1.5},
      {"5.*a", 15},
      {"1e1*a", 30},
      {"1.5E-1*a", 0.45},
      {"2e+0*a", 6},
      {" \t a\n + \r\n 1 ", 4},
      {"not(a - 3)", 1},
      {"exp ( a )", exp(3)},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double value = value_of(cases[i].formula, a, b);
    if (!(fabs(value - cases[i].value) <= 1e-6 * fabs(cases[i].value)))
      fail_msg("%s is %.9g, not %.9g", cases[i].formula, value, cases[i].value);
  }
}

/* Of every function that users have, by its own name. */
static void knows_all_functions(void **state) {
  (void)state;
  for (int f = 0; f < AC_FUNCTION_COUNT; f++) {
    const ac_function *row = &ac_functions[f];
    static const char *const operands[] = {"", "a", "a, b", "a, b, c"};
    char formula[100], message[AC_FORMULA_MESSAGE];
    ac_program program;
    snprintf(formula, sizeof formula, "%s(%s)", row->name, operands[row->operands]);
    bool taken = ac_program_parse(&program, formula, row->operands, message);
    if (taken == row->hidden) fail_msg("%s: %s", formula, taken ? "is taken" : message);
    if (!taken) continue;
    assert_int_equal(program.steps, 1);
    assert_int_equal(program.step[0].function, f);
    /* One operand less or more is refused. */
    snprintf(formula, sizeof formula, "%s(%s, 2)", row->name, operands[row->operands]);
    assert_false(ac_program_parse(&program, formula, row->operands, message));
    assert_non_null(strstr(message, "takes"));
  }
}

static void names_faults(void **state) {
  (void)state;
  static const struct {
    const char *formula, *sentence;
    int operands;
  } cases[] = {
      {"", "column 1: the formula is empty", 1},
      {"  ", "column 3: the formula is empty", 1},
      {"a +", "column 4: a number, a name or ( should be here, not the end", 1},
      {"a + * 2", "column 5: a number, a name or ( should be here, not \"*\"", 1},
      {"a + )", "column 5: a number, a name or ( should be here, not \")\"", 1},
      {"()", "column 2: a number, a name or ( should be here, not \")\"", 1},
      {"2 a", "column 3: an operator is missing before \"a\"", 1},
      {"a(2)", "column 2: an operator is missing before \"(\"", 1},
      {"a b", "column 3: an operator is missing before \"b\"", 2},
      {"1.2.3 * a", "column 4: an operator is missing before \".\"", 1},
      {"a + (b * 2", "column 11: a ) is missing; the ( is at column 5", 2},
      {"exp(a", "column 6: a ) is missing; the ( is at column 4", 1},
      {"exp(a + 2 b)", "column 11: a ) is missing; the ( is at column 4", 2},
      {"a + 2)", "column 6: a ( is missing for this )", 1},
      {"a, 2", "column 2: a comma outside of a function", 1},
      {"a % 2", "column 3: \"%\" cannot be in a formula", 1},
      {"a = 2", "column 3: \"=\" cannot be in a formula", 1},
      {"a \xc3\x97 2", "column 3: the byte 0xc3 cannot be in a formula", 1},
      {"\xce\xb1", "column 1: a number, a name or ( should be here, not the byte 0xce", 1},
      {"a\x01", "column 2: the byte 0x01 cannot be in a formula", 1},
      {"foo(a)", "column 1: there is no function \"foo\"", 1},
      {"max(a, 2)", "column 1: there is no function \"max\"; there is maximum", 1},
      {"2 * pow(a, 2)", "column 5: there is no function \"pow\"; there is power", 1},
      {"a + Tanh(a)", "column 5: there is no function \"Tanh\"", 1},
      {"A", "column 1: there is no function \"A\"", 1},
      {"inf * a", "column 1: there is no function \"inf\"", 1},
      {"gelu_slope(a)", "column 1: there is no function \"gelu_slope\"", 1},
      {"a + c", "column 5: there is no operand c", 2},
      {"exp", "column 1: exp is a function; a ( should follow", 1},
      {"exp + a", "column 1: exp is a function; a ( should follow", 1},
      {"1 + tanh(a, 2)", "column 5: tanh takes 1 operand, not 2", 1},
      {"where(a, 2)", "column 1: where takes 3 operands, not 2", 1},
      {"clamp(a, 1, 2, 3, 4)", "column 1: clamp takes 3 operands, not 5", 1},
      {"exp()", "column 1: exp takes 1 operand, not 0", 1},
      {"exp(,a)", "column 5: a number, a name or ( should be here, not \",\"", 1},
      {"a < 1 < 2", "column 7: a second comparison, without parentheses around one of them", 1},
      {"1e99 * a", "column 1: 1e99 is too large for a float", 1},
      {"a + 4e38", "column 5: 4e38 is too large for a float", 1},
      {"1e-60 * a", "column 1: 1e-60 is too small for a float", 1},
      {"1e * a", "column 1: a number without all its digits", 1},
      {"1e+ * a", "column 1: a number without all its digits", 1},
      {". * a", "column 1: a number without all its digits", 1},
      {"0x10 * a", "column 2: an operator is missing before \"x10\"", 1},
      {"1,5 * a", "column 2: a comma outside of a function", 1},
      {"2", "operand a is not in the formula", 1},
      {"a + c", "operand b is not in the formula", 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_program program;
    char message[AC_FORMULA_MESSAGE] = "taken";
    ac_program_parse(&program, cases[i].formula, cases[i].operands, message);
    if (strcmp(message, cases[i].sentence))
      fail_msg("%s: %s\nand not: %s", cases[i].formula, message, cases[i].sentence);
  }
}

static bool parse(const char *formula, char message[AC_FORMULA_MESSAGE]) {
  ac_program program;
  return ac_program_parse(&program, formula, 1, message);
}

static void knows_limits(void **state) {
  (void)state;
  char formula[4000], message[AC_FORMULA_MESSAGE];
  for (int deep = 60; deep < 70; deep++) { /* (((a))) */
    memset(formula, '(', (size_t)deep);
    formula[deep] = 'a';
    memset(formula + deep + 1, ')', (size_t)deep);
    formula[2 * deep + 1] = 0;
    assert_int_equal(parse(formula, message), deep < 64);
    if (deep >= 64)
      assert_string_equal(message,
                          "column 65: signs, powers and parentheses are more than 64 deep");
  }
  memset(formula, '-', 1000); /* ---...a: as long as it may be, but too deep */
  strcpy(formula + 999, "a");
  assert_false(parse(formula, message));
  assert_string_equal(message, "column 65: signs, powers and parentheses are more than 64 deep");
  memset(formula, ' ', 1000);
  strcpy(formula + 999, "a");
  assert_true(parse(formula, message));
  strcpy(formula + 1000, "a");
  formula[999] = ' ';
  assert_false(parse(formula, message));
  assert_string_equal(message, "column 1001: a formula of more than 1000 bytes");
  memset(formula, '1', 100);
  strcpy(formula + 100, "*a");
  assert_false(parse(formula, message));
  assert_string_equal(message, "column 1: a number of more than 60 characters");
}

/* A program holds few steps and few numbers. */
static void knows_room(void **state) {
  (void)state;
  char formula[4000], message[AC_FORMULA_MESSAGE];
  for (int steps = 22; steps < 120; steps++) { /* sin(sin(...a + 1) + 1) would be too deep */
    int length = sprintf(formula, "a");
    for (int i = 0; i < steps; i++) length += sprintf(formula + length, "%sa", i % 2 ? "*" : "/");
    bool taken = parse(formula, message);
    assert_int_equal(taken, steps <= 24);
    if (!taken && steps <= AC_PROGRAM_STEPS) {
      char sentence[100];
      snprintf(sentence, sizeof sentence,
               "column 1: the formula has %d different steps; the most is 24", steps);
      assert_string_equal(message, sentence);
    } else if (!taken) {
      assert_string_equal(message, "column 194: the formula has become too long here");
    }
  }
  for (int numbers = 20; numbers < 30; numbers++) {
    int length = sprintf(formula, "a");
    for (int i = 0; i < numbers; i++) length += sprintf(formula + length, "*%d", 2 + i);
    bool taken = parse(formula, message);
    assert_int_equal(taken, numbers <= 24);
    if (!taken) assert_string_equal(message, "column 67: more than 24 numbers");
  }
}

/* A decimal comma of the locale changes nothing. */
static void ignores_the_locale(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !setlocale(LC_ALL, names[i]);) i++;
  assert_true(value_of("a * 1.5", 2, 0) == 3);
  ac_program program;
  char message[AC_FORMULA_MESSAGE], text[100];
  assert_true(ac_program_parse(&program, "a * 1.5", 1, message));
  ac_program_text(&program, 0, text, sizeof text);
  assert_string_equal(text, "a * 1.5");
  setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(binds),        cmocka_unit_test(knows_all_functions),
      cmocka_unit_test(names_faults), cmocka_unit_test(knows_limits),
      cmocka_unit_test(knows_room),   cmocka_unit_test(ignores_the_locale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
