/* The page: one file with everything in it, without scripts, that fetches nothing. It is XML as
 * well as HTML, so that it can be checked. */
#ifndef TOOLS_REPORT_PAGE_H
#define TOOLS_REPORT_PAGE_H

#include "report/curves.h"
#include "report/history.h"

/* `curves` knows the runs. A status of message.h. */
int page_write(FILE *page, const char *title, curves *curves);

#endif
