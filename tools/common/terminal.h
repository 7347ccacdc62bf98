/* What the terminal at a descriptor can do: how wide it is, and whether a line can be drawn again.
 */
#ifndef TOOLS_COMMON_TERMINAL_H
#define TOOLS_COMMON_TERMINAL_H

#include <stdbool.h>

enum { TERMINAL_BAR = 24 }; /* characters of a whole bar */

/* Whether a line may be erased and drawn again: a terminal, unless TERM is dumb or not set. */
bool terminal_redraws(int descriptor);

/* Columns of the terminal; 80 if it does not tell. At least 1. */
int terminal_columns(int descriptor);

/* Draws one line on stderr over the line that is there: a bar, if `all` is above 0, then as much of
 * `text` as fits, so that the line never wraps. `text` is ASCII. The cursor stays in the line. */
void terminal_draw(long long done, long long all, const char *text);

/* Erases that line. */
void terminal_erase(void);

#endif
