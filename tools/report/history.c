#include "report/history.h"

#include "common/file.h"
#include "common/json_file.h"
#include "common/message.h"
#include "common/run_id.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- series ---------------------------------------------------------------------------------- */

static const char *const keys[HISTORY_VALUES] = {
    "loss", "accuracy", "lr", "grad_norm", "loss_scale", "samples_per_s", "batch", "mean_iou"};

/* Numbers that no picture can show do not count. */
static double number(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  const double x = json_is_number(value) ? json_number_value(value) : NAN;
  return fabs(x) < 1e100 ? x : NAN;
}

/* A run that was resumed from a state writes again what followed that state: the later line counts.
 */
static bool add_point(history_series *s, double step, const json_t *line) {
  while (s->count && s->points[s->count - 1].step >= step) s->count--;
  if (s->count == s->room) {
    const size_t room = s->room ? 2 * s->room : 256;
    history_point *grown = realloc(s->points, room * sizeof *grown);
    if (!grown) return false;
    s->points = grown;
    s->room = room;
  }
  history_point *p = &s->points[s->count++];
  p->step = step;
  for (int v = 0; v < HISTORY_VALUES; v++) p->values[v] = number(line, keys[v]);
  return true;
}

/* ---- lines of metrics ------------------------------------------------------------------------ */

static void keep(json_t **kept, json_t *line) {
  json_decref(*kept);
  *kept = json_incref(line);
}

/* If lines follow an end, or an update is done again, the end before them does not count. */
static void take_point(history *h, history_series *series, json_t *line, bool *good) {
  const json_t *step = json_object_get(line, "step");
  *good = json_is_integer(step) && json_integer_value(step) >= 0;
  if (!*good || json_is_true(json_object_get(line, "replayed"))) return;
  json_decref(h->end);
  h->end = NULL;
  if (!add_point(series, (double)json_integer_value(step), line)) *good = false;
}

/* Unknown events are ignored. False: the line is damaged. */
static bool take_line(history *h, json_t *line) {
  const char *event = json_string_value(json_object_get(line, "event"));
  bool good = event;
  if (!good) return false;
  if (!strcmp(event, "plan")) keep(&h->plan, line);
  else if (!strcmp(event, "end")) keep(&h->end, line);
  else if (!strcmp(event, "layers")) keep(&h->layers, line);
  else if (!strcmp(event, "noise_layers")) keep(&h->noise_layers, line);
  else if (!strcmp(event, "step")) take_point(h, &h->steps, line, &good);
  else if (!strcmp(event, "spike")) good = spikes_take(&h->spikes, line);
  else if (!strcmp(event, "eval")) take_point(h, &h->evaluations, line, &good);
  else if (!strcmp(event, "average")) take_point(h, &h->averages, line, &good);
  return good;
}

static int read_lines(history *h, FILE *file) {
  file_lines lines = {.stream = file};
  size_t at = 0;
  while (file_next_line(&lines)) {
    json_t *line = json_loadb(lines.text, lines.length, JSON_REJECT_DUPLICATES, NULL);
    at++;
    if (!take_line(h, line) && h->damaged++ == 0) h->first_damaged = at;
    json_decref(line);
  }
  const char *why = file_end_lines(&lines);
  if (why) return fail("cannot read %s: %s", h->metrics, why);
  if (h->damaged)
    say("%s:%zu is not a line of metrics and is left out%s", h->metrics, h->first_damaged,
        h->damaged > 1 ? ", as are later ones" : "");
  return STATUS_CONTINUE;
}

/* ---- the metrics file ------------------------------------------------------------------------ */

/* Whether metrics name another run than the folder's record. Older versions named none. */
static bool is_of_another(const history *h, const char *path) {
  char id[RUN_ID_BYTES];
  const char *own = json_string_value(json_object_get(h->record, "id"));
  return own && metrics_owner_of(path, id) == METRICS_NAMED && strcmp(id, own) != 0;
}

/* Whether there is such a file, and it is the run's. */
static bool is_metrics(history *h, const char *path) {
  struct stat info;
  if (strlen(path) >= sizeof h->metrics || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
    return false;
  if (is_of_another(h, path)) {
    if (!h->strange[0]) strcpy(h->strange, path);
    return false;
  }
  strcpy(h->metrics, path);
  h->metrics_device = info.st_dev;
  h->metrics_inode = info.st_ino;
  return true;
}

static bool is_inside(history *h, const char *name) {
  char path[2 * HISTORY_PATH];
  snprintf(path, sizeof path, "%s/%.*s", h->name, NAME_MAX, name);
  return is_metrics(h, path);
}

/* At the path where the run wrote them, or in its folder, which may have been moved. */
static bool find_metrics(history *h, const char *named) {
  const char *slash = named ? strrchr(named, '/') : NULL;
  const bool absolute = named && *named == '/';
  if (absolute && is_metrics(h, named)) return true;
  if (named && !strcmp(named, "none")) return false;
  if (named && is_inside(h, slash ? slash + 1 : named)) return true;
  if (named && is_metrics(h, named)) return true;
  return is_inside(h, "metrics.jsonl");
}

static void lack(history *h) {
  say("%s has no curves: %s", h->name, h->lacking);
}

static int read_metrics(history *h) {
  const char *named =
      json_string_value(json_object_get(json_object_get(h->record, "flags"), "metrics"));
  if (!find_metrics(h, named)) {
    if (h->strange[0])
      snprintf(h->lacking, sizeof h->lacking, "%.*s has the metrics of another run", HISTORY_PATH,
               h->strange);
    else if (named && !strcmp(named, "none"))
      snprintf(h->lacking, sizeof h->lacking, "it was trained with --metrics none");
    else if (named)
      snprintf(h->lacking, sizeof h->lacking, "its metrics %.*s are not there", HISTORY_PATH,
               named);
    else snprintf(h->lacking, sizeof h->lacking, "there is no metrics.jsonl in its folder");
    lack(h);
    return STATUS_CONTINUE;
  }
  FILE *file;
  int status = file_open(&file, h->metrics);
  if (status != STATUS_CONTINUE) return status;
  status = file_fits(file) ? read_lines(h, file)
                           : fail("%s is too large for this machine's memory", h->metrics);
  fclose(file);
  return status;
}

static void drop_metrics(history *h, const history *other) {
  snprintf(h->lacking, sizeof h->lacking, "its metrics %s were written over by the run %s",
           h->metrics, other->name);
  h->steps.count = h->evaluations.count = h->averages.count = h->spikes.count = h->damaged = 0;
  json_decref(h->plan);
  json_decref(h->end);
  json_decref(h->layers);
  json_decref(h->noise_layers);
  h->plan = h->end = h->layers = h->noise_layers = NULL;
  h->metrics[0] = 0;
  lack(h);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* NULL and STATUS_CONTINUE where there is no such file. */
static int read_object(const history *h, const char *name, json_t **object) {
  char path[HISTORY_PATH + 16];
  json_error_t error;
  snprintf(path, sizeof path, "%s/%s", h->name, name);
  if (access(path, F_OK) != 0) return STATUS_CONTINUE;
  *object = json_file_load(path, JSON_REJECT_DUPLICATES, &error);
  if (json_is_object(*object)) return STATUS_CONTINUE;
  return fail("%s is damaged: %s", path, *object ? "it is not a JSON object" : error.text);
}

static int read_record(history *h) {
  int status = read_object(h, "run.json", &h->record);
  if (status != STATUS_CONTINUE) return status;
  if (!h->record) return fail("%s is not the folder of a run: it has no run.json", h->name);
  if (json_is_object(json_object_get(h->record, "flags"))) return STATUS_CONTINUE;
  return fail("%s/run.json is damaged: it has no flags", h->name);
}

/* As many rows as columns, all of counts. */
static bool is_matrix(const json_t *rows) {
  size_t i, k;
  json_t *row, *count;
  if (!json_is_array(rows)) return false;
  json_array_foreach(rows, i, row) {
    if (json_array_size(row) != json_array_size(rows)) return false;
    json_array_foreach(row, k, count) {
      if (!json_is_integer(count) || json_integer_value(count) < 0) return false;
    }
  }
  return true;
}

static int read_evaluation(history *h) {
  int status = read_object(h, "eval.json", &h->evaluation);
  if (status != STATUS_CONTINUE || !h->evaluation) return status;
  if (is_matrix(json_object_get(h->evaluation, "confusion"))) return STATUS_CONTINUE;
  return fail("%s/eval.json is not what accrue eval --json prints: its confusion is not a matrix",
              h->name);
}

/* A run that another one has replaced may have left its own. */
static int read_examples(history *h) {
  const int status = read_object(h, "examples.json", &h->examples);
  if (status != STATUS_CONTINUE || !h->examples) return status;
  const char *own = json_string_value(json_object_get(h->record, "id")),
             *run = json_string_value(json_object_get(h->examples, "run"));
  if (own && run && !strcmp(own, run) && is_matrix(json_object_get(h->examples, "confusion")))
    return STATUS_CONTINUE;
  json_decref(h->examples);
  h->examples = NULL;
  return STATUS_CONTINUE;
}

const json_t *history_answers(const history *h, const char *key) {
  if (json_object_get(h->evaluation, key)) return h->evaluation;
  return json_object_get(h->examples, key) ? h->examples : NULL;
}

int history_read(history *h, const char *folder) {
  struct stat info;
  *h = (history){0};
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  if (length >= sizeof h->name) return fail_usage("a run's folder is too long a path");
  memcpy(h->name, folder, length);
  if (stat(folder, &info) != 0) return fail("there is no run %s: %s", folder, strerror(errno));
  if (!S_ISDIR(info.st_mode)) return fail("%s is not the folder of a run", folder);
  h->device = info.st_dev;
  h->inode = info.st_ino;
  int status = read_record(h);
  if (status == STATUS_CONTINUE) status = read_metrics(h);
  if (status == STATUS_CONTINUE) status = read_evaluation(h);
  return status == STATUS_CONTINUE ? read_examples(h) : status;
}

void history_free(history *h) {
  json_decref(h->record);
  json_decref(h->plan);
  json_decref(h->end);
  json_decref(h->layers);
  json_decref(h->noise_layers);
  json_decref(h->evaluation);
  json_decref(h->examples);
  free(h->steps.points);
  free(h->evaluations.points);
  free(h->averages.points);
  spikes_free(&h->spikes);
  *h = (history){0};
}

/* ---- several runs ---------------------------------------------------------------------------- */

/* When it last began to write: times in ISO 8601, which sort as text. */
static const char *last_start(const history *h) {
  const json_t *resumed = json_object_get(h->record, "resumed");
  const size_t count = json_array_size(resumed);
  const char *time = json_string_value(count ? json_array_get(resumed, count - 1)
                                             : json_object_get(h->record, "started"));
  return time ? time : "";
}

static bool share_metrics(const history *a, const history *b) {
  return a->metrics[0] && b->metrics[0] && a->metrics_device == b->metrics_device &&
         a->metrics_inode == b->metrics_inode;
}

int histories_check(history *runs, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++) {
      history *a = &runs[k], *b = &runs[i];
      if (a->device == b->device && a->inode == b->inode)
        return fail_usage("%s and %s are the same run", a->name, b->name);
      if (!share_metrics(a, b)) continue;
      const bool later = strcmp(last_start(b), last_start(a)) >= 0;
      if (later) drop_metrics(a, b);
      else drop_metrics(b, a);
    }
  return STATUS_CONTINUE;
}
