/* A range test as a picture, by gnuplot. */
#ifndef TOOLS_PROGRAM_RATE_SVG_H
#define TOOLS_PROGRAM_RATE_SVG_H

#include <accrue/range_test.h>

/* Losses, the smoothed curve, and the rate that is suggested. A status of message.h. */
int rate_svg(const ac_rate_point *points, const ac_rate_test *test, const char *path);

#endif
