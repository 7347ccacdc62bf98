/* `accrue eval`: loss and accuracy of a saved model on a dataset, and for classifiers of images the
 * confusion matrix. It needs the memory of forward passes alone. */
#include "program/commands.h"
#include "program/examples.h"
#include "program/finite.h"
#include "common/accuracy.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/saved_model.h"
#include "program/segments.h"
#include "common/text.h"

#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* As many rows and columns as a terminal has room for. */
enum { MOST_PRINTED = 30 };

typedef struct evaluation {
  saved_model saved;
  ac_evaluation result;
  double plain;      /* accuracy of questions by log-likelihood alone */
  bool questions;    /* there are such */
  int64_t most;      /* images of each kind to show; 0: none */
  examples examples; /* of images; 0 classes: it classifies none */
  int64_t pixels;    /* of an image, if these are classified; 0: images are */
  uint8_t *answer;   /* of each of them */
} evaluation;

/* ---- flags ----------------------------------------------------------------------------------- */

static void more_options(saved_model *m, options *o) {
  const option model[] = {FLAG("model", OPTION_TEXT, &m->model)};
  const option rows[] = {
      FLAG("split", OPTION_CHOICE, &m->split),
      FLAG("json", OPTION_SWITCH, &m->json),
      FLAG("fold", OPTION_TEXT, &m->setup.flags.fold),
  };
  const option images[] = {FLAG("examples", OPTION_INTEGER, &m->setup.flags.examples)};
  if (!options_find(o, "model")) OPTIONS_ADD(o, model);
  OPTIONS_ADD(o, rows);
  OPTIONS_ADD_FILED(o, images);
}

/* ---- running --------------------------------------------------------------------------------- */

static int measure_loss(evaluation *e) {
  saved_model *m = &e->saved;
  saved_pass pass = {0};
  bool stopped;
  int status = saved_pass_open(m, AC_EVALUATE, &pass);
  if (status == STATUS_CONTINUE && m->setup.kind->judge &&
      m->setup.kind->judge(m->setup.model, pass.session, m->dataset, saved_model_show, m,
                           &e->result, &e->plain, &e->questions) != AC_OK)
    status = fail_library();
  if (status == STATUS_CONTINUE && !e->questions &&
      ac_session_evaluate_until(pass.session, m->dataset, 0, saved_model_show, m, &e->result,
                                &stopped) != AC_OK)
    status = fail_library();
  progress_clear(&m->progress);
  if (status == STATUS_CONTINUE && !isfinite(e->result.loss))
    status = fail_not_finite(m->path, "its loss is");
  /* The names of metrics end with the pass. */
  if (status == STATUS_CONTINUE) e->result.accuracy = accuracy_of(&e->result);
  e->result.metric_count = 0;
  saved_pass_close(&pass);
  return status;
}

/* Into the same matrix as of images. */
static int count_pixels(void *user, const classify_sample *sample, const float *logits) {
  evaluation *e = user;
  const int64_t classes = e->examples.classes;
  if (!segments_answer(logits, classes, e->pixels, e->answer))
    return fail_not_finite(e->saved.path, "what it predicts is");
  segments_count(sample->mask, e->answer, e->pixels, classes, e->examples.confusion);
  return STATUS_CONTINUE;
}

static int count_segments(evaluation *e) {
  int64_t shape[3];
  if (!ac_dataset_image_shape(e->saved.dataset, shape)) return fail("the data holds no images");
  e->pixels = shape[1] * shape[2];
  e->answer = malloc((size_t)e->pixels);
  if (!e->answer) return fail("out of memory");
  return saved_model_classify(&e->saved, e->examples.classes * e->pixels, count_pixels, e);
}

static int count_answers(evaluation *e) {
  const setup *s = &e->saved.setup;
  const int64_t classes = s->kind->classes ? s->kind->classes(s->model) : 0;
  if (!classes || (classes > EXAMPLES_MOST_CONFUSED && !e->most)) return STATUS_CONTINUE;
  const int status = examples_begin(&e->examples, classes, e->most);
  if (status != STATUS_CONTINUE) return status;
  if (s->kind->segments && s->kind->segments(s->model)) return count_segments(e);
  return saved_model_classify(&e->saved, classes, examples_take, &e->examples);
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_confusion(const examples *e) {
  printf("\n%8s", "label");
  for (int64_t c = 0; c < e->classes; c++) printf(" %6" PRId64, c);
  printf("   right\n");
  for (int64_t label = 0; label < e->classes; label++) {
    const int64_t *row = e->confusion + label * e->classes;
    int64_t total = 0;
    printf("%8" PRId64, label);
    for (int64_t c = 0; c < e->classes; c++) {
      printf(" %6" PRId64, row[c]);
      total += row[c];
    }
    if (total) printf(" %5.1f %%\n", 100 * (double)row[label] / (double)total);
    else printf("       -\n");
  }
}

/* How well each class is found. */
static void print_classes(const examples *e) {
  printf("mean IoU     %s %%\n\n",
         text_fixed(100 * segments_mean_iou(e->confusion, e->classes), 2).text);
  printf("%8s %12s %8s %8s\n", "class", "pixels", "found", "IoU");
  for (int64_t c = 0; c < e->classes; c++) {
    const double iou = segments_iou(e->confusion, e->classes, c);
    const int64_t right = e->confusion[c * e->classes + c];
    int64_t total = 0;
    for (int64_t k = 0; k < e->classes; k++) total += e->confusion[c * e->classes + k];
    printf("%8" PRId64 " %12" PRId64, c, total);
    if (total) printf(" %6.2f %%", 100 * (double)right / (double)total);
    else printf("        -");
    if (isnan(iou)) printf("        -\n");
    else printf(" %6.2f %%\n", 100 * iou);
  }
}

static const char *const splits[] = {"validation", "train", "all"};

/* A user that names a file just for this expects all of it. */
static void print_data(const saved_model *m) {
  const ac_dataset *whole = m->setup.data.whole;
  printf("data         %s", text_count(ac_dataset_count(m->dataset)).text);
  if (m->dataset == whole) printf(" samples, all\n");
  else if (!m->split && whole && !m->setup.flags.fold)
    printf(" of the validation split, %s; --split all takes all %s\n",
           m->setup.data.pictures.masks ? "a tenth"
           : m->setup.data.all          ? "a tenth of each class"
                                        : "the last tenth",
           text_count(ac_dataset_count(whole)).text);
  else printf(" of the %s split\n", splits[m->split]);
}

/* Of a language model with a loss of tokens. */
static bool has_perplexity(const setup *s) {
  return s->kind->load_session && !s->data.loss_unit;
}

static void print_text(const evaluation *e) {
  const setup *s = &e->saved.setup;
  message_put(stdout, "model        %s: %s\n", s->kind->name, e->saved.path);
  if (s->kind->put_data)
    s->kind->put_data(s->model, e->saved.dataset == s->data.train,
                      e->saved.dataset == s->data.validation);
  else print_data(&e->saved);
  printf("loss         %s %s %s\n", text_fixed(e->result.loss, 6).text, data_loss_words(&s->data),
         data_loss_unit(&s->data));
  if (has_perplexity(s)) printf("perplexity   %s\n", text_fixed(exp(e->result.loss), 4).text);
  printf("accuracy     %s %%%s\n", text_fixed(100 * e->result.accuracy, 2).text,
         e->questions ? " of the questions, by log-likelihood for each byte"
         : s->kind->load_session && s->data.loss_unit
             ? " of the pairs have a likelier chosen answer than before"
             : "");
  if (e->questions)
    printf("             %s %% by log-likelihood alone\n", text_fixed(100 * e->plain, 2).text);
  printf("memory       %s on %s\n", text_bytes(e->saved.bytes).text,
         ac_device_get_info(s->device)->id);
  if (e->pixels) print_classes(&e->examples);
  else if (e->examples.confusion && e->examples.classes <= MOST_PRINTED)
    print_confusion(&e->examples);
}

/* A language model takes all documents, unless it is told otherwise. */
static const char *split_of(const saved_model *m) {
  const bool all = m->setup.kind->load_session && !options_given(&m->setup.options, "split") &&
                   !m->setup.flags.fold;
  return all ? "all" : splits[m->split];
}

static json_t *number_or_null(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

static int print_json(const evaluation *e) {
  json_t *object = json_pack(
      "{s:s, s:o, s:s, s:I, s:f, s:f, s:I, s:s, s:o}", "model", e->saved.setup.kind->name, "file",
      json_text_name(e->saved.path), "split", split_of(&e->saved), "samples",
      (json_int_t)ac_dataset_count(e->saved.dataset), "loss", e->result.loss, "accuracy",
      e->result.accuracy, "planned_bytes", (json_int_t)e->saved.bytes, "device",
      ac_device_get_info(e->saved.setup.device)->id, "confusion", examples_confusion(&e->examples));
  if (object && e->saved.setup.kind->load_session) {
    if (has_perplexity(&e->saved.setup))
      json_object_set_new(object, "perplexity", json_real(fmin(exp(e->result.loss), DBL_MAX)));
    if (e->questions) json_object_set_new(object, "plain_accuracy", json_real(e->plain));
    json_object_set_new(object, "predicted", json_real(e->result.weight));
  }
  if (object && e->pixels) {
    json_t *ious = json_array();
    for (int64_t c = 0; c < e->examples.classes; c++)
      json_array_append_new(
          ious, number_or_null(segments_iou(e->examples.confusion, e->examples.classes, c)));
    json_object_set_new(object, "iou", ious);
    json_object_set_new(
        object, "mean_iou",
        number_or_null(segments_mean_iou(e->examples.confusion, e->examples.classes)));
  }
  const int put = object && e->most ? examples_put(&e->examples, &e->saved.setup.data,
                                                   e->saved.dataset, e->saved.class_names, object)
                                    : STATUS_CONTINUE;
  if (put != STATUS_CONTINUE) {
    json_decref(object);
    return put;
  }
  bool good = object && json_text_put(object, JSON_INDENT(2), stdout);
  json_decref(object);
  return good ? STATUS_DONE : fail("cannot write the result");
}

/* ---- the command ----------------------------------------------------------------------------- */

int eval_main(int argc, char **argv) {
  static const saved_command command = {
      .name = "eval",
      .summary = "Says how well a saved model does, without training memory.",
      .general = "Says how well a saved model does: its loss and accuracy, and for images the "
                 "confusion matrix.\nMODEL may be left out for files that accrue train has "
                 "written, which name it."};
  evaluation e = {.saved = {.batch = 256}};
  int status = saved_model_open(&e.saved, &command, argc, argv, more_options);
  e.most = e.saved.setup.flags.examples;
  if (status == STATUS_CONTINUE && e.most && !e.saved.json)
    status = fail_usage("--examples has no meaning for eval without --json");
  if (status == STATUS_CONTINUE) status = measure_loss(&e);
  if (status == STATUS_CONTINUE) status = count_answers(&e);
  if (status == STATUS_CONTINUE && e.saved.json) status = print_json(&e);
  else if (status == STATUS_CONTINUE) {
    print_text(&e);
    status = STATUS_DONE;
  }
  examples_end(&e.examples);
  free(e.answer);
  saved_model_close(&e.saved);
  return status;
}
