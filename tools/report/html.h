/* Text in a page: whatever it holds, it stays text. */
#ifndef TOOLS_REPORT_HTML_H
#define TOOLS_REPORT_HTML_H

#include <stdio.h>

/* Writes `text` so that it may stand between tags and within quotes. What is no UTF-8, or no
 * character that a page may have, becomes U+FFFD. */
void html_text(FILE *page, const char *text);

/* A name that others have chosen: its direction of writing does not reach what stands beside it. */
void html_name(FILE *page, const char *name);

#endif
