/* Formulas: the first byte is the number of operands, the rest is the text. What is taken can be
 * written, parsed to what computes the same again, evaluated and differentiated. */
#include "fuzz.h"

#include "ops/pointwise/functions.h"
#include "ops/pointwise/program.h"

#include <string.h>

static void differentiate(const ac_program *program) {
  const double operand[AC_PROGRAM_OPERANDS] = {0.5, -1, 2, 0, 3, 1e30, 1, 1};
  double result[AC_PROGRAM_RESULTS];
  int of[AC_PROGRAM_OPERANDS];
  ac_program gradient;
  for (int i = 0; i < program->operands; i++) {
    if (!ac_program_differentiate(program, 1, &i, &gradient, of)) continue;
    FUZZ_CHECK(gradient.operands >= 1 && of[0] == AC_OF_RESULT_GRADIENT);
    ac_program_evaluate(&gradient, operand, result);
  }
}

static void run(const uint8_t *data, size_t bytes) {
  char formula[1200], message[AC_FORMULA_MESSAGE] = "", text[4000];
  ac_program program, again;
  const double values[AC_PROGRAM_OPERANDS] = {1, 2, 3, 4, 5, 6};
  double result[AC_PROGRAM_RESULTS];
  if (!bytes) return;
  int operands = 1 + data[0] % AC_FORMULA_OPERANDS;
  if (--bytes >= sizeof formula) bytes = sizeof formula - 1;
  memcpy(formula, data + 1, bytes);
  formula[bytes] = 0;
  if (!ac_program_parse(&program, formula, operands, message)) {
    FUZZ_CHECK(*message && !strchr(message, '\n'));
    return;
  }
  FUZZ_CHECK(program.steps <= AC_FORMULA_STEPS && program.results == 1);
  ac_program_evaluate(&program, values, result);
  differentiate(&program);
  ac_program_text(&program, 0, text, sizeof text);
  if (strlen(text) < 900 && ac_program_parse(&again, text, operands, message)) {
    double same[AC_PROGRAM_RESULTS];
    ac_program_evaluate(&again, values, same);
    FUZZ_CHECK(program.steps == again.steps &&
               (*same == *result || (*same != *same && *result != *result)));
  }
}

static void seeds(fuzz_take take) {
  static const char *const texts[] = {"\1a * tanh(softplus(b))",
                                      "\2where(a < b, -c^2, clamp(a, -1.5e-3, .5))",
                                      "\0(a + 1) / (a - 1) == 2^a^-1", "\0leaky_relu(a, 0.1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    take(texts[i], 1 + strlen(texts[i] + 1));
  for (int i = 0; i < AC_FUNCTION_COUNT; i++) {
    char text[100] = "\2";
    strcat(strcat(text, ac_functions[i].name), "(a, b, c)");
    take(text, strlen(text));
  }
}

const fuzz_format fuzz_formula = {"formula", run, seeds};
