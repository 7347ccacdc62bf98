/* The table of functions: derivatives of every row against central differences, values and
 * gradients at special points as PyTorch has them, and the expressions of the CPU against doubles
 * over all floats, evenly by their bits. */
#include "support/check.h"

#include "backend/cpu/shared/vector_functions.h"
#include "ops/pointwise/functions.h"
#include "ops/pointwise/program.h"
#include "ops/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find(const char *name) {
  for (int f = 0; f < AC_FUNCTION_COUNT; f++)
    if (!strcmp(ac_functions[f].name, name)) return f;
  fail_msg("there is no function %s", name);
  return -1;
}

static void program_of(ac_program *program, int function) {
  ac_program_begin(program, ac_functions[function].operands);
  int result = ac_program_apply(program, function, 0, 1, 2);
  ac_program_end(program, 1, &result, NULL);
}

static double derivative(const ac_program *program, int operand, const double *x, double y) {
  ac_program gradient;
  int of[AC_PROGRAM_OPERANDS];
  double in[AC_PROGRAM_OPERANDS], slope;
  assert_true(ac_program_differentiate(program, 1, &operand, &gradient, of));
  for (int i = 0; i < gradient.operands; i++)
    in[i] = of[i] == AC_OF_RESULT_GRADIENT ? 1 : of[i] == AC_OF_RESULT ? y : x[of[i]];
  ac_program_evaluate(&gradient, in, &slope);
  return slope;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

static uint64_t seed = 5;

static double draw(double low, double high) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (high - low) * (double)(seed >> 40) / (1 << 24);
}

/* Operands in the row's range, not next to its kinks or each other. */
static void draw_operands(const ac_function *row, double x[3]) {
  for (int i = 0; i < 3; i++) {
    bool clear;
    do {
      x[i] = draw(row->low, row->high);
      clear = fabs(x[i]) > 0.01;
      for (int k = 0; k < 2; k++) clear = clear && fabs(x[i] - row->kinks[k]) > 0.01;
      for (int k = 0; k < i; k++) clear = clear && fabs(x[i] - x[k]) > 0.01;
    } while (!clear);
  }
}

static void has_true_derivatives(void **state) {
  (void)state;
  for (int f = 0; f < AC_FUNCTION_COUNT; f++) {
    const ac_function *row = &ac_functions[f];
    ac_program program;
    program_of(&program, f);
    for (int n = 0; n < 300 && !row->hidden && !row->stopped; n++) {
      double x[3], moved[3];
      draw_operands(row, x);
      double y = ac_function_value(f, x[0], x[1], x[2]);
      assert_true(isfinite(y));
      for (int k = 0; k < row->operands; k++) {
        const double step = 1e-5;
        memcpy(moved, x, sizeof moved);
        moved[k] = x[k] + step;
        double more = ac_function_value(f, moved[0], moved[1], moved[2]);
        moved[k] = x[k] - step;
        double less = ac_function_value(f, moved[0], moved[1], moved[2]);
        double expected = (more - less) / (2 * step), slope = derivative(&program, k, x, y);
        if (!(fabs(slope - expected) <= 1e-7 + 1e-6 * fabs(expected)))
          fail_msg("the derivative of %s by %c at %g %g %g is %.9g, not %.9g", row->name, 'a' + k,
                   x[0], x[1], x[2], slope, expected);
      }
    }
  }
}

/* ---- special values -------------------------------------------------------------------------- */

typedef struct special {
  const char *function;
  double x[3], y, slope[3];
  int slopes;
} special;

/* By PyTorch 2.15.0 in double precision, clamp with numbers as bounds. */
static const special specials[] = {
    {"maximum", {2, 2}, 2, {0.5, 0.5}, 2},
    {"maximum", {NAN, 1}, NAN, {1, 1}, 2},
    {"maximum", {1, NAN}, NAN, {1, 1}, 2},
    {"minimum", {2, 2}, 2, {0.5, 0.5}, 2},
    {"minimum", {NAN, 1}, NAN, {1, 1}, 2},
    {"minimum", {1, NAN}, NAN, {1, 1}, 2},
    {"power", {0, 0}, 1, {0, 0}, 2},
    {"power", {0, 1}, 0, {1, 0}, 2},
    {"power", {0, 2}, 0, {0, 0}, 2},
    {"power", {0, 0.5}, 0, {INFINITY, 0}, 2},
    {"power", {0, -1}, INFINITY, {-INFINITY, -INFINITY}, 2},
    {"power", {-2, 3}, -8, {12, NAN}, 2},
    {"power", {-2, 2}, 4, {-4, NAN}, 2},
    {"power", {-2, 0.5}, NAN, {NAN, NAN}, 2},
    {"power", {NAN, 0}, 1, {0, NAN}, 2},
    {"power", {1, NAN}, 1, {NAN, 0}, 2},
    {"power", {INFINITY, -1}, 0, {-0, NAN}, 2},
    {"power", {2, INFINITY}, INFINITY, {INFINITY, INFINITY}, 2},
    {"power", {-INFINITY, 3}, -INFINITY, {INFINITY, NAN}, 2},
    {"sqrt", {0}, 0, {INFINITY}, 1},
    {"sqrt", {-1}, NAN, {NAN}, 1},
    {"rsqrt", {0}, INFINITY, {-INFINITY}, 1},
    {"reciprocal", {0}, INFINITY, {-INFINITY}, 1},
    {"abs", {0}, 0, {0}, 1},
    {"abs", {NAN}, NAN, {0}, 1},
    {"sign", {0}, 0, {0}, 1},
    {"sign", {NAN}, 0, {0}, 1},
    {"stop_gradient", {3}, 3, {0}, 1},
    {"divide", {1, 0}, INFINITY, {INFINITY, -INFINITY}, 2},
    {"divide", {0, 0}, NAN, {INFINITY, NAN}, 2},
    {"clamp", {-1, -1, 1}, -1, {0}, 1},
    {"clamp", {1, -1, 1}, 1, {0}, 1},
    {"clamp", {0.5, -1, 1}, 0.5, {1}, 1},
    {"clamp", {-3, -1, 1}, -1, {0}, 1},
    {"clamp", {NAN, -1, 1}, NAN, {0}, 1},
    {"clamp", {0.5, 0, INFINITY}, 0.5, {1}, 1},
    {"clamp", {-0.5, 0, INFINITY}, 0, {0}, 1},
    {"clamp", {0.5, -INFINITY, 0}, 0, {0}, 1},
    {"clamp", {-2, -INFINITY, INFINITY}, -2, {1}, 1},
    {"exp", {INFINITY}, INFINITY, {INFINITY}, 1},
    {"exp", {-INFINITY}, 0, {0}, 1},
    {"log", {0}, -INFINITY, {INFINITY}, 1},
    {"log", {-1}, NAN, {-1}, 1},
    {"log1p", {-1}, -INFINITY, {INFINITY}, 1},
    {"log1p", {-2}, NAN, {-1}, 1},
    {"expm1", {-INFINITY}, -1, {0}, 1},
    {"tanh", {INFINITY}, 1, {0}, 1},
    {"tanh", {NAN}, NAN, {NAN}, 1},
    {"sigmoid", {1000}, 1, {0}, 1},
    {"sigmoid", {-1000}, 0, {0}, 1},
    {"softplus", {1000}, 1000, {1}, 1},
    {"softplus", {-100}, 3.72007598e-44, {3.72007598e-44}, 1},
    {"softplus", {NAN}, NAN, {NAN}, 1},
    {"log_sigmoid", {-1000}, -1000, {1}, 1},
    {"log_sigmoid", {100}, -3.72007598e-44, {3.72007598e-44}, 1},
    {"relu", {0}, 0, {0}, 1},
    {"relu", {NAN}, NAN, {1}, 1},
    {"relu6", {0}, 0, {0}, 1},
    {"relu6", {6}, 6, {0}, 1},
    {"relu6", {NAN}, NAN, {1}, 1},
    {"leaky_relu", {0, 0.25}, 0, {0.25}, 1},
    {"leaky_relu", {NAN, 0.25}, NAN, {0.25}, 1},
    {"elu", {0, 0.5}, 0, {0.5}, 1},
    {"elu", {-1000, 0.5}, -0.5, {0}, 1},
    {"selu", {0}, 0, {1.75809934}, 1},
    {"gelu", {0}, 0, {0.5}, 1},
    {"gelu", {100}, 100, {1}, 1},
    {"gelu", {-100}, -0, {0}, 1},
    {"gelu_tanh", {100}, 100, {1}, 1},
    {"gelu_tanh", {-100}, -0, {0}, 1},
    {"silu", {1000}, 1000, {1}, 1},
    {"silu", {-1000}, -0, {-0}, 1},
    {"mish", {0}, 0, {0.6}, 1},
    {"mish", {1000}, 1000, {1}, 1},
    {"mish", {-1000}, -0, {0}, 1},
    {"hard_sigmoid", {-3}, 0, {0}, 1},
    {"hard_sigmoid", {3}, 1, {0}, 1},
    {"hard_sigmoid", {NAN}, NAN, {0}, 1},
    {"hard_swish", {-3}, -0, {0}, 1},
    {"hard_swish", {3}, 3, {1}, 1},
    {"softsign", {0}, 0, {1}, 1},
    {"less", {NAN, 1}, 0, {0, 0}, 2},
    {"equal", {NAN, NAN}, 0, {0, 0}, 2},
    {"not_equal", {NAN, NAN}, 1, {0, 0}, 2},
    {"not", {0}, 1, {0}, 1},
    {"not", {NAN}, 0, {0}, 1},
    {"where", {NAN, 1, 2}, 1, {0, 1, 0}, 3},
    {"where", {0, 1, 2}, 2, {0, 0, 1}, 3},
    {"where", {1, NAN, 2}, NAN, {0, 1, 0}, 3},
    {"where", {0, NAN, 2}, 2, {0, 0, 1}, 3},
    {"sin", {INFINITY}, NAN, {NAN}, 1},
    {"erf", {INFINITY}, 1, {0}, 1},
};
enum { SPECIALS = sizeof specials / sizeof *specials };

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-7 * fabs(b) + 1e-43;
}

static void has_pytorchs_special_values(void **state) {
  (void)state;
  for (int i = 0; i < SPECIALS; i++) {
    const special *s = &specials[i];
    int f = find(s->function);
    ac_program program;
    double y;
    program_of(&program, f);
    ac_program_evaluate(&program, s->x, &y);
    if (!same(y, s->y))
      fail_msg("%s of %g %g %g is %g, not %g", s->function, s->x[0], s->x[1], s->x[2], y, s->y);
    for (int k = 0; k < s->slopes; k++) {
      double slope = derivative(&program, k, s->x, y);
      if (!same(slope, s->slope[k]))
        fail_msg("the derivative of %s by %c at %g %g %g is %g, not %g", s->function, 'a' + k,
                 s->x[0], s->x[1], s->x[2], slope, s->slope[k]);
    }
  }
}

/* Values and gradients of random operands, and of formulas. */
static void is_as_pytorch(void **state) {
  (void)state;
  int count, functions = 0;
  op_vector *vectors = op_vectors_read("functions", &count);
  assert_non_null(vectors);
  for (int i = 0; i < count; i++) {
    char formula[64], message[AC_FORMULA_MESSAGE];
    ac_program program;
    const op_vector_tensor *in[3], *dy = op_vector_find(&vectors[i], "dy");
    int operands = 0;
    for (char name[] = "in0"; operands < 3; operands++, name[2]++)
      if (!(in[operands] = op_vector_find(&vectors[i], name))) break;
    strcpy(formula, vectors[i].name);
    for (char *slash; (slash = strchr(formula, ':'));) *slash = '/';
    functions += !strchr(formula, '(');
    if (strchr(formula, '(')) {
      if (!ac_program_parse(&program, formula, operands, message)) fail_msg("%s", message);
    } else {
      program_of(&program, find(formula));
    }
    for (int e = 0; e < dy->count; e++) {
      double x[3], y;
      for (int k = 0; k < operands; k++) x[k] = in[k]->data[e];
      ac_program_evaluate(&program, x, &y);
      double expected = op_vector_find(&vectors[i], "out0")->data[e];
      if (!(fabs(y - expected) <= 1e-6 * fabs(expected) + 1e-7))
        fail_msg("%s is %.9g, not %.9g", formula, y, expected);
      char name[] = "grad0";
      for (int k = 0; k < operands; k++, name[4]++) {
        const op_vector_tensor *gradient = op_vector_find(&vectors[i], name);
        double slope = derivative(&program, k, x, y) * dy->data[e];
        expected = gradient ? gradient->data[e] : 0;
        if (!(fabs(slope - expected) <= 1e-6 * fabs(expected) + 1e-7))
          fail_msg("the gradient of %s by %c is %.9g, not %.9g", formula, 'a' + k, slope, expected);
      }
    }
  }
  op_vectors_free(vectors, count);
  for (int f = 0; f < AC_FUNCTION_COUNT; f++) {
    const ac_function *row = &ac_functions[f];
    functions -= !row->hidden && (row->gradient[0] || row->gradient[1]);
  }
  assert_int_equal(functions, 0); /* each one that has a gradient is there */
}

/* ---- on the CPU ------------------------------------------------------------------------------ */

enum { BLOCK = 1024 };
typedef void run(const float *pa, const float *pb, const float *pc, float *y);

#define RUN(name, operands, text, cpu, ...)                                             \
  static void run_##name(const float *pa, const float *pb, const float *pc, float *y) { \
    _Pragma("omp simd") for (int i = 0; i < BLOCK; i++) {                               \
      float a = pa[i], b = pb[i], c = pc[i];                                            \
      (void)a, (void)b, (void)c;                                                        \
      y[i] = cpu;                                                                       \
    }                                                                                   \
  }
AC_FUNCTION_LIST(RUN)

static run *const runs[] = {
#define ENTRY(name, ...) run_##name,
    AC_FUNCTION_LIST(ENTRY)
#undef ENTRY
};

/* The most that a result is off, in ulp; 0.5 is what rounding alone does. */
static double allowed(int function) {
  switch (function) {
  case AC_FUNCTION_exp:
    return 1.5;
  case AC_FUNCTION_expm1:
    return 1.5;
  case AC_FUNCTION_log:
    return 1;
  case AC_FUNCTION_log1p:
  case AC_FUNCTION_rsqrt:
  case AC_FUNCTION_softsign:
  case AC_FUNCTION_power:
  case AC_FUNCTION_hard_sigmoid:
    return 2;
  case AC_FUNCTION_sin:
  case AC_FUNCTION_cos:
    return 2;
  case AC_FUNCTION_elu:
    return 2;
  case AC_FUNCTION_selu:
  case AC_FUNCTION_erf:
  case AC_FUNCTION_tanh:
  case AC_FUNCTION_hard_swish:
    return 3;
  case AC_FUNCTION_sigmoid:
  case AC_FUNCTION_softplus:
  case AC_FUNCTION_log_sigmoid:
  case AC_FUNCTION_silu:
  case AC_FUNCTION_mish:
    return 6;
  /* Near where the slope is 0 terms cancel; and tails by e^-x^2/2 have the rounding of x^2. */
  case AC_FUNCTION_silu_slope:
  case AC_FUNCTION_mish_slope:
  case AC_FUNCTION_gelu:
  case AC_FUNCTION_gelu_tanh:
  case AC_FUNCTION_gelu_slope:
  case AC_FUNCTION_gelu_tanh_slope:
    return INFINITY;
  default:
    return 0.51;
  }
}

/* Results below this may become 0: some exponentials do not make denormals. */
#define FLUSHED 1e-36

/* Any float, and often a small multiple of 1/2, or a power that gives no infinity. */
static float draw_second(int function, float a) {
  uint32_t bits = (uint32_t)draw(0, 4294967295.0);
  double kind = draw(0, 3);
  if (kind < 1) return ac_float_from_bits(bits);
  if (kind < 2) return (float)((int)(bits % 41) - 20) / 2;
  return function == AC_FUNCTION_power && isfinite(a) && a != 0 && fabsf(a) != 1
             ? (float)(draw(-150, 128) / log2(fabs((double)a)))
             : (float)draw(-10, 10);
}

static double ulps(float got, double expected) {
  if (isnan(got) && isnan(expected)) return 0;
  if ((double)got == expected || got == (float)expected) return 0;
  if (fabs(expected) > (double)FLT_MAX) /* rounds to an infinity, or not */
    return fabsf(got) >= FLT_MAX && (got > 0) == (expected > 0) ? 0 : INFINITY;
  if (!isfinite(got)) return fabs(expected) > 3.4028e38 ? 0 : INFINITY;
  if (fabs(expected) < FLUSHED && fabsf(got) <= 2 * FLUSHED) return 0;
  return fabs((double)got - expected) / ldexp(1, ilogb(expected) - 23);
}

static void is_exact_on_the_cpu(void **state) {
  (void)state;
  static float a[BLOCK], b[BLOCK], c[BLOCK], y[BLOCK];
  const uint64_t step = 30011; /* prime: all kinds of bits */
  for (int f = 0; f < AC_FUNCTION_COUNT; f++) {
    const int operands = ac_functions[f].operands;
    for (uint64_t base = 0; base < UINT64_C(1) << 32; base += step * BLOCK) {
      for (int i = 0; i < BLOCK; i++) {
        a[i] = ac_float_from_bits((uint32_t)(base + (uint64_t)i * step));
        if (operands > 1) b[i] = draw_second(f, a[i]);
        if (operands > 2) c[i] = draw_second(f, a[i]);
      }
      runs[f](a, b, c, y);
      for (int i = 0; i < BLOCK; i++) {
        double expected = ac_function_value(f, (double)a[i], (double)b[i], (double)c[i]);
        double off = ulps(y[i], expected);
        bool bounded = fabs(expected) < 1e3 && fabsf(a[i]) < 1e18f;
        if (allowed(f) < INFINITY
                ? off > allowed(f)
                : bounded && !(fabs((double)y[i] - expected) <= 1e-6 + 4e-7 * fabs(expected)))
          fail_msg("%s of %.9g %.9g %.9g is %.9g, not %.9g: %.2f ulp off", ac_functions[f].name,
                   (double)a[i], (double)b[i], (double)c[i], (double)y[i], expected, off);
      }
    }
  }
}

/* Also the values that no sweep would meet. */
static void is_special_on_the_cpu(void **state) {
  (void)state;
  for (int i = 0; i < SPECIALS; i++) {
    const special *s = &specials[i];
    float x[3][BLOCK], y[BLOCK];
    for (int k = 0; k < 3; k++)
      for (int j = 0; j < BLOCK; j++) x[k][j] = (float)s->x[k];
    runs[find(s->function)](x[0], x[1], x[2], y);
    for (int j = 0; j < BLOCK; j++)
      if (!(isnan(s->y)
                ? isnan(y[j])
                : (double)y[j] == s->y || fabs((double)y[j] - s->y) <= 1e-6 * fabs(s->y) + FLUSHED))
        fail_msg("%s of %g %g %g is %g, not %g", s->function, s->x[0], s->x[1], s->x[2],
                 (double)y[j], s->y);
  }
}

/* ---- what is written about them -------------------------------------------------------------- */

static char *text_of_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s cannot be read", path);
  char *text = calloc(1, 1 << 16);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

/* Each function has its row in docs/guide/own-functions.md, and is in the text of ac_formula. */
static void is_documented(void **state) {
  (void)state;
  static const char *const operands[] = {"", "a", "a, b", "a, b, c"};
  char *page = text_of_file(AC_TEST_HEADERS "/../../docs/guide/own-functions.md");
  char *header = text_of_file(AC_TEST_HEADERS "/pointwise.h");
  const char *listed = strstr(header, "The functions are those of this header");
  assert_non_null(listed);
  for (int f = 0; f < AC_FUNCTION_COUNT; f++) {
    const ac_function *row = &ac_functions[f];
    char line[1000], word[50];
    int length = snprintf(line, sizeof line, "\n| `%s(%s)` | %s |", row->name,
                          operands[row->operands], row->text);
    const char *comma = "";
    for (int k = 0; k < row->operands; k++) {
      if (!row->gradient[k]) continue;
      length += snprintf(line + length, sizeof line - (size_t)length, "%s %c: `%s`", comma, 'a' + k,
                         row->gradient[k]);
      comma = ",";
    }
    snprintf(line + length, sizeof line - (size_t)length, "%s |\n", *comma ? "" : " none");
    if (!row->hidden && !strstr(page, line)) fail_msg("the page lacks the line%s", line);
    snprintf(word, sizeof word, " %s", row->name);
    if (!row->hidden && !strstr(listed, word)) fail_msg("the header does not list%s", word);
  }
  free(header);
  free(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_true_derivatives),  cmocka_unit_test(has_pytorchs_special_values),
      cmocka_unit_test(is_as_pytorch),         cmocka_unit_test(is_exact_on_the_cpu),
      cmocka_unit_test(is_special_on_the_cpu), cmocka_unit_test(is_documented),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
