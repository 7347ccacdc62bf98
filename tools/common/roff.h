/* Text for a page of the manual, so that it comes out as it was: what roff would take for its own
 * is escaped. */
#ifndef TOOLS_COMMON_ROFF_H
#define TOOLS_COMMON_ROFF_H

#include <stdio.h>

void roff_put_character(FILE *out, char c);
void roff_put(FILE *out, const char *text);
/* In a font: B or I. */
void roff_put_font(FILE *out, char font, const char *text);

#endif
