/* The cells of a pilot: all combinations of the values of its axes. An axis is a flag of `accrue
 * train` with its values (--grid), or all that --ablate switches off, one at a time. */
#ifndef TOOLS_PROGRAM_PILOT_GRID_H
#define TOOLS_PROGRAM_PILOT_GRID_H

#include "common/options.h"

enum { GRID_MOST_AXES = OPTION_LIST_MOST + 1, GRID_MOST_VALUES = 64, GRID_MOST_CELLS = 4096 };

typedef struct grid_setting {
  const char *label; /* its name in a table: "3e-4", "without dropout" */
  const char *flag;  /* without dashes; NULL: nothing is set */
  const char *value; /* NULL: a switch that is left out */
  bool is_switch;
} grid_setting;

typedef struct grid_axis {
  const char *name;
  char *text; /* holds labels, flags and values */
  grid_setting settings[GRID_MOST_VALUES];
  int count;
} grid_axis;

typedef struct grid {
  grid_axis axes[GRID_MOST_AXES];
  int axis_count, cells;
} grid;

/* Of the flags in `o`. A status of message.h; grid_free is needed in any case. */
int grid_make(grid *g, const options *o, const option_list *axes, const option_list *ablations);
void grid_free(grid *g);

/* The first axis changes most slowly. */
const grid_setting *grid_setting_of(const grid *g, int cell, int axis);

#endif
