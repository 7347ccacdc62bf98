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

/* Begins an SVG file. It appears at `path` when the picture is complete; until then an old file
 * stays. A status of message.h; after STATUS_CONTINUE the picture must be closed. */
int gnuplot_open(gnuplot *g, const char *path, int width, int height);

/* Writes text with any bytes as one string for gnuplot. Use this for all text that is not the
 * program's own. */
void gnuplot_quote(FILE *pipe, const char *text);

/* Whether a picture could be drawn there; leaves no file. A status of message.h. */
int gnuplot_check(const char *path);

/* Draws; with `good` false it throws the picture away and says nothing. A status of message.h. */
int gnuplot_close(gnuplot *g, bool good);

/* Draws, and returns the picture instead of leaving a file; free it. A status of message.h. */
int gnuplot_take(gnuplot *g, char **svg);

#endif
