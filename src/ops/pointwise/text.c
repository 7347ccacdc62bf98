/* Programs as formulas again, with no more parentheses than needed. */
#include "ops/pointwise/functions.h"
#include "ops/pointwise/program.h"

#include "core/platform/numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How closely an operator binds its operands; a function binds as a value does. */
enum { COMPARISON, SUM, PRODUCT, SIGN, POWER, VALUE };

static const struct {
  const char *mark;
  int binds, left, right; /* what operands must bind at least to need no parentheses */
} operators[AC_FUNCTION_COUNT] = {
    [AC_FUNCTION_add] = {" + ", SUM, SUM, PRODUCT},
    [AC_FUNCTION_subtract] = {" - ", SUM, SUM, PRODUCT},
    [AC_FUNCTION_multiply] = {" * ", PRODUCT, PRODUCT, SIGN},
    [AC_FUNCTION_divide] = {" / ", PRODUCT, PRODUCT, SIGN},
    [AC_FUNCTION_power] = {"^", POWER, VALUE, SIGN},
    [AC_FUNCTION_less] = {" < ", COMPARISON, SUM, SUM},
    [AC_FUNCTION_less_equal] = {" <= ", COMPARISON, SUM, SUM},
    [AC_FUNCTION_greater] = {" > ", COMPARISON, SUM, SUM},
    [AC_FUNCTION_greater_equal] = {" >= ", COMPARISON, SUM, SUM},
    [AC_FUNCTION_equal] = {" == ", COMPARISON, SUM, SUM},
    [AC_FUNCTION_not_equal] = {" != ", COMPARISON, SUM, SUM},
};

typedef struct writer {
  const ac_program *program;
  char *text;
  size_t size, length;
} writer;

static void put(writer *w, const char *text) {
  for (; *text && w->length + 1 < w->size; text++) w->text[w->length++] = *text;
}

static int binding(const ac_program *program, int value) {
  if (value < AC_FIRST_CONSTANT) return VALUE;
  if (value < AC_FIRST_STEP)
    return signbit(program->constant[value - AC_FIRST_CONSTANT]) ? SIGN : VALUE;
  int function = program->step[value - AC_FIRST_STEP].function;
  if (function == AC_FUNCTION_negate) return SIGN;
  return operators[function].mark ? operators[function].binds : VALUE;
}

static void put_value(writer *w, int value, int least);

static void put_step(writer *w, const ac_program_step *step) {
  const ac_function *row = &ac_functions[step->function];
  if (step->function == AC_FUNCTION_negate) {
    put(w, "-");
    put_value(w, step->in[0], SIGN);
  } else if (operators[step->function].mark) {
    put_value(w, step->in[0], operators[step->function].left);
    put(w, operators[step->function].mark);
    put_value(w, step->in[1], operators[step->function].right);
  } else {
    put(w, row->name);
    for (int k = 0; k < row->operands; k++) {
      put(w, k ? ", " : "(");
      put_value(w, step->in[k], COMPARISON);
    }
    put(w, ")");
  }
}

static void put_value(writer *w, int value, int least) {
  if (w->length + 1 >= w->size) return; /* what is shared is written each time: without end */
  bool inside = binding(w->program, value) < least;
  char word[40];
  if (inside) put(w, "(");
  if (value < AC_FIRST_CONSTANT) {
    snprintf(word, sizeof word, "%c", 'a' + value);
    put(w, word);
  } else if (value < AC_FIRST_STEP) {
    snprintf(word, sizeof word, "%.9g", (double)w->program->constant[value - AC_FIRST_CONSTANT]);
    put(w, word);
  } else {
    put_step(w, &w->program->step[value - AC_FIRST_STEP]);
  }
  if (inside) put(w, ")");
}

void ac_program_text(const ac_program *program, int result, char *text, size_t size) {
  writer w = {program, text, size, 0};
  if (!size) return;
  ac_plain_numbers plain = ac_plain_numbers_begin();
  put_value(&w, program->result[result], COMPARISON);
  ac_plain_numbers_end(&plain);
  text[w.length] = 0;
}
