/* `accrue predict`: the classes of images, with their probabilities, by a saved model. */
#include "program/commands.h"
#include "program/finite.h"
#include "program/predict_masks.h"
#include "common/json_text.h"
#include "common/message.h"
#include "program/saved_model.h"
#include "common/text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct prediction {
  saved_model saved;
  int64_t top; /* classes that are printed for each image */
  int64_t classes;
  int64_t *order; /* [top], likeliest first */
  int64_t told;   /* images so far */
} prediction;

static int64_t top_flag;
static const char *out_flag;
static bool overwrite_flag;

static bool segments(const saved_model *m) {
  const setup *s = &m->setup;
  return s->kind->segments && s->kind->segments(s->model);
}

static void more_options(saved_model *m, options *o) {
  const option rows[] = {
      FLAG("model", OPTION_TEXT, &m->model),
      FLAG("split", OPTION_CHOICE, &m->split, .fallback = "all of a file, validation of a folder"),
      FLAG("json", OPTION_SWITCH, &m->json),
  };
  const option top[] = {FLAG("top", OPTION_INTEGER, &top_flag)};
  const option out[] = {FLAG("out", OPTION_TEXT, &out_flag),
                        FLAG("overwrite", OPTION_SWITCH, &overwrite_flag)};
  OPTIONS_ADD(o, rows);
  if (segments(m)) OPTIONS_ADD(o, out);
  else OPTIONS_ADD(o, top);
}

/* ---- an image -------------------------------------------------------------------------------- */

/* The likeliest first, of equal ones the smaller class. Insertion: few of many are wanted. */
static void find_likeliest(prediction *p, const float *logits) {
  int64_t found = 0;
  for (int64_t c = 0; c < p->classes; c++) {
    int64_t at = found;
    while (at > 0 && logits[c] > logits[p->order[at - 1]]) at--;
    if (at == p->top) continue;
    if (found < p->top) found++;
    memmove(p->order + at + 1, p->order + at, (size_t)(found - 1 - at) * sizeof *p->order);
    p->order[at] = c;
  }
}

/* Softmax, as sums of differences from the largest: no logit is too large for it. */
static double log_of_sum(const prediction *p, const float *logits) {
  const double most = logits[p->order[0]];
  double sum = 0;
  for (int64_t c = 0; c < p->classes; c++) sum += exp((double)logits[c] - most);
  return log(sum);
}

static double probability(const prediction *p, const float *logits, double log_sum, int64_t rank) {
  return exp((double)logits[p->order[rank]] - (double)logits[p->order[0]] - log_sum);
}

/* The name of a class, if the model's file has it, else its number. */
typedef struct class_word {
  char text[1024];
} class_word;

static class_word word_of(const prediction *p, int64_t class) {
  class_word word;
  const char *name = p->saved.class_names;
  for (int64_t c = 0; name && c < class; c++) {
    name = strchr(name, '\n');
    if (name) name++;
  }
  if (name) snprintf(word.text, sizeof word.text, "%.*s", (int)strcspn(name, "\n"), name);
  else snprintf(word.text, sizeof word.text, "%" PRId64, class);
  return word;
}

static void put_row(const prediction *p, int64_t sample, int64_t label, const float *logits,
                    double log_sum) {
  const char *file = predict_file(&p->saved, sample);
  printf("%8" PRId64, sample);
  if (label >= 0) message_put(stdout, " %6s", word_of(p, label).text);
  for (int64_t k = 0; k < p->top; k++)
    message_put(stdout, "   %6s %6.2f %%", word_of(p, p->order[k]).text,
                100 * probability(p, logits, log_sum, k));
  if (file) message_put(stdout, "   %s", file);
  putchar('\n');
}

/* A text as a value of JSON; false: out of memory. */
static bool put_text(const char *key, const char *text) {
  json_t *value = json_text_name(text);
  char *written = value ? json_text(value, JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  if (written) printf(", \"%s\": %s", key, written);
  free(written);
  return written;
}

/* One image a line, so that a program can read as it comes. */
static bool put_json(const prediction *p, int64_t sample, int64_t label, const float *logits,
                     double log_sum) {
  const char *file = predict_file(&p->saved, sample);
  bool good = true;
  printf("%s    {\"index\": %" PRId64, p->told ? ",\n" : "", sample);
  if (file) good = put_text("file", file);
  if (label >= 0) printf(", \"label\": %" PRId64, label);
  printf(", \"answers\": [");
  for (int64_t k = 0; k < p->top; k++) {
    printf("%s{\"class\": %" PRId64, k ? ", " : "", p->order[k]);
    if (p->saved.class_names) good = put_text("name", word_of(p, p->order[k]).text) && good;
    printf(", \"probability\": %.9g}", probability(p, logits, log_sum, k));
  }
  printf("]}");
  return good;
}

static int tell(void *user, const classify_sample *of, const float *logits) {
  prediction *p = user;
  const int64_t sample = of->index, label = of->label;
  for (int64_t c = 0; c < p->classes; c++)
    if (!isfinite(logits[c])) return fail_not_finite(p->saved.path, "what it predicts is");
  find_likeliest(p, logits);
  const double log_sum = log_of_sum(p, logits);
  progress_clear(&p->saved.progress);
  if (p->saved.json && !put_json(p, sample, label, logits, log_sum)) return fail("out of memory");
  if (!p->saved.json) put_row(p, sample, label, logits, log_sum);
  p->told++;
  return ferror(stdout) ? fail("cannot write the result: %s", strerror(errno)) : STATUS_CONTINUE;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool has_labels(const saved_model *m) {
  return data_field_elements(m->dataset, "labels") > 0;
}

static int put_head(const prediction *p) {
  const saved_model *m = &p->saved;
  if (!m->json) {
    printf("%8s%s", "image", has_labels(m) ? "  label" : "");
    for (int64_t k = 0; k < p->top; k++) printf("   %6s %8s", "class", "chance");
    putchar('\n');
    return STATUS_CONTINUE;
  }
  json_t *name = json_text_name(m->path);
  char *text = name ? json_text(name, JSON_ENCODE_ANY) : NULL;
  json_decref(name);
  if (!text) return fail("out of memory");
  printf("{\n  \"model\": \"%s\",\n  \"file\": %s,\n  \"classes\": %" PRId64
         ",\n  \"predictions\": [\n",
         m->setup.kind->name, text, p->classes);
  free(text);
  return STATUS_CONTINUE;
}

/* What --data says. */
static const char *data_path(const options *o) {
  return *(const char *const *)options_find(o, "data")->value;
}

static int predict(prediction *p) {
  const setup *s = &p->saved.setup;
  if (segments(&p->saved)) {
    if (!out_flag) return fail_usage("--out is missing: the folder to write the masks to");
    return predict_masks(&p->saved, data_path(&s->options), out_flag, overwrite_flag);
  }
  p->classes = s->kind->classes(s->model);
  p->top = top_flag < p->classes ? top_flag : p->classes;
  p->order = calloc((size_t)p->top + 1, sizeof *p->order);
  if (!p->order) return fail("out of memory");
  int status = put_head(p);
  if (status == STATUS_CONTINUE) status = saved_model_classify(&p->saved, p->classes, tell, p);
  if (status != STATUS_CONTINUE) return status;
  if (p->saved.json) printf("\n  ]\n}\n");
  return STATUS_DONE;
}

int predict_main(int argc, char **argv) {
  static const saved_command command = {
      .name = "predict",
      .summary = "Tells the likeliest classes of images and how sure the model is of each.",
      .general = "Tells the likeliest classes of images and how sure a saved model is of each, as "
                 "a table or as JSON.\nThe kind of model is read from files that accrue train has "
                 "written. Labels are not needed.",
      .images_alone = true};
  prediction p = {.saved = {.batch = 256, .split = 2}};
  top_flag = 3;
  out_flag = NULL;
  overwrite_flag = false;
  int status = saved_model_open(&p.saved, &command, argc, argv, more_options);
  if (status == STATUS_CONTINUE) status = predict(&p);
  free(p.order);
  saved_model_close(&p.saved);
  return status;
}
