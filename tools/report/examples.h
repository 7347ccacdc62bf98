/* Images in a page: those that were validated worst and best, and how images change while a run
 * trains. */
#ifndef TOOLS_REPORT_EXAMPLES_H
#define TOOLS_REPORT_EXAMPLES_H

#include "report/history.h"

#include <stdio.h>

void examples_write(FILE *page, const history *h);

#endif
