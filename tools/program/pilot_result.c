#include "program/pilot_result.h"

#include "common/file.h"
#include "common/message.h"
#include "common/run_id.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number_of(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void take_line(pilot_result *r, const json_t *line, double target, int64_t units) {
  const char *event = json_string_value(json_object_get(line, "event"));
  if (!event) return;
  if (!strcmp(event, "step")) {
    const double seconds = number_of(line, "seconds");
    r->steps = (int64_t)number_of(line, "step");
    r->seconds += seconds > 0 ? seconds : 0;
    if (!json_is_true(json_object_get(line, "replayed")))
      r->units += number_of(line, "batch") * (double)units;
  } else if (!strcmp(event, "eval")) {
    r->diverged = !json_is_number(json_object_get(line, "loss"));
    r->loss = number_of(line, "loss");
    r->accuracy = number_of(line, "accuracy");
    if (r->reached || !(r->loss <= target)) return;
    r->reached = true;
    r->units_to_target = r->units;
    r->seconds_to_target = r->seconds;
  }
}

int pilot_result_read(pilot_result *r, const char *metrics, const char *run, double target,
                      int64_t units) {
  char id[RUN_ID_BYTES];
  *r = (pilot_result){.loss = (double)NAN, .accuracy = (double)NAN};
  if (metrics_owner_of(metrics, id) != METRICS_NAMED || strcmp(id, run) != 0)
    return fail("%s does not have the metrics of the run", metrics);
  file_lines lines = {.stream = NULL};
  const int status = file_open(&lines.stream, metrics);
  if (status != STATUS_CONTINUE) return status;
  while (file_next_line(&lines)) {
    json_t *line = json_loadb(lines.text, lines.length, 0, NULL);
    take_line(r, line, target, units);
    json_decref(line);
  }
  const char *why = file_end_lines(&lines);
  fclose(lines.stream);
  if (why) return fail("cannot read %s: %s", metrics, why);
  if (r->diverged) r->seconds = (double)NAN;
  return isnan(r->loss) && !r->diverged ? fail("%s has no validation of the run", metrics)
                                        : STATUS_CONTINUE;
}

static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

json_t *pilot_result_json(const pilot_result *r) {
  return json_pack("{s:b, s:I, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "diverged", r->diverged,
                   "steps", (json_int_t)r->steps, "loss", number(r->loss), "accuracy",
                   number(r->accuracy), "units", number(r->units), "seconds", number(r->seconds),
                   "reached", r->reached, "units_to_target", number(r->units_to_target),
                   "seconds_to_target", number(r->seconds_to_target));
}

bool pilot_result_take(pilot_result *r, const json_t *json) {
  const json_t *diverged = json_object_get(json, "diverged");
  const json_t *steps = json_object_get(json, "steps");
  *r = (pilot_result){.diverged = json_is_true(diverged),
                      .steps = json_integer_value(steps),
                      .loss = number_of(json, "loss"),
                      .accuracy = number_of(json, "accuracy"),
                      .units = number_of(json, "units"),
                      .seconds = number_of(json, "seconds"),
                      .reached = json_is_true(json_object_get(json, "reached")),
                      .units_to_target = number_of(json, "units_to_target"),
                      .seconds_to_target = number_of(json, "seconds_to_target")};
  return json_is_boolean(diverged) && json_is_integer(steps) && (r->diverged || isfinite(r->loss));
}
