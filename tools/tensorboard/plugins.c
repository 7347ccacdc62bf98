#include "tensorboard/plugins.h"

#include <event.pb-c.h> /* made of event.proto */
#include <stdlib.h>
#include <string.h>

static plugin_content packed(const ProtobufCMessage *message) {
  plugin_content content = {.bytes = protobuf_c_message_get_packed_size(message)};
  content.data = malloc(content.bytes ? content.bytes : 1);
  if (content.data) protobuf_c_message_pack(message, content.data);
  return content;
}

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* `count` messages of `size` bytes, and the array of their addresses before them. NULL: there is no
 * memory. */
static void **make_list(size_t count, size_t size) {
  void **list = calloc(count + 1, sizeof *list + size);
  char *first = (char *)(list + count + 1);
  for (size_t i = 0; list && i < count; i++) list[i] = first + i * size;
  return list;
}

static Tb__HParamInfo__DataType type_of(const json_t *value) {
  if (json_is_number(value)) return TB__HPARAM_INFO__DATA_TYPE__FLOAT64;
  return json_is_boolean(value) ? TB__HPARAM_INFO__DATA_TYPE__BOOL
                                : TB__HPARAM_INFO__DATA_TYPE__STRING;
}

static bool is_listed(const json_t *names, const char *name) {
  size_t index;
  json_t *item;
  json_array_foreach((json_t *)names, index, item) {
    if (json_is_string(item) && !strcmp(json_string_value(item), name)) return true;
  }
  return false;
}

enum { METRICS = 3 };

/* What runs are compared by. */
static void list_metrics(Tb__MetricInfo infos[METRICS], Tb__MetricInfo__MetricName names[METRICS],
                         Tb__MetricInfo *list[METRICS]) {
  static const char *const tags[METRICS] = {"validation/loss", "validation/accuracy", "train/loss"};
  for (int i = 0; i < METRICS; i++) {
    names[i] = (Tb__MetricInfo__MetricName)TB__METRIC_INFO__METRIC_NAME__INIT;
    names[i].tag = (char *)tags[i];
    infos[i] = (Tb__MetricInfo)TB__METRIC_INFO__INIT;
    infos[i].name = &names[i];
    infos[i].display_name = (char *)tags[i];
    list[i] = &infos[i];
  }
}

plugin_content plugin_experiment(const json_t *settings, const json_t *given, double now) {
  Tb__Experiment experiment = TB__EXPERIMENT__INIT;
  Tb__HParams message = TB__HPARAMS__INIT;
  Tb__MetricInfo metrics[METRICS], *metric_list[METRICS];
  Tb__MetricInfo__MetricName names[METRICS];
  const char *name;
  json_t *value;
  size_t count = 0;
  void **list = make_list(json_object_size(settings), sizeof(Tb__HParamInfo));
  if (!list) return (plugin_content){0};
  json_object_foreach((json_t *)settings, name, value) {
    Tb__HParamInfo *info = list[count++];
    *info = (Tb__HParamInfo)TB__HPARAM_INFO__INIT;
    info->name = (char *)name;
    info->type = type_of(value);
    info->differs = is_listed(given, name);
  }
  list_metrics(metrics, names, metric_list);
  experiment.time_created_secs = now;
  experiment.n_hparam_infos = count;
  experiment.hparam_infos = (Tb__HParamInfo **)list;
  experiment.n_metric_infos = METRICS;
  experiment.metric_infos = metric_list;
  message.data_case = TB__HPARAMS__DATA_EXPERIMENT;
  message.experiment = &experiment;
  const plugin_content content = packed(&message.base);
  free(list);
  return content;
}

typedef struct setting {
  Tb__SessionStart__Entry entry;
  Tb__Setting value;
} setting;

static void set(setting *s, const char *name, const json_t *value) {
  s->value = (Tb__Setting)TB__SETTING__INIT;
  s->entry = (Tb__SessionStart__Entry)TB__SESSION_START__ENTRY__INIT;
  s->entry.key = (char *)name;
  s->entry.value = &s->value;
  if (json_is_number(value)) {
    s->value.kind_case = TB__SETTING__KIND_NUMBER_VALUE;
    s->value.number_value = json_number_value(value);
  } else if (json_is_boolean(value)) {
    s->value.kind_case = TB__SETTING__KIND_BOOL_VALUE;
    s->value.bool_value = json_is_true(value);
  } else {
    s->value.kind_case = TB__SETTING__KIND_STRING_VALUE;
    s->value.string_value = (char *)json_string_value(value);
  }
}

plugin_content plugin_session_start(const json_t *settings, double now) {
  Tb__SessionStart start = TB__SESSION_START__INIT;
  Tb__HParams message = TB__HPARAMS__INIT;
  const char *name;
  json_t *value;
  size_t count = 0;
  void **list = make_list(json_object_size(settings), sizeof(setting));
  if (!list) return (plugin_content){0};
  json_object_foreach((json_t *)settings, name, value) set(list[count++], name, value);
  start.n_hparams = count;
  start.hparams = (Tb__SessionStart__Entry **)list; /* each begins its setting */
  start.start_time_secs = now;
  message.data_case = TB__HPARAMS__DATA_SESSION_START_INFO;
  message.session_start_info = &start;
  const plugin_content content = packed(&message.base);
  free(list);
  return content;
}

plugin_content plugin_session_end(bool success, double now) {
  Tb__SessionEnd end = TB__SESSION_END__INIT;
  Tb__HParams message = TB__HPARAMS__INIT;
  end.status = success ? TB__SESSION_END__STATUS__SUCCESS : TB__SESSION_END__STATUS__UNKNOWN;
  end.end_time_secs = now;
  message.data_case = TB__HPARAMS__DATA_SESSION_END_INFO;
  message.session_end_info = &end;
  return packed(&message.base);
}

/* ---- the layout ------------------------------------------------------------------------------ */

enum { MOST_TAGS = 4, CHARTS = 9 };

/* Charts of one category follow each other. Tags are regular expressions. */
static const struct {
  const char *category, *title, *tags[MOST_TAGS];
} charts[CHARTS] = {
    {"Loss", "loss", {"^train/loss$", "^validation/loss$", "^average/loss$"}},
    {"Loss", "validation loss", {"^validation/loss$", "^average/loss$"}},
    {"Accuracy", "validation accuracy", {"^validation/accuracy$", "^average/accuracy$"}},
    {"Updates", "learning rate", {"^train/lr$"}},
    {"Updates", "gradient norm", {"^train/grad_norm$"}},
    {"Updates", "batch", {"^train/batch$", "^train/noise_scale$"}},
    {"Updates", "loss scale", {"^train/loss_scale$"}},
    {"Speed", "samples a second", {"^train/samples_per_s$"}},
    {"Memory", "peak bytes on the device", {"^train/peak_bytes$"}},
};

plugin_content plugin_layout(void) {
  Tb__Layout layout = TB__LAYOUT__INIT;
  Tb__Layout__Category categories[CHARTS], *category_list[CHARTS];
  Tb__Layout__Chart chart[CHARTS], *chart_list[CHARTS];
  Tb__Layout__Chart__Multiline lines[CHARTS];
  layout.category = category_list;
  for (int i = 0; i < CHARTS; i++) {
    lines[i] = (Tb__Layout__Chart__Multiline)TB__LAYOUT__CHART__MULTILINE__INIT;
    lines[i].tag = (char **)charts[i].tags;
    while (lines[i].n_tag < MOST_TAGS && charts[i].tags[lines[i].n_tag]) lines[i].n_tag++;
    chart[i] = (Tb__Layout__Chart)TB__LAYOUT__CHART__INIT;
    chart[i].title = (char *)charts[i].title;
    chart[i].multiline = &lines[i];
    chart_list[i] = &chart[i];
    if (!i || strcmp(charts[i].category, charts[i - 1].category) != 0) {
      Tb__Layout__Category *next = category_list[layout.n_category] =
          &categories[layout.n_category];
      layout.n_category++;
      *next = (Tb__Layout__Category)TB__LAYOUT__CATEGORY__INIT;
      next->title = (char *)charts[i].category;
      next->chart = &chart_list[i];
    }
    categories[layout.n_category - 1].n_chart++;
  }
  return packed(&layout.base);
}
