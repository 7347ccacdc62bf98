/* The results of a pilot: means and deviations by cell, as a table and as JSON. */
#include "program/pilot.h"

#include "common/json_text.h"
#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* NULL: the run has not come to the rung. A run that diverged before has its last result. */
static const pilot_result *result_of(const pilot_run *r, int rung) {
  if (r->done > rung) return &r->results[rung];
  return r->done && r->results[r->done - 1].diverged ? &r->results[r->done - 1] : NULL;
}

/* Mean and deviation (by n - 1) of the field at an offset. Runs that diverged are left out, and on
 * request runs that did not reach the wanted loss. */
static pilot_mean mean_of(const pilot *p, int cell, int rung, size_t offset, bool reached) {
  pilot_mean m = {.mean = (double)NAN, .deviation = (double)NAN};
  double squares = 0;
  for (int run = 0; run < p->runs_per_cell; run++) {
    const pilot_result *r = result_of(pilot_run_of(p, cell, run), rung);
    if (!r || r->diverged || (reached && !r->reached)) continue;
    double x;
    memcpy(&x, (const char *)r + offset, sizeof x);
    const double old = m.count ? m.mean : 0; /* Welford 1962 */
    m.mean = old + (x - old) / ++m.count;
    squares += (x - old) * (x - m.mean);
  }
  if (m.count > 1) m.deviation = sqrt(squares / (m.count - 1));
  return m;
}

pilot_summary pilot_summary_of(const pilot *p, int cell, int rung) {
#define MEAN(field, reached) mean_of(p, cell, rung, offsetof(pilot_result, field), reached)
  pilot_summary s = {.loss = MEAN(loss, false),
                     .accuracy = MEAN(accuracy, false),
                     .seconds = MEAN(seconds, false),
                     .units_to_target = MEAN(units_to_target, true),
                     .seconds_to_target = MEAN(seconds_to_target, true)};
#undef MEAN
  for (int run = 0; run < p->runs_per_cell; run++) {
    const pilot_result *r = result_of(pilot_run_of(p, cell, run), rung);
    if (!r) continue;
    s.diverged += r->diverged;
    if (r->steps > s.steps) s.steps = r->steps;
  }
  return s;
}

/* Of all runs; -1: none has its mean. Those that came to a later rung are the better ones. */
static int best_cell(const pilot *p) {
  int best = -1;
  double least = 0;
  for (int cell = 0; cell < p->grid.cells; cell++) {
    const pilot_summary s = pilot_summary_of(p, cell, p->last_rung[cell]);
    if (s.diverged || !s.loss.count) continue;
    const bool later = best >= 0 && p->last_rung[cell] > p->last_rung[best];
    const bool same = best >= 0 && p->last_rung[cell] == p->last_rung[best];
    if (best < 0 || later || (same && s.loss.mean < least)) best = cell, least = s.loss.mean;
  }
  return best;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = GRID_MOST_AXES + 8, CELL_BYTES = 64 };

typedef struct row {
  char text[MOST_COLUMNS][CELL_BYTES];
  int count;
} row;

static void put(row *r, const char *text) {
  snprintf(r->text[r->count++], CELL_BYTES, "%s", text);
}

/* "2.4512 +- 0.0123" */
static void put_mean(row *r, const pilot_mean *m, int digits, double factor) {
  char *text = r->text[r->count++];
  if (!m->count) snprintf(text, CELL_BYTES, "-");
  else if (isnan(m->deviation)) snprintf(text, CELL_BYTES, "%.*f", digits, factor * m->mean);
  else
    snprintf(text, CELL_BYTES, "%.*f +- %.*f", digits, factor * m->mean, digits,
             factor * m->deviation);
}

/* How many runs reached it, if not all did. */
static void put_target(row *r, const pilot *p, const pilot_mean *m, int digits) {
  put_mean(r, m, digits, 1);
  char *text = r->text[r->count - 1];
  const size_t length = strlen(text);
  if (m->count && m->count < p->runs_per_cell)
    snprintf(text + length, CELL_BYTES - length, " (%d of %d)", m->count, p->runs_per_cell);
}

static bool tells_accuracy(const pilot *p) {
  return p->setup.kind->classes != NULL;
}

static void put_head(row *r, const pilot *p) {
  char title[CELL_BYTES];
  for (int axis = 0; axis < p->grid.axis_count; axis++) put(r, p->grid.axes[axis].name);
  put(r, "runs");
  put(r, "steps");
  put(r, "loss");
  if (tells_accuracy(p)) put(r, "accuracy %");
  if (p->flags.target > 0) {
    snprintf(title, sizeof title, "%s to %g", pilot_unit(p), p->flags.target);
    put(r, title);
  }
  put(r, "|");
  put(r, "seconds");
  if (p->flags.target > 0) {
    snprintf(title, sizeof title, "seconds to %g", p->flags.target);
    put(r, title);
  }
}

static void put_cell(row *r, const pilot *p, int cell) {
  char text[CELL_BYTES];
  const pilot_summary s = pilot_summary_of(p, cell, p->last_rung[cell]);
  for (int axis = 0; axis < p->grid.axis_count; axis++)
    put(r, grid_setting_of(&p->grid, cell, axis)->label);
  if (s.diverged) snprintf(text, sizeof text, "%d, %d diverged", p->runs_per_cell, s.diverged);
  else snprintf(text, sizeof text, "%d", p->runs_per_cell);
  put(r, text);
  snprintf(text, sizeof text, "%" PRId64, s.steps);
  put(r, text);
  put_mean(r, &s.loss, 4, 1);
  if (tells_accuracy(p)) put_mean(r, &s.accuracy, 2, 100);
  if (p->flags.target > 0) put_target(r, p, &s.units_to_target, 0);
  put(r, "|");
  put_mean(r, &s.seconds, 2, 1);
  if (p->flags.target > 0) put_target(r, p, &s.seconds_to_target, 2);
}

static void print_rows(const row *rows, int count) {
  size_t widths[MOST_COLUMNS] = {0};
  for (int i = 0; i < count; i++)
    for (int k = 0; k < rows[i].count; k++)
      if (strlen(rows[i].text[k]) > widths[k]) widths[k] = strlen(rows[i].text[k]);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < rows[i].count; k++) {
      const bool last = k + 1 == rows[i].count;
      message_put(stdout, "%-*s", last ? 0 : (int)widths[k], rows[i].text[k]);
      fputs(last ? "\n" : "  ", stdout);
    }
}

/* Columns left of the bar are the same each time; those to the right are times. */
void pilot_table_put(const pilot *p) {
  char name[256];
  row *rows = calloc((size_t)p->grid.cells + 1, sizeof *rows);
  if (!rows) return;
  put_head(&rows[0], p);
  for (int cell = 0; cell < p->grid.cells; cell++) put_cell(&rows[cell + 1], p, cell);
  print_rows(rows, p->grid.cells + 1);
  free(rows);
  const int best = best_cell(p);
  if (best < 0) printf("\nall cells have runs that diverged\n");
  else if (p->grid.cells > 1) {
    fputc('\n', stdout);
    message_put(stdout, "least loss: %s\n", pilot_cell_name(p, best, name, sizeof name));
  }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static json_t *mean_json(const pilot_mean *m) {
  return json_pack("{s:i, s:o, s:o}", "runs", m->count, "mean", number(m->mean), "deviation",
                   number(m->deviation));
}

static json_t *settings_json(const pilot *p, int cell) {
  json_t *settings = json_object();
  for (int axis = 0; axis < p->grid.axis_count; axis++)
    json_object_set_new(settings, p->grid.axes[axis].name,
                        json_string(grid_setting_of(&p->grid, cell, axis)->label));
  return settings;
}

static json_t *runs_json(const pilot *p, int cell) {
  json_t *list = json_array();
  for (int run = 0; run < p->runs_per_cell; run++) {
    const pilot_result *r = result_of(pilot_run_of(p, cell, run), p->last_rung[cell]);
    json_t *json = r ? pilot_result_json(r) : json_object();
    json_object_set_new(json, "seed", json_integer((json_int_t)pilot_seed(p, run)));
    if (p->flags.folds) json_object_set_new(json, "fold", json_integer(pilot_fold(p, run)));
    json_array_append_new(list, json);
  }
  return list;
}

static json_t *cell_json(const pilot *p, int cell) {
  const pilot_summary s = pilot_summary_of(p, cell, p->last_rung[cell]);
  return json_pack("{s:o, s:i, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "settings",
                   settings_json(p, cell), "diverged", s.diverged, "steps", (json_int_t)s.steps,
                   "rung", p->last_rung[cell] + 1, "loss", mean_json(&s.loss), "accuracy",
                   mean_json(&s.accuracy), "units_to_target", mean_json(&s.units_to_target),
                   "seconds", mean_json(&s.seconds), "seconds_to_target",
                   mean_json(&s.seconds_to_target), "runs", runs_json(p, cell));
}

int pilot_json_put(const pilot *p) {
  json_t *cells = json_array();
  for (int cell = 0; cell < p->grid.cells; cell++) json_array_append_new(cells, cell_json(p, cell));
  const int best = best_cell(p);
  json_t *root = json_pack(
      "{s:s, s:s, s:o, s:o, s:i, s:o}", "model", p->setup.kind->name, "unit", pilot_unit(p),
      "target_loss", p->flags.target > 0 ? json_real(p->flags.target) : json_null(), "least_loss",
      best < 0 ? json_null() : settings_json(p, best), "rungs", p->rungs, "cells", cells);
  const bool good = root && json_text_put(root, JSON_INDENT(2), stdout);
  json_decref(root);
  return good ? STATUS_CONTINUE : fail("cannot write the result");
}
