/* A picture of gnuplot's within a page: a page may hold several, so their ids must differ. */
#ifndef TOOLS_REPORT_PICTURE_H
#define TOOLS_REPORT_PICTURE_H

#include <stdio.h>

typedef struct picture {
  const char *label; /* for readers that cannot see it */
  int number;        /* within the page */
  int width, height; /* as it was drawn; it takes the width that there is */
} picture;

void picture_embed(FILE *page, const char *svg, const picture *p);

#endif
