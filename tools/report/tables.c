#include "report/tables.h"

#include "common/text.h"
#include "report/html.h"
#include "report/story.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- what all tables share ------------------------------------------------------------------- */

/* A table that is wider than the page scrolls in it. */
static void begin(FILE *page, const char *title, const char *class) {
  fprintf(page,
          "<h2>%s</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
          "<table class=\"%s\">\n",
          title, title, class);
}

static void end(FILE *page) {
  fputs("</table></div>\n", page);
}

static void put_runs(FILE *page, const history *runs, size_t count) {
  fputs("<tr><td></td>", page);
  for (size_t run = 0; run < count; run++) {
    fputs("<th scope=\"col\">", page);
    html_name(page, runs[run].name);
    fputs("</th>", page);
  }
  fputs("</tr>\n", page);
}

/* ---- results --------------------------------------------------------------------------------- */

static double last_of(const history_series *s, history_value value) {
  for (size_t i = s->count; i-- > 0;)
    if (!isnan(s->points[i].values[value])) return s->points[i].values[value];
  return NAN;
}

static double best_of(const history_series *s, history_value value, bool largest, double *step) {
  double best = NAN;
  for (size_t i = 0; i < s->count; i++) {
    const double x = s->points[i].values[value];
    if (isnan(x) || (!isnan(best) && (largest ? x <= best : x >= best))) continue;
    best = x;
    *step = s->points[i].step;
  }
  return best;
}

static void put_number(FILE *page, const char *format, double x) {
  fputs("<td class=\"n\">", page);
  if (isnan(x)) fputs("-", page);
  else fprintf(page, format, x);
  fputs("</td>", page);
}

static double of_end(const history *h, const char *key) {
  const json_t *value = json_object_get(h->end, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_result(FILE *page, const history *h) {
  double step = NAN, unused;
  const double best = best_of(&h->evaluations, HISTORY_LOSS, false, &step);
  const double accuracy = best_of(&h->evaluations, HISTORY_ACCURACY, true, &unused);
  const double seconds = of_end(h, "seconds"), peak = of_end(h, "peak_bytes");
  const double rate = of_end(h, "samples_per_s");
  fputs("<tr><th scope=\"row\">", page);
  html_name(page, h->name);
  fputs("</th>", page);
  put_number(page, "%.0f", h->steps.count ? h->steps.points[h->steps.count - 1].step : NAN);
  put_number(page, "%.4f", last_of(&h->steps, HISTORY_LOSS));
  put_number(page, "%.4f", last_of(&h->evaluations, HISTORY_LOSS));
  put_number(page, "%.4f", best);
  put_number(page, "%.0f", step);
  put_number(page, "%.2f %%", accuracy >= 0 ? 100 * accuracy : NAN);
  put_number(page, rate < 100 ? "%.3g" : "%.0f", rate);
  fprintf(page, "<td class=\"n\">%s%s</td>", isnan(seconds) ? "-" : text_time(seconds).text,
          !isnan(seconds) && json_object_get(h->record, "resumed") ? " since the last start" : "");
  fprintf(page, "<td class=\"n\">%s</td></tr>\n",
          peak >= 0 && peak < 1e18 ? text_bytes((uint64_t)peak).text : "-");
}

void tables_results(FILE *page, const history *runs, size_t count) {
  static const char *const heads[] = {
      "Steps",      "Last training loss", "Last validation loss", "Best validation loss",
      "at step",    "Best accuracy",      "Samples a second",     "Time",
      "Peak memory"};
  begin(page, "Results", "results");
  fputs("<tr><td></td>", page);
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    fprintf(page, "<th class=\"n\" scope=\"col\">%s</th>", heads[i]);
  fputs("</tr>\n", page);
  for (size_t run = 0; run < count; run++) put_result(page, &runs[run]);
  end(page);
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct class {
  const char *name, *key;
  int64_t (*bytes)(const history *h, const char *key);
  bool optional; /* left out if no run has any; without a bar */
} class;

static int64_t peak_of(const history *h, const char *key) {
  const double peak = of_end(h, key);
  return peak >= 0 && peak < 1e18 ? (int64_t)peak : -1;
}

static int64_t most_of(const history *runs, size_t count, const class *c) {
  int64_t most = -1;
  for (size_t run = 0; run < count; run++) {
    const int64_t bytes = c->bytes(&runs[run], c->key);
    if (bytes > most) most = bytes;
  }
  return most;
}

enum { BAR = 7 }; /* width of the longest bar: the same for all runs, whatever their names */

static void put_class(FILE *page, const history *runs, size_t count, const class *c,
                      int64_t widest) {
  fprintf(page, "<tr><th scope=\"row\">%s</th>", c->name);
  for (size_t run = 0; run < count; run++) {
    const int64_t bytes = c->bytes(&runs[run], c->key);
    fprintf(page, "<td class=\"n\">%s", bytes < 0 ? "-" : text_bytes((uint64_t)bytes).text);
    if (bytes > 0 && !c->optional)
      fprintf(page, "<span class=\"bar\" style=\"width:%.2frem\"></span>",
              BAR * fmin(1, (double)bytes / (double)widest));
    fputs("</td>", page);
  }
  fputs("</tr>\n", page);
}

void tables_memory(FILE *page, const history *runs, size_t count) {
  static const class classes[] = {
      {"Parameters", "parameters", story_bytes, false},
      {"Gradients", "gradients", story_bytes, false},
      {"Optimizer", "optimizer", story_bytes, false},
      {"Activations", "activations", story_bytes, false},
      {"Workspace", "workspace", story_bytes, false},
      {"Input and output", "io", story_bytes, false},
      {"Planned in all", "total", story_bytes, false},
      {"Reached", "peak_bytes", peak_of, true},
      {"Budget", "budget_bytes", story_plan, true},
      {"On the host, of optimizer state", "host_bytes", story_plan, true},
      {"On the host, for batches read ahead", "read_ahead_bytes", story_plan, true},
      {"Held by libraries", "library_bytes", story_plan, true},
  };
  enum { TOTAL = 6, CLASSES = sizeof classes / sizeof *classes };
  const int64_t widest = most_of(runs, count, &classes[TOTAL]);
  if (widest < 1) return;
  begin(page, "Memory over a window", "memory");
  put_runs(page, runs, count);
  for (int i = 0; i < CLASSES; i++)
    if (!classes[i].optional || most_of(runs, count, &classes[i]) > 0)
      put_class(page, runs, count, &classes[i], widest);
  end(page);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The paths of outputs differ from run to run and mean nothing. */
static bool is_place(const char *flag) {
  return !strcmp(flag, "out") || !strcmp(flag, "metrics") || !strcmp(flag, "tensorboard");
}

static const json_t *flag_of(const history *h, const char *name) {
  return json_object_get(json_object_get(h->record, "flags"), name);
}

static bool is_given(const history *h, const char *name) {
  size_t i;
  json_t *given;
  json_array_foreach(json_object_get(h->record, "given"), i, given) {
    const char *text = json_string_value(given);
    if (text && !strcmp(text, name)) return true;
  }
  return false;
}

/* json_equal says that 1 and 1.0 differ, and that two missing values differ. */
static bool are_equal(const json_t *a, const json_t *b) {
  if (!a || !b) return a == b;
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

static bool is_listed(const history *runs, size_t count, const char *name) {
  if (count == 1) return is_given(runs, name);
  if (is_place(name)) return false;
  for (size_t run = 1; run < count; run++)
    if (!are_equal(flag_of(runs, name), flag_of(&runs[run], name))) return true;
  return false;
}

/* The values of a flag that may be given several times, each with a space before the next. */
static void put_list(FILE *page, const json_t *list) {
  size_t i;
  const json_t *item;
  json_array_foreach((json_t *)list, i, item) {
    if (i) fputc(' ', page);
    html_name(page, json_is_string(item) ? json_string_value(item) : "-");
  }
}

static bool is_size(const char *flag) {
  return !strcmp(flag, "memory") || !strcmp(flag, "host-memory");
}

static void put_value(FILE *page, const char *name, const json_t *value) {
  fputs("<td>", page);
  if (json_array_size(value)) put_list(page, value);
  else if (json_is_string(value)) html_name(page, json_string_value(value));
  else if (json_is_integer(value) && is_size(name))
    fputs(text_bytes((uint64_t)json_integer_value(value)).text, page);
  else if (json_is_integer(value))
    fprintf(page, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else if (json_is_real(value)) fprintf(page, "%.6g", json_real_value(value));
  else if (json_is_boolean(value)) fputs(json_is_true(value) ? "yes" : "no", page);
  else fputs("-", page);
  fputs("</td>", page);
}

static void put_row(FILE *page, const history *runs, size_t count, const char *name) {
  fputs("<tr><th scope=\"row\">", page);
  html_name(page, name);
  fputs("</th>", page);
  for (size_t run = 0; run < count; run++) put_value(page, name, flag_of(&runs[run], name));
  fputs("</tr>\n", page);
}

/* Whether an earlier run has the flag: then the flag has a row already. */
static bool is_known(const history *runs, size_t before, const char *name) {
  for (size_t run = 0; run < before; run++)
    if (flag_of(&runs[run], name)) return true;
  return false;
}

static size_t put_settings(FILE *page, const history *runs, size_t count) {
  size_t rows = 0;
  for (size_t run = 0; run < count; run++) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(runs[run].record, "flags"), name, value) {
      if (is_known(runs, run, name) || !is_listed(runs, count, name)) continue;
      if (rows++ == 0) put_runs(page, runs, count);
      put_row(page, runs, count, name);
    }
  }
  return rows;
}

void tables_settings(FILE *page, const history *runs, size_t count) {
  begin(page, count > 1 ? "Settings that differ" : "Settings that were given", "settings");
  if (!put_settings(page, runs, count)) fputs("<tr><td>none</td></tr>\n", page);
  end(page);
}
