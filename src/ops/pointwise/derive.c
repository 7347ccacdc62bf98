/* Symbolic differentiation in reverse. The gradient's program first computes what the function
 * does, with the function's result as an operand in the place of its last step. Then each step,
 * from the last to the first, passes its gradient on to what it reads, by the formulas of the
 * table. Contributions are added in the order of the steps. What nothing needs is dropped at the
 * end, and so are the operands that only that needs. */
#include "ops/pointwise/functions.h"
#include "ops/pointwise/parse.h"

#include <string.h>

enum { RESULT_GRADIENT, RESULT, FIRST_OPERAND, VALUES = AC_FIRST_STEP + AC_PROGRAM_STEPS };

typedef struct derivation {
  const ac_program *function;
  ac_program *gradient;
  int value[VALUES];   /* of the function's values, in the gradient's program */
  int adjoint[VALUES]; /* the gradients of these; -1: none yet */
  bool wanted[VALUES]; /* it leads to an operand that is wanted */
  bool fits;
} derivation;

static void mark_wanted(derivation *d, int count, const int *wanted) {
  for (int i = 0; i < count; i++) d->wanted[wanted[i]] = true;
  for (int i = 0; i < d->function->steps; i++) {
    const ac_program_step *step = &d->function->step[i];
    for (int k = 0; k < ac_functions[step->function].operands; k++)
      if (ac_functions[step->function].gradient[k] && d->wanted[step->in[k]])
        d->wanted[AC_FIRST_STEP + i] = true;
  }
}

static void compute_values(derivation *d) {
  const ac_program *function = d->function;
  for (int i = 0; i < function->operands; i++) d->value[i] = FIRST_OPERAND + i;
  for (int i = 0; i < function->constants; i++)
    d->value[AC_FIRST_CONSTANT + i] =
        ac_program_constant(d->gradient, (double)function->constant[i]);
  for (int i = 0; i < function->steps; i++) {
    const ac_program_step *step = &function->step[i];
    int *value = &d->value[AC_FIRST_STEP + i];
    *value = function->result[0] == AC_FIRST_STEP + i
                 ? RESULT
                 : ac_program_apply(d->gradient, step->function, d->value[step->in[0]],
                                    d->value[step->in[1]], d->value[step->in[2]]);
    d->fits = d->fits && *value >= 0;
  }
}

static void add(derivation *d, int value, int contribution) {
  int *adjoint = &d->adjoint[value];
  *adjoint = *adjoint < 0
                 ? contribution
                 : ac_program_apply(d->gradient, AC_FUNCTION_add, *adjoint, contribution, 0);
  d->fits = d->fits && *adjoint >= 0;
}

/* Whether step i gives the result, and y > 0 just where a > 0: then y is enough. */
static bool sign_is_kept(const derivation *d, int i) {
  const ac_program_step *step = &d->function->step[i];
  int b = step->in[1];
  return ac_functions[step->function].sign_kept && d->value[AC_FIRST_STEP + i] == RESULT &&
         b >= AC_FIRST_CONSTANT && b < AC_FIRST_STEP &&
         d->function->constant[b - AC_FIRST_CONSTANT] >= 0;
}

/* What step i passes on to its operand k. */
static void pass(derivation *d, int i, int k) {
  const ac_program_step *step = &d->function->step[i];
  const ac_function *row = &ac_functions[step->function];
  char message[AC_FORMULA_MESSAGE];
  unsigned used;
  ac_formula_names names = {.hidden = true};
  memset(names.value, -1, sizeof names.value);
  for (int j = 0; j < row->operands; j++) names.value[j] = d->value[step->in[j]];
  names.value['y' - 'a'] = d->value[AC_FIRST_STEP + i];
  names.value['g' - 'a'] = d->adjoint[AC_FIRST_STEP + i];
  if (k == 0 && sign_is_kept(d, i)) names.value[0] = names.value['y' - 'a'];
  int contribution = ac_formula_append(d->gradient, row->gradient[k], &names, &used, message);
  d->fits = d->fits && contribution >= 0;
  if (d->fits) add(d, step->in[k], contribution);
}

static void pass_all(derivation *d) {
  d->adjoint[d->function->result[0]] = RESULT_GRADIENT;
  for (int i = d->function->steps - 1; i >= 0 && d->fits; i--) {
    const ac_program_step *step = &d->function->step[i];
    if (d->adjoint[AC_FIRST_STEP + i] < 0) continue;
    for (int k = 0; k < ac_functions[step->function].operands && d->fits; k++)
      if (ac_functions[step->function].gradient[k] && d->wanted[step->in[k]]) pass(d, i, k);
  }
}

/* Leaves out the operands that nothing reads, but for the result's gradient. */
static void close_ranks(ac_program *gradient, unsigned used, int of[AC_PROGRAM_OPERANDS]) {
  int place[AC_PROGRAM_OPERANDS] = {0}, count = 0;
  for (int i = 0; i < gradient->operands; i++) {
    if (i != RESULT_GRADIENT && !(used >> i & 1)) continue;
    of[count] = i == RESULT_GRADIENT ? AC_OF_RESULT_GRADIENT
                : i == RESULT        ? AC_OF_RESULT
                                     : i - FIRST_OPERAND;
    place[i] = count++;
  }
  for (int i = 0; i < gradient->steps; i++) {
    ac_program_step *step = &gradient->step[i];
    for (int k = 0; k < ac_functions[step->function].operands; k++)
      if (step->in[k] < AC_FIRST_CONSTANT) step->in[k] = (uint8_t)place[step->in[k]];
  }
  for (int i = 0; i < gradient->results; i++)
    if (gradient->result[i] < AC_FIRST_CONSTANT)
      gradient->result[i] = (uint8_t)place[gradient->result[i]];
  gradient->operands = (uint8_t)count;
}

bool ac_program_differentiate(const ac_program *program, int count, const int *wanted,
                              ac_program *gradient, int of[AC_PROGRAM_OPERANDS]) {
  derivation d = {.function = program, .gradient = gradient, .fits = true};
  int result[AC_PROGRAM_RESULTS];
  unsigned used;
  memset(d.adjoint, -1, sizeof d.adjoint);
  ac_program_begin(gradient, program->operands + FIRST_OPERAND);
  mark_wanted(&d, count, wanted);
  compute_values(&d);
  if (d.fits) pass_all(&d);
  for (int i = 0; i < count && d.fits; i++) {
    int adjoint = d.adjoint[wanted[i]];
    result[i] = adjoint < 0 ? ac_program_constant(gradient, 0) : adjoint;
    d.fits = result[i] >= 0;
  }
  if (!d.fits) return false;
  ac_program_end(gradient, count, result, &used);
  close_ranks(gradient, used, of);
  return true;
}

bool ac_program_reaches(const ac_program *program, int operand) {
  derivation d = {.function = program};
  mark_wanted(&d, 1, &operand);
  return d.wanted[program->result[0]];
}
