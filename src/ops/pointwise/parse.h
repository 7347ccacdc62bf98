/* What formulas of users and those of the table share. */
#ifndef AC_OPS_PARSE_H
#define AC_OPS_PARSE_H

#include "ops/pointwise/program.h"

/* What the letters of a formula are: values of the program, -1 for those that name nothing. */
typedef struct ac_formula_names {
  int value[26];
  bool hidden; /* functions of the table that users do not have are known */
} ac_formula_names;

/* Appends a formula to the program, and gives its value. -1 with a sentence if there is a fault or
 * no room. `used` gets a bit for each letter that is there. */
int ac_formula_append(ac_program *program, const char *formula, const ac_formula_names *names,
                      unsigned *used, char message[AC_FORMULA_MESSAGE]);

#endif
