/* The tables of a page; a table without content is left out. */
#ifndef TOOLS_REPORT_TABLES_H
#define TOOLS_REPORT_TABLES_H

#include "report/history.h"

#include <stdio.h>

/* The progress of each run. */
void tables_results(FILE *page, const history *runs, size_t count);

/* Bytes of a window by class: planned, and the most that was used. */
void tables_memory(FILE *page, const history *runs, size_t count);

/* Flags with different values; of a single run the flags that were given. */
void tables_settings(FILE *page, const history *runs, size_t count);

/* Labels against answers, if a classifier was evaluated. */
void tables_confusion(FILE *page, const history *h);

/* The accuracy of each class, the worst first. */
void tables_classes(FILE *page, const history *h);

#endif
