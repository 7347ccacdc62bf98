/* Reads what --metrics wrote.
 *
 *   metrics check FILE           every line an object with the promised fields, the peak as planned
 *   metrics compare TOLERANCE A B    the losses of all steps agree to a relative tolerance
 *   metrics field FILE EVENT FIELD   the last such field, as JSON */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *event, *fields;
} promises[] = {
    {"plan",
     "device precision effective_batch micro_batch accumulation_steps recomputed_ops frozen_count "
     "budget_bytes planned_bytes host_bytes read_ahead_bytes library_bytes"},
    {"step", "step loss lr momentum grad_norm loss_scale skipped replayed seconds samples_per_s "
             "peak_bytes"},
    {"eval", "step loss accuracy"},
    {"spike", "step outcome back_to loss loss_limit grad_norm grad_norm_limit begins_anew"},
    {"layers", "step gradient_norm weight_norm update_ratio"},
    {"epoch", "epoch step"},
    {"average", "step loss accuracy"},
    {"growth", "step batch noise_scale"},
    {"ranks", "step bytes waited"},
    {"noise_layers", "step windows gradient_squares variance noise_scale"},
    {"end",
     "steps skipped spikes went_back layer_hints val_loss val_accuracy samples_per_s tokens_per_s "
     "planned_bytes "
     "peak_bytes seconds"},
};
static const char plan_bytes[] = "parameters gradients optimizer activations workspace io total";

static int failures;

static void fail(const char *path, const char *what, const char *detail) {
  fprintf(stderr, "%s: %s %s\n", path, what, detail);
  failures++;
}

static json_t *read_lines(const char *path) {
  FILE *file = fopen(path, "r");
  json_t *lines = json_array();
  char text[65536];
  while (file && fgets(text, sizeof text, file)) {
    json_error_t error;
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(line)) fail(path, "not an object:", text);
    json_array_append_new(lines, line ? line : json_null());
  }
  if (!file || !json_array_size(lines)) fail(path, "no lines", "");
  if (file) fclose(file);
  return lines;
}

static const char *event_of(const json_t *line) {
  const char *event = json_string_value(json_object_get(line, "event"));
  return event ? event : "";
}

static void check_fields(const char *path, const json_t *object, const char *names) {
  char list[256];
  snprintf(list, sizeof list, "%s", names);
  for (char *name = strtok(list, " "); name; name = strtok(NULL, " "))
    if (!json_object_get(object, name)) fail(path, "a line lacks", name);
}

/* The classes add up to the total. */
static void check_plan(const char *path, const json_t *plan) {
  const json_t *bytes = json_object_get(plan, "planned_bytes"), *value;
  const char *name;
  json_int_t sum = 0, total = json_integer_value(json_object_get(bytes, "total"));
  check_fields(path, bytes, plan_bytes);
  json_object_foreach((json_t *)bytes, name, value) sum += json_integer_value(value);
  if (total <= 0 || sum != 2 * total) fail(path, "planned_bytes do not add up to", "total");
}

static void check(const char *path) {
  json_t *lines = read_lines(path);
  size_t count = json_array_size(lines);
  json_int_t planned = -1, last_step = 0;
  int replayed = 0;
  for (size_t i = 0; i < count; i++) {
    const json_t *line = json_array_get(lines, i);
    const char *event = event_of(line);
    int known = 0;
    for (size_t k = 0; k < sizeof promises / sizeof *promises; k++)
      if (!strcmp(event, promises[k].event))
        known = 1, check_fields(path, line, promises[k].fields);
    if (!known) fail(path, "unknown event", event);
    if (!strcmp(event, "plan")) {
      check_plan(path, line);
      planned =
          json_integer_value(json_object_get(json_object_get(line, "planned_bytes"), "total"));
    }
    if (!strcmp(event, "step")) {
      json_int_t step = json_integer_value(json_object_get(line, "step"));
      if (step != last_step + !replayed)
        fail(path, "steps are not counted from 1 without gaps", "");
      last_step = step;
      replayed = json_is_true(json_object_get(line, "replayed"));
      if (!json_is_real(json_object_get(line, "loss")) &&
          !json_is_true(json_object_get(line, "skipped")))
        fail(path, "a loss is not a number", "");
    }
  }
  const json_t *first = json_array_get(lines, 0), *end = json_array_get(lines, count - 1);
  if (strcmp(event_of(first), "plan")) fail(path, "the first event is", event_of(first));
  if (strcmp(event_of(end), "end")) fail(path, "the last event is", event_of(end));
  if (json_integer_value(json_object_get(end, "steps")) != last_step)
    fail(path, "the end counts other steps", "");
  if (json_integer_value(json_object_get(end, "planned_bytes")) != planned ||
      json_integer_value(json_object_get(end, "peak_bytes")) != planned)
    fail(path, "peak_bytes, planned_bytes and the plan's total", "differ");
  json_decref(lines);
}

static void compare(double tolerance, const char *path_a, const char *path_b) {
  json_t *a = read_lines(path_a), *b = read_lines(path_b);
  size_t steps = 0, count = json_array_size(a);
  double worst = 0;
  if (count != json_array_size(b)) fail(path_b, "has another number of lines than", path_a);
  for (size_t i = 0; i < count && !failures; i++) {
    const json_t *line = json_array_get(a, i), *other = json_array_get(b, i);
    if (strcmp(event_of(line), "step")) continue;
    double x = json_number_value(json_object_get(line, "loss"));
    double y = json_number_value(json_object_get(other, "loss"));
    double difference = fabs(x - y) / fabs(x);
    if (!(difference <= worst)) worst = isnan(difference) ? INFINITY : difference;
    steps++;
  }
  printf("%zu losses differ by at most %.3g\n", steps, worst);
  if (!steps || !(worst <= tolerance)) fail(path_b, "the losses differ from those of", path_a);
  json_decref(a);
  json_decref(b);
}

static void print_field(const char *path, const char *event, const char *field) {
  json_t *lines = read_lines(path), *value = NULL;
  for (size_t i = 0; i < json_array_size(lines); i++)
    if (!strcmp(event_of(json_array_get(lines, i)), event))
      value = json_object_get(json_array_get(lines, i), field);
  if (value) json_dumpf(value, stdout, JSON_ENCODE_ANY), putchar('\n');
  else fail(path, "there is no", field);
  json_decref(lines);
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "check")) check(argv[2]);
  else if (argc == 5 && !strcmp(argv[1], "compare")) compare(atof(argv[2]), argv[3], argv[4]);
  else if (argc == 5 && !strcmp(argv[1], "field")) print_field(argv[2], argv[3], argv[4]);
  else return 2;
  return failures ? 1 : 0;
}
