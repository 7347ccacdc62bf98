/* A plan's memory over one window as a picture. */
#ifndef TOOLS_PROGRAM_PLAN_SVG_H
#define TOOLS_PROGRAM_PLAN_SVG_H

#include <accrue/plan.h>

/* Writes an SVG file: bytes by class over the steps of a micro-batch, stacked, with the budget as a
 * line. Drawn by gnuplot, which must be installed. A status of message.h. */
int plan_svg(const ac_plan *plan, const char *path);

#endif
