#include "program/run_record.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/option_record.h"
#include "common/run_id.h"
#include "program/fingerprint.h"
#include "program/train_flags.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_kept(const flag_record *r) {
  return r->record != FLAG_RECORD_NEVER;
}

int run_record_read(json_t **record, const char *path) {
  json_error_t error;
  *record = NULL;
  if (access(path, F_OK) != 0 && errno == ENOENT) return STATUS_CONTINUE;
  *record = json_file_load(path, JSON_REJECT_DUPLICATES, &error);
  if (json_is_object(*record)) return STATUS_CONTINUE;
  const bool parsed = *record;
  json_decref(*record);
  *record = NULL;
  if (!parsed && json_error_code(&error) == json_error_cannot_open_file)
    return fail("%s", error.text);
  if (parsed)
    return fail_usage("%s is not a configuration or a record of a run: it is not an "
                      "object of JSON",
                      path);
  return fail_usage("%s is not a configuration or a record of a run: line %d: %s", path, error.line,
                    error.text);
}

/* UTC, as in ISO 8601. */
static json_t *now(void) {
  char text[32];
  time_t seconds = time(NULL);
  struct tm parts;
  gmtime_r(&seconds, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return json_string(text);
}

static json_t *describe_device(const ac_device_info *device, int64_t threads) {
  return json_pack("{s:s, s:s, s:s, s:s, s:I}", "id", device->id, "name", device->name, "driver",
                   device->driver, "bf16_products", device->bf16_products, "threads",
                   (json_int_t)threads);
}

static json_t *describe_plan(const ac_plan_info *plan) {
  return json_pack(
      "{s:I, s:I, s:I, s:s, s:I, s:I}", "effective_batch", (json_int_t)plan->batch, "micro_batch",
      (json_int_t)plan->micro_batch, "recomputed_ops", (json_int_t)plan->recomputed_ops,
      "precision", ac_precision_name(plan->precision), "parameter_count",
      (json_int_t)plan->parameter_count, "planned_bytes", (json_int_t)plan->bytes.total);
}

static json_t *describe_data(const train_data *data, const char *text) {
  return json_pack("{s:I, s:I, s:s}", "train_samples", (json_int_t)ac_dataset_count(data->train),
                   "validation_samples",
                   (json_int_t)(data->validation ? ac_dataset_count(data->validation) : 0),
                   "fingerprint", text);
}

static json_t *make_id(void) {
  char text[RUN_ID_BYTES];
  run_id_make(text);
  return json_string(text);
}

static json_t *host_name(void) {
  char text[256] = "";
  if (gethostname(text, sizeof text - 1) != 0) text[0] = 0;
  return json_string(text);
}

int run_record_write(run_record *record) {
  const int status = json_text_replace(record->root, JSON_INDENT(2), record->path);
  record->written |= status == STATUS_CONTINUE;
  return status;
}

/* Values that could not be added, because memory was missing, are left out. */
static bool is_complete(const json_t *root, bool resumed) {
  static const char *const keys[] = {"accrue", "commit", "id",   "model", "started",
                                     "host",   "device", "plan", "data",  "resumed"};
  const size_t count = sizeof keys / sizeof *keys - !resumed;
  bool complete = true;
  for (size_t i = 0; i < count; i++) complete &= json_object_get(root, keys[i]) != NULL;
  return complete;
}

bool run_record_is_of(const json_t *record, const char *pilot, int pilot_run) {
  const json_t *of = json_object_get(record, "pilot");
  const char *id = json_string_value(json_object_get(of, "id"));
  return id && !strcmp(id, pilot) &&
         json_integer_value(json_object_get(of, "run")) == (json_int_t)pilot_run;
}

/* The values that only some runs have. */
static bool add_origin(json_t *root, const run_origin *origin) {
  const char *kept = json_string_value(json_object_get(origin->before, "replaces"));
  const char *replaces = kept ? kept : origin->replaces;
  if (run_id_is_good(replaces) && json_object_set_new(root, "replaces", json_string(replaces)) != 0)
    return false;
  if (!origin->pilot) return true;
  json_t *pilot = json_pack("{s:s, s:i}", "id", origin->pilot, "run", origin->pilot_run);
  return json_object_set_new(root, "pilot", pilot) == 0;
}

int run_record_begin(run_record *record, const run_folder *folder, const setup *s,
                     const run_origin *origin) {
  const json_t *before = origin->before;
  char text[17];
  run_folder_path(folder, "run.json", record->path);
  int status = fingerprint(&s->data, s->flags.rank, text);
  if (status != STATUS_CONTINUE) return status;
  json_t *root = record->root = json_object();
  json_t *id = *origin->id ? json_string(origin->id) : make_id();
  json_t *started = json_incref(json_object_get(before, "started"));
  json_t *resumed = json_deep_copy(json_object_get(before, "resumed"));
  if (*origin->id && !resumed) resumed = json_array();
  if (*origin->id) json_array_append_new(resumed, now());
  json_object_set_new(root, "accrue", json_string(ac_version()));
  json_object_set_new(root, "commit", json_string(ACCRUE_COMMIT));
  json_object_set_new(root, "id", id);
  json_object_set_new(root, "model", json_string(s->kind->name));
  json_object_set_new(root, "started", started ? started : now());
  if (resumed) json_object_set_new(root, "resumed", resumed);
  json_object_set_new(root, "host", host_name());
  json_object_set_new(root, "device",
                      describe_device(ac_device_get_info(s->device), s->flags.threads));
  json_object_set_new(root, "plan", describe_plan(ac_plan_get_info(s->plan)));
  json_object_set_new(root, "data", describe_data(&s->data, text));
  if (s->kind->record) json_object_set_new(root, "base", s->kind->record(s->model));
  if (!options_record(&s->options, is_kept, root) || !is_complete(root, *origin->id) ||
      !add_origin(root, origin))
    return fail("out of memory");
  return STATUS_CONTINUE;
}

const char *run_record_id(const run_record *record) {
  const char *id = json_string_value(json_object_get(record->root, "id"));
  return id ? id : "";
}

const char *run_record_data(const run_record *record) {
  const json_t *data = json_object_get(record->root, "data");
  return json_string_value(json_object_get(data, "fingerprint"));
}

const char *run_record_replaces(const run_record *record) {
  const char *id = json_string_value(json_object_get(record->root, "replaces"));
  return id ? id : "";
}

void run_record_has_replaced(run_record *record) {
  json_object_del(record->root, "replaces");
}

void run_record_end(run_record *record, const char *outcome) {
  json_object_set_new(record->root, "ended", now());
  json_object_set_new(record->root, "outcome", json_string(outcome));
  run_record_write(record);
}

void run_record_close(run_record *record) {
  json_decref(record->root);
  record->root = NULL;
}
