/* A function of elements as a list of steps: what the op `pointwise` runs, what a formula is parsed
 * to, and what gradients and fused neighbours are made of.
 *
 * Every step applies a function of the table (functions.h) to values. A value is a number:
 *
 *   [0, 8)     operand: an element of a tensor, named a, b, ... in a formula
 *   [8, 32)    constant
 *   [32, 128)  the result of a step, which only reads values that are there before it
 *
 * Programs are values: copied with a node's attributes, compared by their bytes (what is not used
 * is zero). Equal steps, constant steps and steps that nothing reads are left out while one is
 * made, so two ways to write a function give one program. */
#ifndef AC_OPS_PROGRAM_H
#define AC_OPS_PROGRAM_H

#include "ops/arguments.h"

enum {
  AC_PROGRAM_OPERANDS = 8,
  AC_PROGRAM_CONSTANTS = 24,
  AC_PROGRAM_STEPS = 96,
  AC_PROGRAM_RESULTS = AC_MAX_OUTPUTS,
  AC_FIRST_CONSTANT = AC_PROGRAM_OPERANDS,
  AC_FIRST_STEP = AC_FIRST_CONSTANT + AC_PROGRAM_CONSTANTS,
  /* Of a function of the user's, and of what is fused: with its gradient come the result's gradient
   * and the result itself. */
  AC_FORMULA_OPERANDS = AC_MAX_FORMULA_OPERANDS,
  AC_FORMULA_STEPS = 24
};
_Static_assert(AC_FORMULA_OPERANDS + 2 <= AC_PROGRAM_OPERANDS, "gradients have two operands more");

typedef struct ac_program_step {
  uint8_t function; /* of functions.h */
  uint8_t in[3];    /* values; 0 beyond the function's operands */
} ac_program_step;

typedef struct ac_program {
  uint8_t operands, constants, steps, results;
  uint8_t result[AC_PROGRAM_RESULTS]; /* values */
  float constant[AC_PROGRAM_CONSTANTS];
  ac_program_step step[AC_PROGRAM_STEPS];
} ac_program;

/* ---- making one. Each returns a value, or -1 where there is no room left or an argument is -1, so
 * that calls can be nested and the last one checked. ------------------------------------------- */

void ac_program_begin(ac_program *program, int operands);
int ac_program_constant(ac_program *program, double value);
/* Applies a function; folds constants (in double precision, rounded once), leaves out what changes
 * nothing (x * 1, x + 0 but for the sign of zero) and finds an equal step that is there already. */
int ac_program_apply(ac_program *program, int function, int a, int b, int c);
/* Appends `other` with its operand i being value operand[i]; gives the values of its results. False
 * if there is no room. */
bool ac_program_append(ac_program *program, const ac_program *other, const int *operand,
                       int result[AC_PROGRAM_RESULTS]);
/* Drops steps and constants that no result needs; `used` (may be NULL) gets a bit for each operand
 * that is read. Operands keep their numbers. */
void ac_program_end(ac_program *program, int results, const int *result, unsigned *used);

/* ---- formulas -------------------------------------------------------------------------------- */

enum { AC_FORMULA_MESSAGE = 256 };

/* Parses a formula (accrue/pointwise.h has the grammar) over `operands` operands, and it must name
 * each of them. False with a sentence that begins with the position of the fault, `column 5: `;
 * bytes count from 1. */
bool ac_program_parse(ac_program *program, const char *formula, int operands,
                      char message[AC_FORMULA_MESSAGE]);
/* As a formula again; cut off where the room ends. */
void ac_program_text(const ac_program *program, int result, char *text, size_t size);

/* ---- gradients ------------------------------------------------------------------------------- */

/* What an operand of a gradient's program is. */
enum { AC_OF_RESULT_GRADIENT = -1, AC_OF_RESULT = -2 }; /* else the operand of the function */

/* For a program of one result and at most AC_FORMULA_OPERANDS operands: makes one in which result j
 * is the gradient with respect to operand wanted[j]. Its operand i is `of[i]`: the result's
 * gradient first, and else only what it needs. It reads the function's result instead of its
 * operands where that suffices. False if there is no room. */
bool ac_program_differentiate(const ac_program *program, int count, const int *wanted,
                              ac_program *gradient, int of[AC_PROGRAM_OPERANDS]);
/* Whether an operand gets a gradient from the result: not through comparisons, and not as the
 * condition of a choice. */
bool ac_program_reaches(const ac_program *program, int operand);

/* ---- running one ----------------------------------------------------------------------------- */

/* In double precision: the reference of tests. */
void ac_program_evaluate(const ac_program *program, const double *operand, double *result);
/* For one element. */
double ac_program_flops(const ac_program *program);

#endif
