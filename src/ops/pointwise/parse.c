/* Formulas: a parser by recursive descent, a function a rule of the grammar (accrue/pointwise.h).
 * It makes steps as it reads; the first fault is kept and ends the rest. Nothing depends on the
 * locale. */
#include "ops/pointwise/parse.h"

#include "core/error.h"
#include "core/platform/numbers.h"
#include "ops/pointwise/functions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEEP = 64, MOST_DIGITS = 60 };

typedef struct parser {
  ac_program *program;
  const ac_formula_names *names;
  const char *text, *at;
  char *message;
  unsigned used;
  int depth;
} parser;

static int formula(parser *p);

/* ---- faults ---------------------------------------------------------------------------------- */

AC_PRINTF(3, 4) static int fail(parser *p, const char *at, const char *format, ...) {
  if (*p->message) return -1;
  int length = snprintf(p->message, AC_FORMULA_MESSAGE, "column %d: ", (int)(at - p->text) + 1);
  va_list args;
  va_start(args, format);
  vsnprintf(p->message + length, (size_t)(AC_FORMULA_MESSAGE - length), format, args);
  va_end(args);
  return -1;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static int word_length(const char *at) {
  int length = 0;
  while (is_letter(at[length]) || is_digit(at[length])) length++;
  return length < 40 ? length : 40;
}

/* What is at the parser's place, as a word for a sentence. */
static const char *shown(const parser *p, char word[48]) {
  unsigned char c = (unsigned char)*p->at;
  int length = word_length(p->at);
  if (!c) return "the end";
  if (length) snprintf(word, 48, "\"%.*s\"", length, p->at);
  else if (c > ' ' && c < 127) snprintf(word, 48, "\"%c\"", c);
  else snprintf(word, 48, "the byte 0x%02x", c);
  return word;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void skip_blanks(parser *p) {
  while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

static bool take(parser *p, char mark) {
  skip_blanks(p);
  if (*p->at != mark) return false;
  p->at++;
  return true;
}

static int apply(parser *p, const char *at, int function, int a, int b, int c) {
  if (*p->message) return -1;
  int value = ac_program_apply(p->program, function, a, b, c);
  return value < 0 ? fail(p, at, "the formula has become too long here") : value;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The end of a number, which has digits; NULL if it has none. */
static const char *end_of_number(const char *at) {
  int digits = 0;
  for (; is_digit(*at); at++) digits++;
  if (*at == '.')
    for (at++; is_digit(*at); at++) digits++;
  if (!digits) return NULL;
  if (*at != 'e' && *at != 'E') return at;
  at += at[1] == '+' || at[1] == '-' ? 2 : 1;
  if (!is_digit(*at)) return NULL;
  while (is_digit(*at)) at++;
  return at;
}

static int number(parser *p) {
  const char *begin = p->at, *end = end_of_number(begin);
  char digits[MOST_DIGITS + 1];
  if (!end) return fail(p, begin, "a number without all its digits");
  if (end - begin > MOST_DIGITS)
    return fail(p, begin, "a number of more than %d characters", MOST_DIGITS);
  int length = (int)(end - begin);
  memcpy(digits, begin, (size_t)length);
  digits[length] = 0;
  double value = strtod(digits, NULL);
  if (isinf((float)value)) return fail(p, begin, "%s is too large for a float", digits);
  if ((float)value == 0 && strcspn(digits, "123456789") < strcspn(digits, "eE"))
    return fail(p, begin, "%s is too small for a float", digits);
  p->at = end;
  int made = ac_program_constant(p->program, value);
  return made < 0 ? fail(p, begin, "more than %d numbers", AC_PROGRAM_CONSTANTS) : made;
}

/* A function of the table by its name, or -1. */
static int find_function(const parser *p, const char *name, int length) {
  for (int i = 0; i < AC_FUNCTION_COUNT; i++)
    if (!strncmp(ac_functions[i].name, name, (size_t)length) && !ac_functions[i].name[length] &&
        (p->names->hidden || !ac_functions[i].hidden))
      return i;
  return -1;
}

/* For a name such as max or pow it says the whole name. */
static int fail_unknown(parser *p, const char *name, int length) {
  const char *longer = NULL;
  for (int i = 0; i < AC_FUNCTION_COUNT && !longer; i++)
    if (length > 1 && !ac_functions[i].hidden &&
        !strncmp(ac_functions[i].name, name, (size_t)length))
      longer = ac_functions[i].name;
  return longer ? fail(p, name, "there is no function \"%.*s\"; there is %s", length, name, longer)
                : fail(p, name, "there is no function \"%.*s\"", length, name);
}

static int call(parser *p, const char *begin, int function) {
  const ac_function *row = &ac_functions[function];
  int in[3] = {0, 0, 0}, count = 0;
  const char *opened = p->at - 1;
  skip_blanks(p);
  if (*p->at != ')') {
    do {
      int value = formula(p);
      if (value < 0) return -1;
      if (count < 3) in[count] = value;
      count++;
    } while (take(p, ','));
  }
  skip_blanks(p);
  if (*p->at != ')' && count)
    return fail(p, p->at, "a ) is missing; the ( is at column %d", (int)(opened - p->text) + 1);
  p->at++;
  if (count != row->operands)
    return fail(p, begin, "%s takes %d operand%s, not %d", row->name, row->operands,
                row->operands == 1 ? "" : "s", count);
  return apply(p, begin, function, in[0], in[1], in[2]);
}

static int name(parser *p) {
  const char *begin = p->at;
  int length = word_length(begin);
  p->at += length;
  int letter = length == 1 && *begin >= 'a' && *begin <= 'z' ? *begin - 'a' : -1;
  if (letter >= 0) {
    if (p->names->value[letter] < 0) return fail(p, begin, "there is no operand %c", *begin);
    p->used |= 1u << letter;
    return p->names->value[letter];
  }
  int function = find_function(p, begin, length);
  if (function < 0) return fail_unknown(p, begin, length);
  if (!take(p, '('))
    return fail(p, begin, "%s is a function; a ( should follow", ac_functions[function].name);
  return call(p, begin, function);
}

static int value(parser *p) {
  char word[48];
  skip_blanks(p);
  const char *begin = p->at;
  if (is_digit(*begin) || *begin == '.') return number(p);
  if (is_letter(*begin)) return name(p);
  if (!take(p, '('))
    return fail(p, begin, "a number, a name or ( should be here, not %s", shown(p, word));
  int inside = formula(p);
  if (inside >= 0 && !take(p, ')'))
    return fail(p, p->at, "a ) is missing; the ( is at column %d", (int)(begin - p->text) + 1);
  return inside;
}

/* ---- operators ------------------------------------------------------------------------------- */

static int signed_power(parser *p) {
  skip_blanks(p);
  if (++p->depth > MOST_DEEP)
    return fail(p, p->at, "signs, powers and parentheses are more than %d deep", MOST_DEEP);
  const char *begin = p->at;
  int made;
  if (take(p, '-')) {
    int inside = signed_power(p);
    made = inside < 0 ? -1 : apply(p, begin, AC_FUNCTION_negate, inside, 0, 0);
  } else if (take(p, '+')) {
    made = signed_power(p);
  } else {
    made = value(p);
    skip_blanks(p);
    const char *mark = p->at;
    if (made >= 0 && take(p, '^')) {
      int exponent = signed_power(p);
      made = exponent < 0 ? -1 : apply(p, mark, AC_FUNCTION_power, made, exponent, 0);
    }
  }
  p->depth--;
  return made;
}

/* `marks[i]` is the sign of `functions[i]`, between operands that `operand` reads; from the left.
 */
static int chain(parser *p, const char marks[2], const int functions[2],
                 int (*operand)(parser *p)) {
  int left = operand(p);
  while (left >= 0) {
    skip_blanks(p);
    const char *mark = p->at;
    int which = take(p, marks[0]) ? 0 : take(p, marks[1]) ? 1 : -1;
    if (which < 0) break;
    int right = operand(p);
    left = right < 0 ? -1 : apply(p, mark, functions[which], left, right, 0);
  }
  return left;
}

static int product(parser *p) {
  static const int functions[] = {AC_FUNCTION_multiply, AC_FUNCTION_divide};
  return chain(p, "*/", functions, signed_power);
}

static int sum(parser *p) {
  static const int functions[] = {AC_FUNCTION_add, AC_FUNCTION_subtract};
  return chain(p, "+-", functions, product);
}

/* Takes the comparison that is here; -1: none. */
static int comparison(parser *p) {
  static const struct {
    char mark[3];
    int function;
  } all[] = {{"<=", AC_FUNCTION_less_equal}, {">=", AC_FUNCTION_greater_equal},
             {"==", AC_FUNCTION_equal},      {"!=", AC_FUNCTION_not_equal},
             {"<", AC_FUNCTION_less},        {">", AC_FUNCTION_greater}};
  skip_blanks(p);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t length = strlen(all[i].mark);
    if (strncmp(p->at, all[i].mark, length)) continue;
    p->at += length;
    return all[i].function;
  }
  return -1;
}

static int formula(parser *p) {
  int left = sum(p);
  if (left < 0) return -1;
  skip_blanks(p);
  const char *mark = p->at;
  int function = comparison(p);
  if (function < 0) return left;
  int right = sum(p);
  if (right < 0) return -1;
  left = apply(p, mark, function, left, right, 0);
  skip_blanks(p);
  mark = p->at;
  return left >= 0 && comparison(p) >= 0
             ? fail(p, mark, "a second comparison, without parentheses around one of them")
             : left;
}

/* ---- whole formulas -------------------------------------------------------------------------- */

static int whole(parser *p) {
  char word[48];
  skip_blanks(p);
  if (!*p->at) return fail(p, p->at, "the formula is empty");
  int made = formula(p);
  skip_blanks(p);
  if (made < 0 || !*p->at) return made;
  if (*p->at == ')') return fail(p, p->at, "a ( is missing for this )");
  if (*p->at == ',') return fail(p, p->at, "a comma outside of a function");
  if (is_letter(*p->at) || is_digit(*p->at) || *p->at == '.' || *p->at == '(')
    return fail(p, p->at, "an operator is missing before %s", shown(p, word));
  return fail(p, p->at, "%s cannot be in a formula", shown(p, word));
}

int ac_formula_append(ac_program *program, const char *text, const ac_formula_names *names,
                      unsigned *used, char message[AC_FORMULA_MESSAGE]) {
  parser p = {program, names, text, text, message, 0, 0};
  *message = 0;
  if (strlen(text) > AC_MAX_FORMULA_BYTES) {
    snprintf(message, AC_FORMULA_MESSAGE, "column %d: a formula of more than %d bytes",
             AC_MAX_FORMULA_BYTES + 1, AC_MAX_FORMULA_BYTES);
    return -1;
  }
  ac_plain_numbers plain = ac_plain_numbers_begin();
  int made = whole(&p);
  ac_plain_numbers_end(&plain);
  *used = p.used;
  return made;
}

bool ac_program_parse(ac_program *program, const char *text, int operands,
                      char message[AC_FORMULA_MESSAGE]) {
  ac_formula_names names = {.hidden = false};
  unsigned used;
  for (int i = 0; i < 26; i++) names.value[i] = i < operands ? i : -1;
  ac_program_begin(program, operands);
  int result = ac_formula_append(program, text, &names, &used, message);
  if (result < 0) return false;
  for (int i = 0; i < operands; i++) {
    if (used >> i & 1) continue;
    snprintf(message, AC_FORMULA_MESSAGE, "operand %c is not in the formula", 'a' + i);
    return false;
  }
  ac_program_end(program, 1, &result, NULL);
  if (program->steps > AC_FORMULA_STEPS) {
    snprintf(message, AC_FORMULA_MESSAGE,
             "column 1: the formula has %d different steps; the most is %d", program->steps,
             AC_FORMULA_STEPS);
    return false;
  }
  return true;
}
