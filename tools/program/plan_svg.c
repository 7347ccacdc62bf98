#include "program/plan_svg.h"

#include "common/gnuplot.h"
#include "common/message.h"
#include "common/storage.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t larger(uint64_t x, uint64_t y) {
  return x > y ? x : y;
}

/* Of gradients what is there throughout a window; the rest is among what is alive at each step.
 * Once the last has run, all that are kept are alive, if they are in the arena. Those that are
 * divided among ranks are alive in the arena as well, and their class has both. */
static ac_status find_persistent(const ac_plan *plan, uint64_t *bytes) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  const bool divided = info->gradients == AC_GRADIENTS_SHARDED,
             passing = !gradient_way_of(info->gradients)->may_keep && !divided;
  uint64_t tensors = 0, others = 0;
  ac_plan_step step = {0};
  ac_status status = AC_OK;
  for (int64_t i = divided ? 0 : info->steps - 1; i < info->steps && status == AC_OK; i++) {
    status = ac_plan_get_step(plan, i, &step);
    const uint64_t live = step.live_bytes - step.workspace_bytes;
    tensors = larger(tensors, live);
    others = larger(others, live - step.gradient_bytes);
  }
  *bytes = (step.gradient_bytes && !divided) || passing ? 0 : info->bytes.gradients;
  if (divided) *bytes -= tensors - others;
  return status;
}

/* Columns: step, then the running sums of the classes in MiB. */
static ac_status put_data(FILE *pipe, const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  const double mebibyte = 1 << 20;
  ac_plan_step step;
  uint64_t persistent;
  ac_status status = find_persistent(plan, &persistent);
  fprintf(pipe, "$memory << EOD\n");
  for (int64_t i = 0; i < info->steps; i++) {
    if (status == AC_OK) status = ac_plan_get_step(plan, i, &step);
    if (status != AC_OK) return status;
    uint64_t gradients = persistent + step.gradient_bytes;
    uint64_t activations = step.live_bytes - step.workspace_bytes - step.gradient_bytes;
    uint64_t sum = info->bytes.parameters;
    fprintf(pipe, "%" PRId64 " %.6f", i + 1, (double)sum / mebibyte);
    fprintf(pipe, " %.6f", (double)(sum += gradients) / mebibyte);
    fprintf(pipe, " %.6f", (double)(sum += info->bytes.optimizer) / mebibyte);
    fprintf(pipe, " %.6f", (double)(sum += info->bytes.io) / mebibyte);
    fprintf(pipe, " %.6f", (double)(sum += activations) / mebibyte);
    fprintf(pipe, " %.6f\n", (double)(sum += step.workspace_bytes) / mebibyte);
  }
  fprintf(pipe, "EOD\n");
  return AC_OK;
}

static void put_plot(FILE *pipe, const ac_plan_info *info) {
  static const struct {
    const char *name, *colour;
  } classes[] = {{"parameters", "#4c72b0"},  {"gradients", "#dd8452"},
                 {"optimizer", "#55a868"},   {"input and output", "#8172b3"},
                 {"activations", "#c44e52"}, {"workspace", "#ccb974"}};
  fprintf(pipe,
          "set title 'Memory over one micro-batch of %" PRId64 " (%" PRId64 " a window), %" PRId64
          " ops run again'\n",
          info->micro_batch, info->accumulation_steps, info->recomputed_ops);
  fprintf(pipe,
          "set xlabel 'step'\nset ylabel 'MiB'\nset yrange [0:*]\nset xrange [1:%" PRId64
          "]\nset key outside right top\nset style fill solid 0.85 noborder\n",
          info->steps);
  fprintf(pipe, "plot");
  for (int i = 5; i >= 0; i--)
    fprintf(pipe, " $memory using 1:%d with filledcurves y1=0 lc rgb '%s' title '%s',", i + 2,
            classes[i].colour, classes[i].name);
  double total = (double)info->bytes.total / (1 << 20);
  fprintf(pipe, " %.6f with lines lw 1.5 dt 3 lc rgb 'black' title 'planned total'", total);
  if (info->budget_bytes)
    fprintf(pipe, ", %.6f with lines lw 2 lc rgb '#d62728' title 'budget'",
            (double)info->budget_bytes / (1 << 20));
  fprintf(pipe, "\n");
}

int plan_svg(const ac_plan *plan, const char *path) {
  gnuplot g;
  int status = gnuplot_open(&g, path, 1000, 560);
  if (status != STATUS_CONTINUE) return status;
  bool good = put_data(g.pipe, plan) == AC_OK;
  put_plot(g.pipe, ac_plan_get_info(plan));
  status = gnuplot_close(&g, good);
  return good ? status : fail_library();
}
