/* Curves of several runs, one picture for each quantity, drawn by gnuplot. A run has the same
 * colour and dashes in all pictures. */
#ifndef TOOLS_REPORT_CURVES_H
#define TOOLS_REPORT_CURVES_H

#include "report/history.h"

#include <stdio.h>

typedef struct curves {
  const history *runs;
  size_t count;
  bool log;         /* losses and gradient norms on a logarithmic scale */
  const char *path; /* of the page: gnuplot's pictures are next to it for a while */
  int pictures;     /* how many there are in the page; counted by curves_write */
} curves;

/* Writes the pictures of all quantities that some run has, each with its legend. A status of
 * message.h. */
int curves_write(curves *c, FILE *page);

/* A piece of the run's line, for legends. */
void curves_key(FILE *page, size_t run);

#endif
