/* The tables of a page; those without anything to say are left out. */
#ifndef TOOLS_REPORT_TABLES_H
#define TOOLS_REPORT_TABLES_H

#include "report/history.h"

#include <stdio.h>

/* How far each run has come. */
void tables_results(FILE *page, const history *runs, size_t count);

/* Bytes of a window by class, as planned, and what was reached. */
void tables_memory(FILE *page, const history *runs, size_t count);

/* Flags with different values; of a single run the flags that were given. */
void tables_settings(FILE *page, const history *runs, size_t count);

/* Labels against answers, of a classifier that was evaluated. */
void tables_confusion(FILE *page, const history *h);

#endif
