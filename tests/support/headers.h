/* The functions that the public headers declare, so that tests can ask for all of them. */
#ifndef AC_TESTS_HEADERS_H
#define AC_TESTS_HEADERS_H

#include "check.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DECLARED = 512, MOST_PARAMETERS = 10 };

/* Texts have single spaces and no comments. */
typedef struct declared {
  char result[48], name[64];
  int count;
  char parameter[MOST_PARAMETERS][96]; /* "const ac_plan_desc *desc" */
} declared;

extern int declared_count;
extern declared declarations[MOST_DECLARED];

/* From every header that accrue.h includes. */
void read_declarations(void);

#endif
