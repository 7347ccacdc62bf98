/* The roofline picture: arithmetic intensity against speed, under the roofs of the devices. */
#ifndef TOOLS_BENCH_SVG_H
#define TOOLS_BENCH_SVG_H

#include "bench/rows.h"

/* Writes an SVG file with a point for each op and product that does arithmetic. A status of
 * message.h. */
int bench_svg(const bench_report *report, const char *path);

#endif
