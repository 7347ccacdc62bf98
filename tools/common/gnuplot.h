/* Pictures drawn by gnuplot, which must be installed. */
#ifndef TOOLS_COMMON_GNUPLOT_H
#define TOOLS_COMMON_GNUPLOT_H

#include "common/replacement.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct gnuplot {
  FILE *pipe; /* takes gnuplot's commands */
  replacement file;
} gnuplot;

/* Begins an SVG file, which appears at `path` when the picture is whole: until then an old one
 * stays. A status of message.h; after STATUS_CONTINUE the picture must be closed. */
int gnuplot_open(gnuplot *g, const char *path, int width, int height);

/* Writes text as one string of gnuplot's, whatever bytes it has. All text that is not the program's
 * own goes through this. */
void gnuplot_quote(FILE *pipe, const char *text);

/* Whether a picture could be drawn there; leaves no file. A status of message.h. */
int gnuplot_check(const char *path);

/* Draws; with `good` false it throws the picture away and says nothing. A status of message.h. */
int gnuplot_close(gnuplot *g, bool good);

/* Draws, and hands over the picture instead of leaving a file; free it. A status of message.h. */
int gnuplot_take(gnuplot *g, char **svg);

#endif
