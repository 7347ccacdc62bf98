#include "bench/svg.h"

#include "common/gnuplot.h"
#include "common/message.h"

#include <math.h>
#include <string.h>

static const char *const colours[BENCH_DEVICES] = {"#4c72b0", "#c44e52", "#55a868", "#8172b3",
                                                   "#dd8452", "#937860", "#da8bc3", "#8c8c8c"};

static bool has_point(const bench_row *row, int d) {
  const bench_result *r = &row->results[d];
  return r->measured && row->kind != BENCH_STEP && r->flops > 0 && r->bytes > 0;
}

/* The first device on which the row has a point; -1: it has none. */
static int first_point(const bench_report *report, const bench_row *row) {
  for (int d = 0; d < report->device_count; d++)
    if (has_point(row, d)) return d;
  return -1;
}

static double total_seconds(const bench_row *row, int d) {
  return row->results[d].timing.median * (double)(row->count ? row->count : 1);
}

/* Only one of the rows with the same name gets the name: of those that begin with this device the
 * one with the most time in all. */
static bool is_labelled(const bench_report *report, int index, int d) {
  const bench_row *row = &report->rows[index];
  if (first_point(report, row) != d) return false;
  for (int i = 0; i < report->count; i++) {
    const bench_row *other = &report->rows[i];
    if (i == index || first_point(report, other) != d || strcmp(other->name, row->name) != 0)
      continue;
    double more = total_seconds(other, d) - total_seconds(row, d);
    if (more > 0 || (more == 0 && i < index)) return false;
  }
  return true;
}

/* Columns: flops a byte, GFLOP/s, name or nothing. */
static void put_points(FILE *pipe, const bench_report *report, int d) {
  fprintf(pipe, "$points%d << EOD\n", d);
  for (int i = 0; i < report->count; i++) {
    const bench_row *row = &report->rows[i];
    const bench_result *r = &row->results[d];
    if (!has_point(row, d)) continue;
    fprintf(pipe, "%.6g %.6g \"%s\"\n", r->flops / r->bytes, r->flops / r->timing.median * 1e-9,
            is_labelled(report, i, d) ? row->name : "");
  }
  fprintf(pipe, "EOD\n");
}

static void put_roofs(FILE *pipe, const bench_report *report, int d) {
  const ac_bench_roofs *roofs = &report->roofs[d];
  const char *id = ac_device_get_info(report->devices[d])->id;
  for (int p = 0; p < AC_BENCH_PRECISIONS; p++) {
    if (!roofs->flops[p]) continue;
    double flops = roofs->flops[p] * 1e-9, bytes = roofs->bytes * 1e-9;
    fprintf(pipe, " (x * %.6g < %.6g ? x * %.6g : %.6g) with lines lw 1.5 dt %d lc rgb '%s' title ",
            bytes, flops, bytes, flops, p + 1, colours[d]);
    char title[256];
    snprintf(title, sizeof title, "%s: %.4g GB/s, %.4g GFLOP/s in %s", id, bytes, flops,
             ac_precision_name((ac_precision)p));
    gnuplot_quote(pipe, title);
    fputc(',', pipe);
  }
}

static bool has_points(const bench_report *report, int d) {
  for (int i = 0; i < report->count; i++)
    if (has_point(&report->rows[i], d)) return true;
  return false;
}

/* The usual range of flops a byte, and what lies beyond it. */
static void put_range(FILE *pipe, const bench_report *report) {
  double least = 0.05, most = 2000;
  for (int i = 0; i < report->count; i++)
    for (int d = 0; d < report->device_count; d++) {
      const bench_result *r = &report->rows[i].results[d];
      if (!has_point(&report->rows[i], d)) continue;
      least = fmin(least, r->flops / r->bytes / 1.5);
      most = fmax(most, r->flops / r->bytes * 1.5);
    }
  fprintf(pipe, "set xrange [%.6g:%.6g]\n", least, most);
}

static void put_plot(FILE *pipe, const bench_report *report) {
  put_range(pipe, report);
  fprintf(pipe,
          "set termoption noenhanced\nset logscale xy\nset samples 400\nset grid lc rgb '#dddddd'\n"
          "set title 'Work and traffic of ops against what the device can do'\n"
          "set xlabel 'flops a byte'\nset ylabel 'GFLOP/s'\n"
          "set key bottom right\nplot");
  for (int d = 0; d < report->device_count; d++) put_roofs(pipe, report, d);
  const char *comma = "";
  for (int d = 0; d < report->device_count; d++) {
    if (!has_points(report, d)) continue;
    fprintf(pipe, "%s $points%d using 1:2 with points pt 7 ps 0.6 lc rgb '%s' title ", comma, d,
            colours[d]);
    gnuplot_quote(pipe, ac_device_get_info(report->devices[d])->id);
    fprintf(pipe, ", $points%d using 1:2:3 with labels left offset 0.6,0.3 font ',8' notitle", d);
    comma = ",";
  }
  fputc('\n', pipe);
}

int bench_svg(const bench_report *report, const char *path) {
  bool any = false;
  for (int d = 0; d < report->device_count; d++) any |= has_points(report, d);
  if (!any) return fail("no row does arithmetic that a picture could show");
  gnuplot g;
  int status = gnuplot_open(&g, path, 1200, 760);
  if (status != STATUS_CONTINUE) return status;
  for (int d = 0; d < report->device_count; d++) put_points(g.pipe, report, d);
  put_plot(g.pipe, report);
  return gnuplot_close(&g, true);
}
