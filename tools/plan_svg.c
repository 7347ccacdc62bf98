#include "plan_svg.h"

#include "message.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* gnuplot reads a path between single quotes, where a quote is written twice. */
static void put_path(FILE *gnuplot, const char *path) {
  fputc('\'', gnuplot);
  for (; *path; path++) {
    if (*path == '\'') fputc('\'', gnuplot);
    fputc(*path, gnuplot);
  }
  fputc('\'', gnuplot);
}

/* Columns: step, then the running sums of the classes in MiB. */
static ac_status put_data(FILE *gnuplot, const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  const double mebibyte = 1 << 20;
  fprintf(gnuplot, "$memory << EOD\n");
  for (int64_t i = 0; i < info->steps; i++) {
    ac_plan_step step;
    ac_status status = ac_plan_get_step(plan, i, &step);
    if (status != AC_OK) return status;
    uint64_t sum = info->bytes.parameters;
    fprintf(gnuplot, "%" PRId64 " %.6f", i + 1, (double)sum / mebibyte);
    fprintf(gnuplot, " %.6f", (double)(sum += info->bytes.gradients) / mebibyte);
    fprintf(gnuplot, " %.6f", (double)(sum += info->bytes.optimizer) / mebibyte);
    fprintf(gnuplot, " %.6f", (double)(sum += info->bytes.io) / mebibyte);
    fprintf(gnuplot, " %.6f", (double)(sum += step.live_bytes - step.workspace_bytes) / mebibyte);
    fprintf(gnuplot, " %.6f\n", (double)(sum += step.workspace_bytes) / mebibyte);
  }
  fprintf(gnuplot, "EOD\n");
  return AC_OK;
}

static void put_plot(FILE *gnuplot, const ac_plan_info *info) {
  static const struct {
    const char *name, *colour;
  } classes[] = {{"parameters", "#4c72b0"},  {"gradients", "#dd8452"},
                 {"optimizer", "#55a868"},   {"input and output", "#8172b3"},
                 {"activations", "#c44e52"}, {"workspace", "#ccb974"}};
  fprintf(gnuplot,
          "set title 'Memory over one micro-batch of %" PRId64 " (%" PRId64 " a window), %" PRId64
          " ops run again'\n",
          info->micro_batch, info->accumulation_steps, info->recomputed_ops);
  fprintf(gnuplot,
          "set xlabel 'step'\nset ylabel 'MiB'\nset yrange [0:*]\nset xrange [1:%" PRId64
          "]\nset key outside right top\nset style fill solid 0.85 noborder\n",
          info->steps);
  fprintf(gnuplot, "plot");
  for (int i = 5; i >= 0; i--)
    fprintf(gnuplot, " $memory using 1:%d with filledcurves y1=0 lc rgb '%s' title '%s',", i + 2,
            classes[i].colour, classes[i].name);
  double total = (double)info->bytes.total / (1 << 20);
  fprintf(gnuplot, " %.6f with lines lw 1.5 dt 3 lc rgb 'black' title 'planned total'", total);
  if (info->budget_bytes)
    fprintf(gnuplot, ", %.6f with lines lw 2 lc rgb '#d62728' title 'budget'",
            (double)info->budget_bytes / (1 << 20));
  fprintf(gnuplot, "\n");
}

int plan_svg(const ac_plan *plan, const char *path) {
  char temporary[4096];
  int length = snprintf(temporary, sizeof temporary, "%s.new", path);
  if (length < 0 || (size_t)length >= sizeof temporary)
    return fail("the path of --svg is too long");
  FILE *file = fopen(temporary, "w");
  if (!file) return fail("cannot write %s: %s", path, strerror(errno));
  fclose(file);
  signal(SIGPIPE, SIG_IGN);
  FILE *gnuplot = popen("gnuplot 2>/dev/null", "w");
  if (!gnuplot) return fail("cannot start gnuplot: %s", strerror(errno));
  fprintf(gnuplot, "set terminal svg size 1000,560 background 'white'\nset output ");
  put_path(gnuplot, temporary);
  fputc('\n', gnuplot);
  ac_status status = put_data(gnuplot, plan);
  put_plot(gnuplot, ac_plan_get_info(plan));
  int result = pclose(gnuplot);
  bool drawn = status == AC_OK && result == 0;
  if (drawn && rename(temporary, path) == 0) return STATUS_CONTINUE;
  int error = errno;
  remove(temporary);
  if (status != AC_OK) return fail_library();
  if (drawn) return fail("cannot write %s: %s", path, strerror(error));
  return fail("gnuplot did not draw %s; is gnuplot (Debian: gnuplot-nox) installed?", path);
}
