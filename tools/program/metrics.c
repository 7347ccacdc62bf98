#include "program/metrics.h"

#include "common/accuracy.h"
#include "common/json_text.h"
#include "common/lock.h"
#include "common/message.h"
#include "common/outputs.h"
#include "common/run_id.h"
#include "program/layer_words.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Looks at the lines that are whole in the first *bytes. False with the reason in errno. */
static bool count_bytes(FILE *stream, int64_t *bytes) {
  const int64_t most = *bytes;
  *bytes = 0;
  for (int64_t at = 1; at <= most; at++) {
    const int c = fgetc(stream);
    if (c == EOF) break;
    if (c == '\n') *bytes = at;
  }
  return !ferror(stream);
}

/* The update in a line; -1: the line is not of an update, or is of a window that ran again. */
static int64_t step_of(const char *line) {
  static const char start[] = "{\"event\":\"step\",\"step\":";
  const size_t length = sizeof start - 1;
  if (strncmp(line, start, length) != 0 || strstr(line, "\"replayed\":true")) return -1;
  return (int64_t)strtoll(line + length, NULL, 10);
}

/* The run may have written elsewhere, or nowhere, when its state was saved: then the state's count
 * of bytes is not that of this file, and the next line here is of an earlier update. *bytes becomes
 * the end of the last line of such an update. False with the reason in errno. */
static bool count_steps(metrics *m, int64_t *bytes) {
  char *line = NULL;
  size_t room = 0;
  bool before = true;
  if (fseeko(m->stream, (off_t)*bytes, SEEK_SET) != 0) return false;
  for (ssize_t length, at = *bytes; before && (length = getline(&line, &room, m->stream)) > 0;) {
    const int64_t step = line[length - 1] == '\n' ? step_of(line) : -1;
    at += length;
    if (step >= 0 && step <= m->done) *bytes = at;
    before = step <= m->done;
  }
  free(line);
  return !ferror(m->stream);
}

/* Cuts what was written after the state that the run resumes from: it will be written again. If
 * earlier lines are lost, the others stay. False with the reason in errno. */
static bool cut(metrics *m, int64_t keep) {
  int64_t whole = keep;
  if (!count_bytes(m->stream, &whole) || !count_steps(m, &whole)) return false;
  if (whole < keep) say("some of the run's metrics in %s were lost; the others stay", m->path);
  if (ftruncate(fileno(m->stream), whole) != 0) return false;
  m->continued = whole > 0;
  return fseeko(m->stream, 0, SEEK_END) == 0;
}

/* Whether a file may hold the metrics of the run so far. If it cannot be read, writing to it will
 * say so. */
static bool may_be_own(const metrics *m, bool anew) {
  char id[RUN_ID_BYTES];
  const metrics_owner owner = metrics_owner_of(m->path, id);
  if (owner == METRICS_NAMED && !strcmp(id, m->run)) return true;
  return owner == METRICS_NONE || (owner == METRICS_UNNAMED && !anew);
}

/* Whether a run that is resumed has written to the file before. */
static bool has_begun(const metrics *m) {
  char id[RUN_ID_BYTES];
  return m->done > 0 && metrics_owner_of(m->path, id) == METRICS_NAMED && !strcmp(id, m->run);
}

/* A pipe or a device takes all that comes. A file is opened unchanged, and cut only after checks
 * that it is not another run's and holds nothing but metrics. */
static int open_stream(metrics *m, bool special, bool anew) {
  const int descriptor = special ? -1 : open(m->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  m->stream = special ? fopen(m->path, "w") : descriptor < 0 ? NULL : fdopen(descriptor, "r+");
  if (!m->stream) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    return fail("cannot write the metrics to %s: %s", m->path, strerror(error));
  }
  if (special) return STATUS_CONTINUE;
  if (!lock_take(fileno(m->stream), m->path, NULL))
    return fail("another run writes its metrics to %s; name another file with --metrics", m->path);
  if (anew && !outputs_holds(m->path, OUTPUT_METRICS))
    return fail_usage("--metrics %s is a file that does not hold metrics, and would be written "
                      "over; name another file, or remove it",
                      m->path);
  if (!(anew && m->overwrite) && !may_be_own(m, anew))
    return anew ? fail_usage("%s holds the metrics of another run; name another file with "
                             "--metrics, or write over them with --overwrite",
                             m->path)
                : fail("%s does not hold the metrics of the run to resume; name another file "
                       "with --metrics",
                       m->path);
  if (anew && ftruncate(fileno(m->stream), 0) != 0)
    return fail("cannot write the metrics to %s: %s", m->path, strerror(errno));
  return STATUS_CONTINUE;
}

int metrics_begin(metrics *m, int64_t keep) {
  if (!m->path) return STATUS_CONTINUE;
  struct stat info;
  const bool there = stat(m->path, &info) == 0, missing = !there && errno == ENOENT;
  const bool special = there && !S_ISREG(info.st_mode); /* a pipe, a device */
  const bool anew = missing || special || (keep <= 0 && !has_begun(m));
  if (keep > 0 && missing)
    say("%s does not have the metrics of the run so far; the file begins anew", m->path);
  const int status = open_stream(m, special, anew);
  if (status != STATUS_CONTINUE) {
    if (m->stream) fclose(m->stream);
    m->stream = NULL;
    return status;
  }
  if (!anew && !cut(m, keep > 0 ? keep : 0))
    return fail("cannot write the metrics to %s: %s", m->path, strerror(errno));
  m->good = (int64_t)ftello(m->stream);
  return STATUS_CONTINUE;
}

int metrics_open(metrics *m, const metrics_desc *desc) {
  *m = (metrics){.path = desc->path,
                 .run = desc->run,
                 .overwrite = desc->overwrite,
                 .done = desc->events.done};
  return tensorboard_open(&m->tensorboard, &desc->events);
}

void metrics_abandon(metrics *m) {
  tensorboard_remove(m->tensorboard);
  m->tensorboard = NULL;
}

static bool anyone_reads(const metrics *m) {
  return m->stream || m->tensorboard;
}

int64_t metrics_sync(metrics *m) {
  if (!m->stream) return -1;
  if (!m->error && fsync(fileno(m->stream)) != 0 && errno != EINVAL) m->error = errno;
  return m->good;
}

/* Takes ownership of `line`; NULL: there was no memory for it. */
static void write_line(metrics *m, json_t *line) {
  if (line) tensorboard_line(m->tensorboard, line);
  if (m->stream && !m->error) {
    errno = ENOMEM;
    if (!line || !json_text_put(line, JSON_COMPACT, m->stream) || fflush(m->stream) != 0)
      m->error = errno ? errno : ENOMEM;
    else m->good = (int64_t)ftello(m->stream);
  }
  json_decref(line);
}

/* JSON has no NaN and no infinity. */
static json_t *number(double x) {
  return isfinite(x) ? json_real(x) : json_null();
}

static double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : NAN;
}

#define INTEGER(x) json_integer((json_int_t)(x))

void metrics_plan(metrics *m, const ac_device *device, const ac_plan_info *plan) {
  m->device = device;
  if (!anyone_reads(m) || m->continued) return;
  const ac_plan_bytes *b = &plan->bytes;
  json_t *bytes =
      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "parameters", INTEGER(b->parameters),
                "gradients", INTEGER(b->gradients), "optimizer", INTEGER(b->optimizer),
                "activations", INTEGER(b->activations), "workspace", INTEGER(b->workspace), "io",
                INTEGER(b->io), "total", INTEGER(b->total));
  write_line(m, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                          "s:s}",
                          "event", "plan", "device", ac_device_get_info(device)->id, "precision",
                          ac_precision_name(plan->precision), "effective_batch",
                          INTEGER(plan->batch), "micro_batch", INTEGER(plan->micro_batch),
                          "accumulation_steps", INTEGER(plan->accumulation_steps), "recomputed_ops",
                          INTEGER(plan->recomputed_ops), "parameter_count",
                          INTEGER(plan->parameter_count), "frozen_count",
                          INTEGER(plan->frozen_count), "budget_bytes", INTEGER(plan->budget_bytes),
                          "planned_bytes", bytes, "host_bytes", INTEGER(plan->host_bytes),
                          "read_ahead_bytes", INTEGER(plan->read_ahead_bytes), "library_bytes",
                          INTEGER(plan->library_bytes), "run", m->run));
}

/* Adds the means of several losses, each under its name, to a line. */
static json_t *with_losses(json_t *line, const ac_loss_mean *losses, int count) {
  if (count < 2) return line;
  json_t *means = json_object();
  for (int k = 0; k < count; k++)
    json_object_set_new(means, losses[k].name, number(losses[k].loss));
  if (json_object_set_new(line, "losses", means) == 0) return line;
  json_decref(line);
  return NULL;
}

/* Adds metrics, each under its name, to a line. */
static json_t *with_metrics(json_t *line, const ac_metric *metrics, int count) {
  if (!line || !count) return line;
  json_t *values = json_object();
  for (int k = 0; k < count; k++)
    json_object_set_new(values, metrics[k].name, number(metrics[k].value));
  if (json_object_set_new(line, "metrics", values) == 0) return line;
  json_decref(line);
  return NULL;
}

/* Adds the mean IoU of an evaluation to a line, if it has one. */
static json_t *with_mean_iou(json_t *line, const char *key, const ac_evaluation *e) {
  const double iou = mean_iou_of(e);
  if (!line || isnan(iou) || json_object_set_new(line, key, number(iou)) == 0) return line;
  json_decref(line);
  return NULL;
}

static void write_evaluation(metrics *m, const char *event, int64_t step, const ac_evaluation *e) {
  json_t *line = json_pack("{s:s, s:o, s:o, s:o}", "event", event, "step", INTEGER(step), "loss",
                           number(e->loss), "accuracy", number(accuracy_of(e)));
  line = with_losses(with_mean_iou(line, "mean_iou", e), e->losses, e->loss_count);
  write_line(m, with_metrics(line, e->metrics, e->metric_count));
}

void metrics_average(metrics *m, int64_t step, const ac_evaluation *evaluation) {
  if (anyone_reads(m)) write_evaluation(m, "average", step, evaluation);
}

void metrics_ranks(metrics *m, int64_t step, const ac_trainer *trainer) {
  ac_rank_report report;
  if (!anyone_reads(m)) return;
  json_t *bytes = json_array(), *waited = json_array();
  for (int r = 0; ac_trainer_rank_report(trainer, r, &report) == AC_OK; r++) {
    json_array_append_new(bytes, INTEGER(report.bytes));
    json_array_append_new(waited, number(report.waited));
  }
  write_line(m, json_pack("{s:s, s:o, s:o, s:o}", "event", "ranks", "step", INTEGER(step), "bytes",
                          bytes, "waited", waited));
}

/* Adds the norms of groups' gradients to a line. */
static json_t *with_groups(json_t *line, const ac_update *update) {
  if (!line || !update->group_count) return line;
  json_t *norms = json_array();
  for (int g = 0; g < update->group_count; g++)
    json_array_append_new(norms, number(update->group_norms[g]));
  if (json_object_set_new(line, "group_norms", norms) == 0) return line;
  json_decref(line);
  return NULL;
}

/* After the line of its step. */
static void write_spike(metrics *m, const ac_fit_event *event) {
  const ac_update *u = &event->update;
  write_line(m,
             json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "event", "spike", "step",
                       INTEGER(event->step), "outcome",
                       event->went_back ? "back"
                       : u->skipped     ? "skip"
                                        : "tell",
                       "back_to", event->went_back ? INTEGER(event->back_to) : json_null(), "loss",
                       number(u->loss), "loss_limit", number(u->spike.loss_limit), "grad_norm",
                       number(u->grad_norm), "grad_norm_limit", number(u->spike.norm_limit),
                       "begins_anew", u->spike.begins_anew ? 1 : 0));
}

void metrics_fit(metrics *m, const ac_fit_event *event) {
  if (!anyone_reads(m) || event->kind == AC_FIT_TRAINED) return;
  if (event->kind == AC_FIT_EVALUATION) {
    write_evaluation(m, "eval", event->step, &event->evaluation);
    return;
  }
  const ac_update *u = &event->update;
  json_t *line = json_pack(
      "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o}", "event",
      "step", "step", INTEGER(event->step), "epoch", INTEGER(event->epoch), "loss", number(u->loss),
      "batch", INTEGER(event->samples), "lr", number(u->lr), "momentum", number(u->momentum),
      "grad_norm", number(u->grad_norm), "loss_scale", number(u->loss_scale), "noise_scale",
      number(u->noise_scale), "skipped", u->skipped ? 1 : 0, "replayed", event->replayed ? 1 : 0,
      "seconds", number(event->seconds), "data_wait_s", number(event->data_wait_seconds),
      "samples_per_s", number(rate((double)event->samples, event->seconds)), "peak_bytes",
      INTEGER(ac_device_peak_bytes(m->device)));
  line = with_groups(with_losses(line, u->losses, u->loss_count), u);
  write_line(m, with_metrics(line, u->metrics, u->metric_count));
  if (u->spike.alarm) write_spike(m, event);
  if (event->epoch_ended)
    write_line(m, json_pack("{s:s, s:o, s:o}", "event", "epoch", "epoch", INTEGER(event->epoch - 1),
                            "step", INTEGER(event->step)));
}

void metrics_layers(metrics *m, int64_t step, const ac_trainer *trainer) {
  if (!anyone_reads(m)) return;
  json_t *gradients = json_object(), *weights = json_object(), *ratios = json_object();
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_layer_report layer;
    ac_tensor_info info;
    if (ac_trainer_layer(trainer, i, &layer) != AC_OK || !layer.update ||
        ac_trainer_parameter_info(trainer, i, &info) != AC_OK)
      continue;
    json_object_set_new(gradients, info.name, number(layer.gradient_norm));
    json_object_set_new(weights, info.name, number(layer.weight_norm));
    json_object_set_new(ratios, info.name, number(layer.update_ratio));
  }
  write_line(m,
             json_pack("{s:s, s:o, s:o, s:o, s:o}", "event", "layers", "step", INTEGER(step),
                       "gradient_norm", gradients, "weight_norm", weights, "update_ratio", ratios));
}

void metrics_growth(metrics *m, const ac_fit_event *event) {
  if (!anyone_reads(m)) return;
  write_line(m, json_pack("{s:s, s:o, s:o, s:o}", "event", "growth", "step", INTEGER(event->step),
                          "batch", INTEGER(event->grown), "noise_scale",
                          number(event->update.noise_scale)));
}

void metrics_noise_layers(metrics *m, int64_t step, const ac_trainer *trainer) {
  ac_noise_scale noise = {.windows = 0};
  int64_t windows = 0;
  if (!anyone_reads(m)) return;
  json_t *squares = json_object(), *variances = json_object(), *scales = json_object();
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    if (ac_trainer_noise_scale_of(trainer, i, &noise) != AC_OK || !noise.windows ||
        ac_trainer_parameter_info(trainer, i, &info) != AC_OK)
      continue;
    windows = noise.windows;
    json_object_set_new(squares, info.name, number(noise.gradient_squares));
    json_object_set_new(variances, info.name, number(noise.variance));
    json_object_set_new(scales, info.name, number(noise.batch));
  }
  write_line(m, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "event", "noise_layers", "step",
                          INTEGER(step), "windows", INTEGER(windows), "gradient_squares", squares,
                          "variance", variances, "noise_scale", scales));
}

/* Adds the schedule of batches, if it has grown, to a line. */
static json_t *with_batches(json_t *line, const char *batches) {
  if (!line || !batches || json_object_set_new(line, "batches", json_string(batches)) == 0)
    return line;
  json_decref(line);
  return NULL;
}

void metrics_finish(metrics *m, const metrics_end *end) {
  if (!anyone_reads(m)) return;
  const ac_fit_result *fit = end->fit;
  double samples = rate((double)fit->samples, fit->seconds);
  double tokens = end->tokens_per_sample ? samples * (double)end->tokens_per_sample : NAN;
  ac_noise_scale noise;
  if (ac_trainer_noise_scale(end->trainer, &noise) != AC_OK) return;
  json_t *line = json_pack(
      "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, "
      "s:o, s:o, s:o, "
      "s:o}",
      "event", "end", "steps", INTEGER(fit->steps), "skipped", INTEGER(fit->skipped), "epochs",
      INTEGER(fit->epochs), "samples", INTEGER(fit->samples), "spikes", INTEGER(fit->spikes),
      "went_back", INTEGER(fit->went_back), "layer_hints", layer_hints(end->trainer), "stopped",
      fit->stopped || fit->paused, "ended_early", fit->ended_early, "val_loss",
      number(fit->evaluated ? fit->final.loss : NAN), "val_accuracy",
      number(fit->evaluated ? accuracy_of(&fit->final) : NAN), "noise_scale", number(noise.batch),
      "noise_scale_deviation", number(noise.deviation), "samples_per_s", number(samples),
      "tokens_per_s", number(tokens), "planned_bytes", INTEGER(end->planned_bytes), "peak_bytes",
      INTEGER(end->peak_bytes), "data_wait_s", number(fit->data_wait_seconds), "seconds",
      number(end->seconds));
  if (fit->evaluated) line = with_mean_iou(line, "val_mean_iou", &fit->final);
  write_line(m, with_batches(line, end->batches));
  tensorboard_end(m->tensorboard, !fit->stopped && !fit->paused);
}

static int close_file(metrics *m) {
  if (!m->stream) return STATUS_CONTINUE;
  errno = 0;
  if (fclose(m->stream) != 0 && !m->error) m->error = errno;
  m->stream = NULL;
  if (!m->error) return STATUS_CONTINUE;
  return fail("the metrics in %s are incomplete: %s", m->path, strerror(m->error));
}

int metrics_close(metrics *m) {
  const int status = tensorboard_close(m->tensorboard);
  m->tensorboard = NULL;
  const int of_file = close_file(m);
  return status == STATUS_CONTINUE ? of_file : status;
}
