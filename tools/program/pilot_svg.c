/* The picture of a pilot: for each value of the first axis the mean loss with its deviation, a line
 * for each combination of the others. */
#include "program/pilot.h"

#include "common/gnuplot.h"
#include "common/message.h"

#include <math.h>
#include <stdio.h>

static int lines_of(const pilot *p) {
  return p->grid.cells / p->grid.axes[0].count;
}

/* Whether the last rung of a cell has a mean of all runs. */
static bool has_point(const pilot_summary *s) {
  return !s->diverged && s->loss.count;
}

static bool has_points(const pilot *p) {
  bool any = false;
  for (int cell = 0; cell < p->grid.cells && !any; cell++) {
    const pilot_summary s = pilot_summary_of(p, cell, p->last_rung[cell]);
    any = has_point(&s);
  }
  return any;
}

/* A line takes every lines_of(p)-th cell. The columns are the place of the value, the mean and the
 * deviation; a cell with a run that diverged has no point. */
static void put_points(FILE *pipe, const pilot *p, int line) {
  fprintf(pipe, "$line%d << EOD\n", line);
  for (int i = 0; i < p->grid.axes[0].count; i++) {
    const int cell = i * lines_of(p) + line;
    const pilot_summary s = pilot_summary_of(p, cell, p->last_rung[cell]);
    if (!has_point(&s)) continue;
    fprintf(pipe, "%d %.9g %.9g\n", i, s.loss.mean, isnan(s.loss.deviation) ? 0 : s.loss.deviation);
  }
  fputs("EOD\n", pipe);
}

/* "batch 64, without dropout": the axes but the first. */
static void put_title(FILE *pipe, const pilot *p, int line) {
  char text[256] = "";
  size_t used = 0;
  for (int axis = 1; axis < p->grid.axis_count && used < sizeof text; axis++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "",
                             p->grid.axes[axis].name, grid_setting_of(&p->grid, line, axis)->label);
  gnuplot_quote(pipe, text);
}

static void put_axes(FILE *pipe, const pilot *p) {
  const grid_axis *first = &p->grid.axes[0];
  fprintf(pipe, "set title 'Loss at the end: mean and deviation of %d runs' noenhanced\n",
          p->runs_per_cell);
  fprintf(pipe, "set xlabel ");
  gnuplot_quote(pipe, first->name);
  fprintf(pipe, " noenhanced\nset ylabel 'validation loss, nats' noenhanced\n");
  fprintf(pipe, "set grid lc rgb '#dddddd'\nset key top right noenhanced\nset xtics noenhanced (");
  for (int i = 0; i < first->count; i++) {
    if (i) fputs(", ", pipe);
    gnuplot_quote(pipe, first->settings[i].label);
    fprintf(pipe, " %d", i);
  }
  fprintf(pipe, ")\nset xrange [-0.5:%g]\n", first->count - 0.5);
}

int pilot_svg(const pilot *p, const char *path) {
  gnuplot g;
  if (!has_points(p)) {
    say("%s is not drawn: all cells have runs that diverged", path);
    return STATUS_CONTINUE;
  }
  int status = gnuplot_open(&g, path, 900, 520);
  if (status != STATUS_CONTINUE) return status;
  for (int line = 0; line < lines_of(p); line++) put_points(g.pipe, p, line);
  put_axes(g.pipe, p);
  for (int line = 0; line < lines_of(p); line++) {
    fprintf(g.pipe, "%s$line%d using 1:2:3 with yerrorlines lw 1.5 pt 7 ps 0.6 title ",
            line ? ", " : "plot ", line);
    put_title(g.pipe, p, line);
  }
  fputc('\n', g.pipe);
  return gnuplot_close(&g, true);
}
