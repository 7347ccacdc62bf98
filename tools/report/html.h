/* Text in a page: whatever it holds, it stays text. */
#ifndef TOOLS_REPORT_HTML_H
#define TOOLS_REPORT_HTML_H

#include <stdio.h>

/* Writes `text` so that it is safe between tags and within quotes. Bytes that are not UTF-8, and
 * characters that a page must not have, become U+FFFD. */
void html_text(FILE *page, const char *text);

/* A name that others have chosen: its direction of writing does not change the text around it. */
void html_name(FILE *page, const char *name);

#endif
