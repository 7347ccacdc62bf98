/* pilot.json in the folder of a pilot: its settings, and the results of its runs so far. */
#include "program/pilot.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/option_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How results are shown, how often they are saved and how long it may take make no other pilot. Nor
 * do the paths of what is read: fingerprints of the data are compared. */
static bool is_compared(const flag_record *r) {
  return !r->not_compared;
}

static json_t *list_of(const option_list *list) {
  json_t *array = json_array();
  for (int i = 0; i < list->count; i++) json_array_append_new(array, json_string(list->items[i]));
  return array;
}

static int make_settings(pilot *p, json_t *data) {
  json_t *s = p->settings = json_object();
  const bool good = options_record(&p->setup.options, is_compared, s) &&
                    json_object_del(s, "given") == 0 &&
                    json_object_set_new(s, "model", json_string(p->setup.kind->name)) == 0 &&
                    json_object_set(s, "data", data) == 0;
  json_t *flags = json_object_get(s, "flags");
  if (good && json_object_set_new(flags, "grid", list_of(&p->flags.grid)) == 0 &&
      json_object_set_new(flags, "ablate", list_of(&p->flags.ablate)) == 0)
    return STATUS_CONTINUE;
  return fail("out of memory");
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *run_of(const pilot *p, int cell, int run) {
  const pilot_run *r = pilot_run_of(p, cell, run);
  json_t *results = json_array();
  for (int rung = 0; rung < r->done; rung++)
    json_array_append_new(results, pilot_result_json(&r->results[rung]));
  return results;
}

int pilot_record_write(const pilot *p) {
  json_t *runs = json_array();
  for (int cell = 0; cell < p->grid.cells; cell++)
    for (int run = 0; run < p->runs_per_cell; run++)
      json_array_append_new(runs, run_of(p, cell, run));
  json_t *root = json_pack("{s:s, s:s, s:O, s:o}", "accrue", ac_version(), "id", p->id, "settings",
                           p->settings, "runs", runs);
  const int status = json_text_replace(root, JSON_INDENT(1), p->path);
  json_decref(root);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The first flag with different values; NULL: all are equal. */
static const char *difference(const json_t *a, const json_t *b) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)a, name, value) {
    const json_t *other = json_object_get(b, name);
    if (!other || !json_equal(value, (json_t *)other)) return name;
  }
  return NULL;
}

static int compare(const pilot *p, const json_t *there) {
  const json_t *model = json_object_get(there, "model");
  if (!json_equal((json_t *)model, json_object_get(p->settings, "model")))
    return fail_usage("%s is of a pilot of another model; give another folder with --out", p->path);
  const char *name =
      difference(json_object_get(p->settings, "flags"), json_object_get(there, "flags"));
  if (!name && !json_equal(json_object_get(there, "data"), json_object_get(p->settings, "data")))
    return fail_usage(
        "%s is of a pilot on other data: what --data or --init names has changed; give another "
        "folder with --out",
        p->path);
  if (!name) return STATUS_CONTINUE;
  return fail_usage("%s is of another pilot: its --%s is not the same; give another folder with "
                    "--out",
                    p->path, name);
}

static bool take_run(pilot_run *run, const json_t *results, int rungs) {
  const size_t count = json_array_size(results);
  if (!json_is_array(results) || count > (size_t)rungs) return false;
  for (size_t i = 0; i < count; i++)
    if (!pilot_result_take(&run->results[i], json_array_get(results, i))) return false;
  run->done = (int)count;
  return true;
}

static int take_runs(pilot *p, const json_t *runs) {
  const size_t count = (size_t)p->grid.cells * (size_t)p->runs_per_cell;
  bool good = json_array_size(runs) == count;
  for (size_t i = 0; i < count && good; i++)
    good = take_run(&p->runs[i], json_array_get(runs, i), p->rungs);
  return good ? STATUS_CONTINUE : fail_usage("%s is a damaged record of a pilot", p->path);
}

static int take_record(pilot *p, const json_t *root, const char *why) {
  const json_t *settings = json_object_get(root, "settings");
  const char *id = json_string_value(json_object_get(root, "id"));
  if (!json_is_object(json_object_get(settings, "flags")))
    return fail_usage("%s is not a record of a pilot: %s", p->path,
                      root ? "it has no settings" : why);
  if (!run_id_is_good(id) || !json_is_array(json_object_get(settings, "data")))
    return fail_usage("%s does not name its runs and data, as an older version wrote it; "
                      "give another folder with --out",
                      p->path);
  strcpy(p->id, id);
  const int status = compare(p, settings);
  return status == STATUS_CONTINUE ? take_runs(p, json_object_get(root, "runs")) : status;
}

/* The record is written before the first run begins, so that files that are found later are known.
 */
int pilot_record_open(pilot *p, json_t *data) {
  json_error_t error;
  int status = make_settings(p, data);
  if (status != STATUS_CONTINUE) return status;
  run_folder_path(&p->folder, "pilot.json", p->path);
  const bool fresh = access(p->path, F_OK) != 0 && errno == ENOENT;
  if (fresh) run_id_make(p->id);
  else {
    json_t *root = json_file_load(p->path, JSON_REJECT_DUPLICATES, &error);
    status = take_record(p, root, error.text);
    json_decref(root);
  }
  if (status == STATUS_CONTINUE) status = pilot_check_folders(p);
  return status == STATUS_CONTINUE && fresh ? pilot_record_write(p) : status;
}
