/* A picture of gnuplot in a page. A page may have several, so their ids must differ. */
#ifndef TOOLS_REPORT_PICTURE_H
#define TOOLS_REPORT_PICTURE_H

#include <stdio.h>

typedef struct picture {
  const char *label; /* for readers that cannot see it */
  int number;        /* within the page */
  int width, height; /* as it was drawn; the page scales it */
} picture;

void picture_embed(FILE *page, const char *svg, const picture *p);

#endif
