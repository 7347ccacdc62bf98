#include "program/rate_svg.h"

#include "common/gnuplot.h"
#include "common/message.h"

#include <inttypes.h>
#include <stdio.h>

/* Columns: rate, loss, smoothed loss. */
static void put_points(FILE *pipe, const ac_rate_point *points, const ac_rate_test *test) {
  fprintf(pipe, "$points << EOD\n");
  for (int64_t i = 0; i < test->count; i++)
    fprintf(pipe, "%.9g %.9g %.9g\n", points[i].rate, points[i].loss, points[i].smoothed);
  fprintf(pipe, "EOD\n");
}

/* Shows the fall in the middle: if a loss diverges, the fall would be too small to see. */
static void put_range(FILE *pipe, const ac_rate_point *points, const ac_rate_test *test) {
  const double first = points[0].smoothed, lowest = points[test->lowest].smoothed;
  if (test->steepest >= 0)
    fprintf(pipe, "set yrange [%.9g:%.9g]\n", lowest - 0.3 * (first - lowest),
            first + 0.6 * (first - lowest));
}

static void put_plot(FILE *pipe, const ac_rate_point *points, const ac_rate_test *test) {
  fprintf(pipe, "set title 'Loss while the learning rate rises'\nset xlabel 'learning rate'\n"
                "set ylabel 'loss, nats'\nset logscale x\nset format x '%%.0e'\n"
                "set grid lc rgb '#dddddd'\nset key top left\n");
  if (test->steepest >= 0) {
    const ac_rate_point *best = &points[test->steepest];
    fprintf(pipe,
            "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead lw 1.5 dt 3 lc rgb "
            "'#55a868'\nset label 'suggested: %.2g' at first %.9g, graph 0.05 offset 1\n",
            best->rate, best->rate, best->rate, best->rate);
  }
  fprintf(pipe, "plot $points using 1:2 with points pt 7 ps 0.4 lc rgb '#c8c8c8' title 'loss', "
                "$points using 1:3 with lines lw 2 lc rgb '#4c72b0' title 'smoothed'\n");
}

int rate_svg(const ac_rate_point *points, const ac_rate_test *test, const char *path) {
  gnuplot g;
  int status = gnuplot_open(&g, path, 900, 520);
  if (status != STATUS_CONTINUE) return status;
  put_points(g.pipe, points, test);
  put_range(g.pipe, points, test);
  put_plot(g.pipe, points, test);
  return gnuplot_close(&g, true);
}
