#include "tensorboard/tensorboard.h"

#include "common/folder.h"
#include "common/message.h"
#include "tensorboard/event_file.h"
#include "tensorboard/histogram.h"
#include "tensorboard/plugins.h"

#include <errno.h>
#include <event.pb-c.h> /* made of event.proto */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 14 }; /* elements of a tensor on the host at a time */

struct tensorboard {
  event_file file;
  char folder[FOLDER_BYTES];
  bool made;          /* the folder was */
  int64_t done;       /* windows */
  int64_t every, due; /* histograms are written at the first good window from here on */
  histogram histogram;
  double limits[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
  float piece[PIECE];
};

/* ---- events ---------------------------------------------------------------------------------- */

static double wall_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add_event(tensorboard *t, Tb__Event *event) {
  event->wall_time = wall_time();
  uint8_t *data = malloc(tb__event__get_packed_size(event));
  if (data) event_file_add(&t->file, data, tb__event__pack(event, data));
  else if (!t->file.error) t->file.error = ENOMEM;
  free(data);
}

static void add_value(tensorboard *t, int64_t step, Tb__Summary__Value *value) {
  Tb__Summary summary = TB__SUMMARY__INIT;
  Tb__Event event = TB__EVENT__INIT;
  summary.n_value = 1;
  summary.value = &value;
  event.step = step;
  event.what_case = TB__EVENT__WHAT_SUMMARY;
  event.summary = &summary;
  add_event(t, &event);
}

static void add_scalar(tensorboard *t, int64_t step, char *tag, double x) {
  Tb__Summary__Value value = TB__SUMMARY__VALUE__INIT;
  value.tag = tag;
  value.value_case = TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
  value.simple_value = (float)x;
  add_value(t, step, &value);
}

static void add_text(tensorboard *t, int64_t step, const char *tag, const char *text) {
  Tb__SummaryMetadata__PluginData plugin = TB__SUMMARY_METADATA__PLUGIN_DATA__INIT;
  Tb__SummaryMetadata metadata = TB__SUMMARY_METADATA__INIT;
  Tb__Tensor tensor = TB__TENSOR__INIT;
  Tb__Summary__Value value = TB__SUMMARY__VALUE__INIT;
  ProtobufCBinaryData bytes = {strlen(text), (uint8_t *)text};
  plugin.plugin_name = (char *)"text";
  metadata.plugin_data = &plugin;
  tensor.dtype = TB__TENSOR__DATA_TYPE__STRING;
  tensor.n_string_val = 1;
  tensor.string_val = &bytes;
  value.tag = (char *)tag;
  value.metadata = &metadata;
  value.value_case = TB__SUMMARY__VALUE__VALUE_TENSOR;
  value.tensor = &tensor;
  add_value(t, step, &value);
}

/* A message of a plugin, which is freed; `in_tensor`: as a text, and not beside the tag. */
static void add_plugin(tensorboard *t, const char *tag, const char *name, plugin_content content,
                       bool in_tensor) {
  Tb__SummaryMetadata__PluginData plugin = TB__SUMMARY_METADATA__PLUGIN_DATA__INIT;
  Tb__SummaryMetadata metadata = TB__SUMMARY_METADATA__INIT;
  Tb__Tensor tensor = TB__TENSOR__INIT;
  Tb__Summary__Value value = TB__SUMMARY__VALUE__INIT;
  ProtobufCBinaryData bytes = {content.bytes, content.data};
  if (!content.data && !t->file.error) t->file.error = ENOMEM;
  if (!content.data) return;
  plugin.plugin_name = (char *)name;
  metadata.plugin_data = &plugin;
  value.tag = (char *)tag;
  value.metadata = &metadata;
  if (in_tensor) {
    tensor.dtype = TB__TENSOR__DATA_TYPE__STRING;
    tensor.n_string_val = 1;
    tensor.string_val = &bytes;
    value.value_case = TB__SUMMARY__VALUE__VALUE_TENSOR;
    value.tensor = &tensor;
  } else plugin.content = bytes;
  add_value(t, 0, &value);
  free(content.data);
}

void tensorboard_settings(tensorboard *t, const json_t *settings, const json_t *given) {
  if (!t) return;
  const double now = wall_time();
  add_plugin(t, "_hparams_/experiment", "hparams", plugin_experiment(settings, given, now), false);
  add_plugin(t, "_hparams_/session_start_info", "hparams", plugin_session_start(settings, now),
             false);
  add_plugin(t, "custom_scalars__config__", "custom_scalars", plugin_layout(), true);
  event_file_flush(&t->file);
}

void tensorboard_end(tensorboard *t, bool success) {
  if (!t) return;
  add_plugin(t, "_hparams_/session_end_info", "hparams", plugin_session_end(success, wall_time()),
             false);
  event_file_flush(&t->file);
}

void tensorboard_text(tensorboard *t, const char *tag, const char *text) {
  if (!t) return;
  add_text(t, t->done, tag, text);
  event_file_flush(&t->file);
}

/* ---- lines ----------------------------------------------------------------------------------- */

enum { TAG_BYTES = 512 };

static void add_fields(tensorboard *t, int64_t step, const char *prefix, const json_t *fields) {
  const char *name;
  json_t *x;
  json_object_foreach((json_t *)fields, name, x) {
    char tag[TAG_BYTES];
    snprintf(tag, sizeof tag, "%s/%s", prefix, name);
    if (json_is_object(x)) add_fields(t, step, tag, x);
    else if (json_is_number(x)) add_scalar(t, step, tag, json_number_value(x));
    else if (json_is_boolean(x)) add_scalar(t, step, tag, json_is_true(x));
    else if (json_is_string(x)) add_text(t, step, tag, json_string_value(x));
  }
}

void tensorboard_line(tensorboard *t, const json_t *line) {
  if (!t) return;
  const char *event = json_string_value(json_object_get(line, "event"));
  const json_t *number = json_object_get(line, "step");
  const int64_t step = number ? json_integer_value(number) : t->done;
  json_t *fields = json_copy((json_t *)line);
  json_object_del(fields, "event");
  json_object_del(fields, "step");
  add_fields(t, step,
             !strcmp(event, "step")   ? "train"
             : !strcmp(event, "eval") ? "validation"
                                      : event,
             fields);
  json_decref(fields);
  event_file_flush(&t->file);
  t->done = step - json_is_true(json_object_get(line, "replayed"));
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void add_histogram(tensorboard *t, int64_t step, const char *kind, const char *name) {
  const histogram *h = &t->histogram;
  char tag[TAG_BYTES];
  snprintf(tag, sizeof tag, "%s/%s", kind, name);
  Tb__Histogram histo = TB__HISTOGRAM__INIT;
  histo.min = h->min;
  histo.max = h->max;
  histo.num = (double)h->count;
  histo.sum = h->sum;
  histo.sum_squares = h->sum_squares;
  histo.n_bucket = histo.n_bucket_limit = (size_t)histogram_read(h, t->limits, t->counts);
  histo.bucket_limit = t->limits;
  histo.bucket = t->counts;
  Tb__Summary__Value value = TB__SUMMARY__VALUE__INIT;
  value.tag = tag;
  value.value_case = TB__SUMMARY__VALUE__VALUE_HISTO;
  value.histo = &histo;
  add_value(t, step, &value);
}

static int64_t elements_of(const ac_tensor_info *info) {
  int64_t elements = 1;
  for (int k = 0; k < info->rank; k++) elements *= info->shape[k];
  return elements;
}

/* ac_trainer_get_parameter or ac_trainer_get_gradient */
typedef ac_status read_elements(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                float *data);

/* False if there is nothing to read, as the gradient of a frozen parameter. */
static bool count_elements(tensorboard *t, ac_trainer *trainer, int index, int64_t elements,
                           read_elements *read, double divisor) {
  histogram_clear(&t->histogram);
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    if (read(trainer, index, first, count, t->piece) != AC_OK) return false;
    histogram_add(&t->histogram, t->piece, count, divisor);
  }
  return true;
}

void tensorboard_decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  tensorboard *t = user;
  const int64_t step = t->done + 1;
  if (step < t->due || !decision->finite || !(decision->weight > 0)) return;
  for (int i = 0; i < ac_trainer_parameter_count(trainer) && !t->file.error; i++) {
    ac_tensor_info info;
    if (ac_trainer_parameter_info(trainer, i, &info) != AC_OK) continue;
    const int64_t elements = elements_of(&info);
    if (count_elements(t, trainer, i, elements, ac_trainer_get_parameter, 1))
      add_histogram(t, step, "weights", info.name);
    if (count_elements(t, trainer, i, elements, ac_trainer_get_gradient, decision->weight))
      add_histogram(t, step, "gradients", info.name);
  }
  t->due = (step / t->every + 1) * t->every;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void begin(tensorboard *t) {
  Tb__Event version = TB__EVENT__INIT;
  version.what_case = TB__EVENT__WHAT_FILE_VERSION;
  version.file_version = (char *)"brain.Event:2";
  add_event(t, &version);
  if (t->done) {
    Tb__SessionLog start = TB__SESSION_LOG__INIT;
    Tb__Event event = TB__EVENT__INIT;
    start.status = TB__SESSION_LOG__STATUS__START;
    event.step = t->done + 1;
    event.what_case = TB__EVENT__WHAT_SESSION_LOG;
    event.session_log = &start;
    add_event(t, &event);
  }
  event_file_flush(&t->file);
}

int tensorboard_open(tensorboard **result, const tensorboard_desc *desc) {
  *result = NULL;
  if (!desc->folder) return STATUS_CONTINUE;
  const bool made = !folder_is_there(desc->folder);
  int status = folder_make(desc->folder, "tensorboard");
  if (status != STATUS_CONTINUE) return status;
  tensorboard *t = malloc(sizeof *t);
  if (!t || !event_file_open(&t->file, desc->folder)) {
    status = t ? fail("cannot make an event file in %s: %s", desc->folder, strerror(errno))
               : fail("out of memory");
    if (made) rmdir(desc->folder);
    free(t);
    return status;
  }
  snprintf(t->folder, sizeof t->folder, "%s", desc->folder);
  t->made = made;
  t->done = desc->done;
  t->every = desc->histograms;
  t->due = t->every ? (t->done / t->every + 1) * t->every : 0;
  histogram_init(&t->histogram);
  begin(t);
  if (t->file.error) {
    status = fail("cannot write events in %s: %s", t->folder, strerror(t->file.error));
    tensorboard_remove(t);
    return status;
  }
  *result = t;
  return STATUS_CONTINUE;
}

void tensorboard_remove(tensorboard *t) {
  if (!t) return;
  event_file_remove(&t->file);
  if (t->made) rmdir(t->folder);
  free(t);
}

int tensorboard_close(tensorboard *t) {
  if (!t) return STATUS_CONTINUE;
  const int error = event_file_close(&t->file);
  int status = STATUS_CONTINUE;
  if (error) status = fail("the events in %s are incomplete: %s", t->folder, strerror(error));
  free(t);
  return status;
}
