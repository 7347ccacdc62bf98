/* Holds what --tensorboard wrote against what else the run wrote.
 *
 *   events compare DIR METRICS EVERY   every number of the metrics is a scalar, in their order, and
 *     there is no other; histograms of all parameters are where --histograms EVERY (0: none) puts
 *     them, and those of gradients have the norm that the metrics tell
 *   events weights DIR MODEL           the first histograms of weights are of this file's
 *     parameters */
#include "tools/event_reader.h"

#include <accrue/model_file.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "%s %s\n", what, detail);
  failures++;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static int next_of(const event_list *list, int from, Tb__Summary__Value__ValueCase kind) {
  for (; from < list->count; from++) {
    const Tb__Summary__Value *value = event_value(list->events[from]);
    if (value && value->value_case == kind) break;
  }
  return from;
}

/* The next scalar has this name, step and value. */
static void expect_scalar(const event_list *list, int *at, const char *tag, json_int_t step,
                          double x) {
  *at = next_of(list, *at, TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE);
  if (*at == list->count) {
    fail("there is no scalar", tag);
    return;
  }
  const Tb__Event *event = list->events[(*at)++];
  const Tb__Summary__Value *value = event_value(event);
  if (strcmp(value->tag, tag)) fail(value->tag, tag);
  if (event->step != step) fail("another step:", tag);
  if (value->simple_value != (float)x) fail("another value:", tag);
}

static void expect_fields(const event_list *list, int *at, const char *prefix, json_int_t step,
                          json_t *fields) {
  const char *name;
  json_t *x;
  json_object_foreach(fields, name, x) {
    char tag[256];
    snprintf(tag, sizeof tag, "%s/%s", prefix, name);
    if (json_is_object(x)) expect_fields(list, at, tag, step, x);
    else if (json_is_number(x)) expect_scalar(list, at, tag, step, json_number_value(x));
    else if (json_is_boolean(x)) expect_scalar(list, at, tag, step, json_is_true(x));
  }
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void check_buckets(const char *tag, const Tb__Histogram *h) {
  const size_t n = h->n_bucket;
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    sum += h->bucket[i];
    if (i && !(h->bucket_limit[i] > h->bucket_limit[i - 1])) fail("limits do not rise:", tag);
  }
  if (!n || n != h->n_bucket_limit || sum != h->num) fail("the buckets do not hold all:", tag);
  else if (!(h->min < h->bucket_limit[0] && h->max < h->bucket_limit[n - 1]) ||
           (n > 1 && h->max < h->bucket_limit[n - 2]))
    fail("the ends are not those of the buckets:", tag);
}

/* Those of one step: how many elements, and the norm of the gradient. */
typedef struct sums {
  double weights, gradients, squares;
} sums;

static sums add_up(const event_list *list, int *at, json_int_t step) {
  sums s = {0};
  for (;; (*at)++) {
    *at = next_of(list, *at, TB__SUMMARY__VALUE__VALUE_HISTO);
    if (*at == list->count || list->events[*at]->step != step) return s;
    const Tb__Summary__Value *value = event_value(list->events[*at]);
    const bool gradient = !strncmp(value->tag, "gradients/", 10);
    if (!gradient && strncmp(value->tag, "weights/", 8)) fail("unknown histogram", value->tag);
    check_buckets(value->tag, value->histo);
    if (gradient) s.gradients += value->histo->num, s.squares += value->histo->sum_squares;
    else s.weights += value->histo->num;
  }
}

/* The norm is summed in floats on the device, of a few thousand elements. */
static void expect_histograms(const event_list *list, int *at, json_int_t step, double parameters,
                              double norm) {
  const sums s = add_up(list, at, step);
  char words[128];
  snprintf(words, sizeof words, "at step %lld: %g weights, %g gradients of norm %.9g, not %.9g",
           (long long)step, s.weights, s.gradients, sqrt(s.squares), norm);
  if (s.weights != parameters || s.gradients != parameters ||
      !(fabs(sqrt(s.squares) - norm) <= 1e-6 * norm))
    fail("histograms", words);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static json_t *read_lines(const char *path) {
  FILE *file = fopen(path, "r");
  json_t *lines = json_array(), *line;
  while (file && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)))
    json_array_append_new(lines, line);
  if (file) fclose(file);
  return lines;
}

static json_int_t integer(const json_t *line, const char *field) {
  return json_integer_value(json_object_get(line, field));
}

static void compare(const event_list *list, const char *metrics, json_int_t every) {
  json_t *lines = read_lines(metrics), *line;
  int scalar = 0, histogram = 0;
  json_int_t step = 0, due = every;
  double parameters = 0;
  size_t i;
  json_array_foreach(lines, i, line) {
    char event[32];
    snprintf(event, sizeof event, "%s", json_string_value(json_object_get(line, "event")));
    if (json_object_get(line, "step")) step = integer(line, "step");
    if (!strcmp(event, "plan")) parameters = (double)integer(line, "parameter_count");
    const bool trained = !strcmp(event, "step") && !json_is_true(json_object_get(line, "skipped"));
    if (every && trained && step >= due) {
      due = (step / every + 1) * every;
      expect_histograms(list, &histogram, step, parameters,
                        json_number_value(json_object_get(line, "grad_norm")));
    }
    json_object_del(line, "event");
    json_object_del(line, "step");
    expect_fields(list, &scalar,
                  !strcmp(event, "step")   ? "train"
                  : !strcmp(event, "eval") ? "validation"
                                           : event,
                  step, line);
  }
  if (json_array_size(lines) < 3) fail("hardly any metrics in", metrics);
  if (next_of(list, scalar, TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE) < list->count)
    fail("there are scalars that are not in", metrics);
  if (next_of(list, histogram, TB__SUMMARY__VALUE__VALUE_HISTO) < list->count)
    fail("there are histograms", "where none are due");
  json_decref(lines);
}

static void check_beginning(const event_list *list) {
  const Tb__Summary__Value *settings = list->count > 1 ? event_value(list->events[1]) : NULL;
  if (!list->count || list->events[0]->what_case != TB__EVENT__WHAT_FILE_VERSION ||
      strcmp(list->events[0]->file_version, "brain.Event:2"))
    fail("the first event", "is not a version");
  if (!settings || strcmp(settings->tag, "settings") || list->events[1]->step ||
      settings->value_case != TB__SUMMARY__VALUE__VALUE_TENSOR ||
      settings->tensor->n_string_val != 1)
    fail("the second event", "is not the settings");
  else
    printf("%.*s", (int)settings->tensor->string_val[0].len,
           (const char *)settings->tensor->string_val[0].data);
}

/* ---- plugins --------------------------------------------------------------------------------- */

/* The only value with this tag; NULL: there is none, or several. */
static const Tb__Summary__Value *find_value(const event_list *list, const char *tag) {
  const Tb__Summary__Value *found = NULL;
  for (int i = 0; i < list->count; i++) {
    const Tb__Summary__Value *value = event_value(list->events[i]);
    if (!value || strcmp(value->tag, tag)) continue;
    if (found) fail("there are two values", tag);
    found = value;
  }
  if (!found) fail("there is no value", tag);
  return found;
}

/* Of the plugin hparams; NULL: there is none. */
static Tb__HParams *find_hparams(const event_list *list, const char *tag,
                                 Tb__HParams__DataCase kind) {
  const Tb__Summary__Value *value = find_value(list, tag);
  if (!value || !value->metadata || strcmp(value->metadata->plugin_data->plugin_name, "hparams")) {
    fail("not of the plugin hparams:", tag);
    return NULL;
  }
  const ProtobufCBinaryData content = value->metadata->plugin_data->content;
  Tb__HParams *message = tb__hparams__unpack(NULL, content.len, content.data);
  if (message && message->data_case == kind) return message;
  fail("another message:", tag);
  return NULL;
}

/* "hparam NAME VALUE", and a star after those that are shown at once. */
static void print_hparams(const event_list *list) {
  Tb__HParams *all = find_hparams(list, "_hparams_/experiment", TB__HPARAMS__DATA_EXPERIMENT),
              *start = find_hparams(list, "_hparams_/session_start_info",
                                    TB__HPARAMS__DATA_SESSION_START_INFO),
              *end = find_hparams(list, "_hparams_/session_end_info",
                                  TB__HPARAMS__DATA_SESSION_END_INFO);
  if (!all || !start || !end) return;
  if (all->experiment->n_hparam_infos != start->session_start_info->n_hparams)
    fail("the table has other settings than", "the run");
  for (size_t i = 0; i < start->session_start_info->n_hparams; i++) {
    const Tb__SessionStart__Entry *entry = start->session_start_info->hparams[i];
    const Tb__HParamInfo *info = all->experiment->hparam_infos[i];
    const Tb__Setting *value = entry->value;
    if (strcmp(info->name, entry->key)) fail("another setting:", entry->key);
    printf("hparam %s ", entry->key);
    if (value->kind_case == TB__SETTING__KIND_NUMBER_VALUE) printf("%g", value->number_value);
    else if (value->kind_case == TB__SETTING__KIND_BOOL_VALUE)
      printf("%s", value->bool_value ? "true" : "false");
    else printf("%s", value->string_value);
    printf("%s\n", info->differs ? " *" : "");
  }
  for (size_t i = 0; i < all->experiment->n_metric_infos; i++)
    printf("metric %s\n", all->experiment->metric_infos[i]->name->tag);
  printf("end %d\n", (int)end->session_end_info->status);
  tb__hparams__free_unpacked(all, NULL);
  tb__hparams__free_unpacked(start, NULL);
  tb__hparams__free_unpacked(end, NULL);
}

/* "chart CATEGORY TITLE TAG..." */
static void print_layout(const event_list *list) {
  const Tb__Summary__Value *value = find_value(list, "custom_scalars__config__");
  if (!value || !value->tensor || value->tensor->n_string_val != 1) {
    fail("the layout", "is not a text");
    return;
  }
  const ProtobufCBinaryData content = value->tensor->string_val[0];
  Tb__Layout *layout = tb__layout__unpack(NULL, content.len, content.data);
  for (size_t c = 0; layout && c < layout->n_category; c++)
    for (size_t i = 0; i < layout->category[c]->n_chart; i++) {
      const Tb__Layout__Chart *chart = layout->category[c]->chart[i];
      printf("chart %s: %s", layout->category[c]->title, chart->title);
      for (size_t k = 0; k < chart->multiline->n_tag; k++) printf(" %s", chart->multiline->tag[k]);
      printf("\n");
    }
  if (layout) tb__layout__free_unpacked(layout, NULL);
}

/* ---- weights --------------------------------------------------------------------------------- */

static void compare_tensor(const Tb__Summary__Value *value, ac_model_file *file, int index) {
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  int64_t count = 1;
  for (int k = 0; k < tensor->rank; k++) count *= tensor->shape[k];
  float *data = malloc((size_t)count * sizeof *data);
  double sum = 0, min = INFINITY, max = -INFINITY;
  if (!data || ac_model_file_read(file, index, 0, count, data) != AC_OK)
    fail("cannot read", tensor->name);
  for (int64_t i = 0; data && i < count; i++) {
    sum += (double)data[i];
    min = fmin(min, (double)data[i]);
    max = fmax(max, (double)data[i]);
  }
  const Tb__Histogram *h = value->histo;
  if (h->num != (double)count || h->min != min || h->max != max || h->sum != sum)
    fail("not of the model:", value->tag);
  free(data);
}

static void compare_weights(const event_list *list, const char *model) {
  ac_model_file *file = NULL;
  if (ac_model_file_open(&file, model) != AC_OK) {
    fail(ac_last_error(), "");
    return;
  }
  int seen = 0;
  for (int i = 0; (i = next_of(list, i, TB__SUMMARY__VALUE__VALUE_HISTO)) < list->count; i++) {
    const Tb__Summary__Value *value = event_value(list->events[i]);
    if (strncmp(value->tag, "weights/", 8) || seen == ac_model_file_tensor_count(file)) continue;
    const int index = ac_model_file_find(file, value->tag + 8);
    if (index < 0) fail("not in the model:", value->tag);
    else compare_tensor(value, file, index);
    seen++;
  }
  if (!seen || seen != ac_model_file_tensor_count(file)) fail("not all tensors of", model);
  ac_model_file_close(file);
}

int main(int argc, char **argv) {
  event_list list = {0};
  if (argc < 4) return 2;
  if (!event_list_read_folder(&list, argv[2])) return 1;
  if (argc == 5 && !strcmp(argv[1], "compare"))
    check_beginning(&list), print_hparams(&list), print_layout(&list),
        compare(&list, argv[3], atoll(argv[4]));
  else if (argc == 4 && !strcmp(argv[1], "weights")) compare_weights(&list, argv[3]);
  else failures = 2;
  event_list_free(&list);
  return failures ? 1 : 0;
}
