/* Texts of docs/flags and docs/commands: Markdown with paragraphs, lists and code, for a terminal
 * and for a page of the manual. Marks within a line (backquotes, stars, links) are left out. */
#ifndef TOOLS_COMMON_FLAG_TEXT_H
#define TOOLS_COMMON_FLAG_TEXT_H

#include <stdio.h>

/* Writes words. A line takes as many as fit between the columns. The first line begins at column
 * `at`, the others at `indent`. It ends with a line break. A word that is longer than a line is not
 * cut. */
void flag_text_wrap(FILE *out, const char *text, int at, int indent, int width);

/* For a terminal, each line after `indent` blanks. */
void flag_text_put(FILE *out, const char *text, int indent, int width);

/* For an entry (.TP) or a section of a page of the manual; `next` is the request that begins
 * another paragraph. */
void flag_text_put_roff(FILE *out, const char *text, const char *next);

#endif
