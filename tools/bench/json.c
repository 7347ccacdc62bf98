#include "bench/json.h"

#include "common/json_file.h"
#include "common/message.h"
#include "common/text.h"

#include <string.h>

static const char *const kinds[] = {"gemm", "op", "step"};
static const char *const bounds[] = {"compute", "memory", "launch"};

/* ---- writing --------------------------------------------------------------------------------- */

static void put_timing(json_t *object, const ac_bench_timing *timing) {
  json_object_set_new(object, "median_seconds", json_real(timing->median));
  json_object_set_new(object, "spread", json_real(timing->spread));
  json_object_set_new(object, "least_seconds", json_real(timing->least));
  json_object_set_new(object, "samples", json_integer(timing->samples));
  json_object_set_new(object, "runs_a_sample", json_integer((json_int_t)timing->runs));
  json_object_set_new(object, "noisy", json_boolean(timing->noisy));
}

/* Moves the members of `part` into the object. */
static void merge(json_t *object, json_t *part) {
  json_object_update(object, part);
  json_decref(part);
}

static json_t *rate(const char *unit, double value, const ac_bench_timing *timing) {
  json_t *object = json_object();
  json_object_set_new(object, unit, json_real(value));
  put_timing(object, timing);
  return object;
}

static json_t *roofs_object(const bench_report *report, int d) {
  const ac_bench_roofs *roofs = &report->roofs[d];
  json_t *object = json_object();
  for (int p = 0; p < AC_BENCH_PRECISIONS; p++) {
    char name[16];
    snprintf(name, sizeof name, "gemm_%s", ac_precision_name((ac_precision)p));
    json_t *product = json_null();
    if (roofs->flops[p] > 0) {
      product = rate("flops_per_s", roofs->flops[p], &roofs->product_timing[p]);
      json_object_set_new(product, "size", json_integer((json_int_t)roofs->size[p]));
    }
    json_object_set_new(object, name, product);
  }
  json_t *copy = rate("bytes_per_s", roofs->bytes, &roofs->copy_timing);
  json_object_set_new(copy, "array_bytes", json_integer((json_int_t)roofs->copied));
  json_object_set_new(copy, "bytes_per_s_at_end", json_real(report->copy_at_end[d]));
  json_object_set_new(copy, "drifted", json_boolean(report->drifted[d]));
  json_object_set_new(object, "copy", copy);
  json_object_set_new(object, "launch", rate("seconds", roofs->launch, &roofs->launch_timing));
  json_object_set_new(object, "latency", rate("seconds", roofs->latency, &roofs->latency_timing));
  return object;
}

static json_t *device_object(const bench_report *report, int d) {
  const ac_device_info *info = ac_device_get_info(report->devices[d]);
  return json_pack("{s:s, s:s, s:s, s:I, s:o}", "id", info->id, "name", info->name, "driver",
                   info->driver, "compute_units", (json_int_t)info->compute_units, "roofs",
                   roofs_object(report, d));
}

static void put_step(json_t *object, const bench_result *r) {
  const bench_step *step = &r->step;
  merge(object,
        json_pack("{s:I, s:I, s:I, s:f, s:I, s:I, s:f}", "micro_batch",
                  (json_int_t)step->micro_batch, "accumulation_steps",
                  (json_int_t)step->accumulation_steps, "recomputed_ops",
                  (json_int_t)step->recomputed_ops, "samples_per_s",
                  (double)step->samples / r->timing.median, "planned_bytes",
                  (json_int_t)step->planned_bytes, "peak_bytes", (json_int_t)step->peak_bytes,
                  "predicted_seconds", step->predicted_seconds));
}

static json_t *result_object(const bench_report *report, const bench_row *row, int d) {
  const bench_result *r = &row->results[d];
  json_t *object = json_pack("{s:s}", "device", ac_device_get_info(report->devices[d])->id);
  put_timing(object, &r->timing);
  if (row->kind != BENCH_STEP) json_object_set_new(object, "visits", json_integer(r->visited));
  merge(object, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:b}", "flops", r->flops, "bytes",
                          r->bytes, "flops_per_s", r->flops / r->timing.median, "bytes_per_s",
                          r->bytes / r->timing.median, "roof_seconds", r->limit, "share_of_roof",
                          r->limit / r->timing.median, "bound", bounds[r->bound], "cached",
                          (int)r->cached));
  if (row->kind == BENCH_STEP) put_step(object, r);
  return object;
}

static json_t *row_object(const bench_report *report, const bench_row *row) {
  json_t *results = json_array();
  for (int d = 0; d < report->device_count; d++)
    if (row->results[d].measured) json_array_append_new(results, result_object(report, row, d));
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:o}", "kind", kinds[row->kind],
                   "name", row->name, "detail", row->detail, "model", row->model, "precision",
                   ac_precision_name(row->precision), "backward", (int)row->backward, "update",
                   (int)row->update, "count", (json_int_t)row->count, "results", results);
}

json_t *bench_json(const bench_report *report) {
  json_t *devices = json_array(), *rows = json_array();
  for (int d = 0; d < report->device_count; d++)
    json_array_append_new(devices, device_object(report, d));
  for (int i = 0; i < report->count; i++)
    json_array_append_new(rows, row_object(report, &report->rows[i]));
  json_t *document = json_pack("{s:s, s:I, s:i, s:o, s:o}", "version", ac_version(), "footprint",
                               (json_int_t)report->footprint, "samples", report->samples, "devices",
                               devices, "rows", rows);
  if (report->visits) json_object_set_new(document, "visits", json_integer(report->visits));
  return document;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *word(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static double number(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static bool is_document(const json_t *document) {
  const json_t *rows = json_object_get(document, "rows");
  if (!json_is_array(rows)) return false;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *results = json_object_get(json_array_get(rows, i), "results");
    if (!json_is_array(results)) return false;
    for (size_t k = 0; k < json_array_size(results); k++) {
      const json_t *result = json_array_get(results, k);
      if (!(number(result, "median_seconds") > 0) || !(number(result, "spread") >= 0)) return false;
    }
  }
  return true;
}

int bench_json_read(json_t **document, const char *path) {
  json_error_t error;
  *document = json_file_load(path, 0, &error);
  if (!*document) return fail("cannot read %s: %s", path, error.text);
  if (is_document(*document)) return STATUS_CONTINUE;
  json_decref(*document);
  *document = NULL;
  return fail("%s is not what accrue bench --json writes", path);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_row(const json_t *a, const json_t *b) {
  static const char *const keys[] = {"kind", "name", "detail", "model", "precision"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(word(a, keys[i]), word(b, keys[i])) != 0) return false;
  return true;
}

static const json_t *find_result(const json_t *document, const json_t *row, const char *device) {
  const json_t *rows = json_object_get(document, "rows");
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *other = json_array_get(rows, i);
    const json_t *results = json_object_get(other, "results");
    if (!same_row(row, other)) continue;
    for (size_t k = 0; k < json_array_size(results); k++)
      if (!strcmp(word(json_array_get(results, k), "device"), device))
        return json_array_get(results, k);
  }
  return NULL;
}

static bool is_noisy(const json_t *result) {
  return json_is_true(json_object_get(result, "noisy"));
}

static void compare_result(bench_changes *changes, const json_t *row, const json_t *now,
                           const json_t *then, FILE *out) {
  if (!then) {
    changes->missing++;
    return;
  }
  double ratio = number(now, "median_seconds") / number(then, "median_seconds");
  double spread = number(now, "spread") + number(then, "spread");
  changes->compared++;
  changes->faster += 1 / ratio > 1 + spread;
  if (ratio <= 1 + spread) return;
  bool noisy = is_noisy(now) || is_noisy(then);
  changes->slower++;
  changes->noisy += noisy;
  const char *model = word(row, "model");
  fprintf(
      out,
      "slower%s: %.2f times, %s instead of %s (spreads %.1f %% and %.1f %%): %s, %s %s %s%s%s\n",
      noisy ? ", but noisy" : "", ratio, text_duration(number(now, "median_seconds")).text,
      text_duration(number(then, "median_seconds")).text, number(now, "spread") * 100,
      number(then, "spread") * 100, word(now, "device"), word(row, "name"), word(row, "precision"),
      word(row, "detail"), *model ? " of " : "", model);
}

static const json_t *find_device(const json_t *document, const char *id) {
  const json_t *devices = json_object_get(document, "devices");
  for (size_t i = 0; i < json_array_size(devices); i++)
    if (!strcmp(word(json_array_get(devices, i), "id"), id)) return json_array_get(devices, i);
  return NULL;
}

/* Adds a difference to a line. *begun: the line has begun. Adds nothing if a value is missing. */
static void tell_difference(bool *begun, const json_t *now, const json_t *then, const char *key,
                            const char *of, FILE *out) {
  const json_t *a = json_object_get(now, key), *b = json_object_get(then, key);
  if (!a || !b || json_equal(a, b)) return;
  fprintf(out, "%s %s%s", *begun ? ";" : "baseline: measured otherwise:", of, key);
  *begun = true;
  if (json_is_string(a)) fprintf(out, " %s instead of %s", word(now, key), word(then, key));
  else fprintf(out, " %.0f instead of %.0f", number(now, key), number(then, key));
}

/* Prints a line with what makes two documents hard to compare. */
static void tell_differences(const json_t *now, const json_t *then, FILE *out) {
  static const char *const settings[] = {"footprint", "samples", "visits"};
  static const char *const keys[] = {"name", "driver", "compute_units"};
  bool begun = false;
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    tell_difference(&begun, now, then, settings[i], "", out);
  const json_t *devices = json_object_get(now, "devices");
  for (size_t d = 0; d < json_array_size(devices); d++) {
    const json_t *device = json_array_get(devices, d);
    char of[128];
    snprintf(of, sizeof of, "%s's ", word(device, "id"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      tell_difference(&begun, device, find_device(then, word(device, "id")), keys[i], of, out);
  }
  if (begun) fputc('\n', out);
}

static bool is_asked(const bench_asked *asked, const json_t *row) {
  bool kind = false;
  for (int k = 0; k < BENCH_KINDS; k++)
    kind |= asked->kinds[k] && !strcmp(word(row, "kind"), kinds[k]);
  return kind && bench_row_matches(asked->filter, word(row, "name"), word(row, "precision"),
                                   word(row, "detail"));
}

/* Results of `then` that are missing in `now`, although they were asked for and the device is
 * there. */
static void tell_gone(bench_changes *changes, const json_t *now, const json_t *then,
                      const bench_asked *asked, FILE *out) {
  const json_t *rows = json_object_get(then, "rows");
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *results = json_object_get(row, "results");
    for (size_t k = 0; k < json_array_size(results) && is_asked(asked, row); k++) {
      const char *device = word(json_array_get(results, k), "device"), *model = word(row, "model");
      if (!find_device(now, device) || find_result(now, row, device)) continue;
      changes->gone++;
      fprintf(out, "not measured now: %s, %s %s %s%s%s\n", device, word(row, "name"),
              word(row, "precision"), word(row, "detail"), *model ? " of " : "", model);
    }
  }
}

bench_changes bench_json_compare(const json_t *now, const json_t *then, const bench_asked *asked,
                                 FILE *out) {
  bench_changes changes = {0};
  tell_differences(now, then, out);
  const json_t *rows = json_object_get(now, "rows");
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *results = json_object_get(row, "results");
    for (size_t k = 0; k < json_array_size(results); k++) {
      const json_t *result = json_array_get(results, k);
      compare_result(&changes, row, result, find_result(then, row, word(result, "device")), out);
    }
  }
  tell_gone(&changes, now, then, asked, out);
  fprintf(out, "baseline: %d compared, %d slower, %d faster by more than their spreads",
          changes.compared, changes.slower, changes.faster);
  if (changes.noisy)
    fprintf(out, "; %d of the slower had not settled in both, measure again", changes.noisy);
  if (changes.missing) fprintf(out, "; %d are not in it", changes.missing);
  if (changes.gone) fprintf(out, "; %d of it were not measured now", changes.gone);
  fputc('\n', out);
  return changes;
}
