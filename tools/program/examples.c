#include "program/examples.h"

#include "common/json_text.h"
#include "common/message.h"
#include "program/image_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 112, CHANGED_ROWS = 4, CHANGED_EPOCHS = 6 }; /* pixels; images of a page */

int examples_begin(examples *e, int64_t classes, int64_t most) {
  *e = (examples){.classes = classes, .most = most};
  const bool confused = classes <= EXAMPLES_MOST_CONFUSED;
  if (confused) e->confusion = calloc((size_t)(classes * classes), sizeof *e->confusion);
  e->worst = calloc((size_t)most + 1, sizeof *e->worst);
  e->best = calloc((size_t)most + 1, sizeof *e->best);
  return (e->confusion || !confused) && e->worst && e->best ? STATUS_CONTINUE
                                                            : fail("out of memory");
}

void examples_end(examples *e) {
  free(e->confusion);
  free(e->worst);
  free(e->best);
  *e = (examples){0};
}

/* Of equal losses the sample that came first stays before the others. */
static void insert(const examples *e, example *list, const example *one, double sign) {
  int64_t at = e->met < e->most ? e->met : e->most;
  while (at > 0 && sign * one->loss < sign * list[at - 1].loss) at--;
  if (at == e->most) return;
  memmove(list + at + 1, list + at, (size_t)(e->most - 1 - at) * sizeof *list);
  list[at] = *one;
}

int examples_take(void *user, const classify_sample *of, const float *logits) {
  examples *e = user;
  const int64_t label = of->label;
  int64_t best = 0;
  for (int64_t c = 1; c < e->classes; c++)
    if (logits[c] > logits[best]) best = c;
  if (e->confusion) e->confusion[label * e->classes + best]++;
  if (!e->most) return STATUS_CONTINUE;
  double sum = 0;
  for (int64_t c = 0; c < e->classes; c++) sum += exp((double)logits[c] - (double)logits[best]);
  const example one = {.sample = of->index,
                       .label = label,
                       .answer = best,
                       .loss = log(sum) + (double)logits[best] - (double)logits[label],
                       .probability = 1 / sum};
  if (!isfinite(one.loss)) return STATUS_CONTINUE;
  insert(e, e->worst, &one, -1);
  insert(e, e->best, &one, 1);
  e->met++;
  return STATUS_CONTINUE;
}

json_t *examples_confusion(const examples *e) {
  json_t *rows = json_array();
  for (int64_t label = 0; e->confusion && label < e->classes; label++) {
    json_t *row = json_array();
    for (int64_t c = 0; c < e->classes; c++)
      json_array_append_new(row, json_integer((json_int_t)e->confusion[label * e->classes + c]));
    json_array_append_new(rows, row);
  }
  return rows;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static json_t *one_example(const example *one, image_sample *s, const ac_pictures *list) {
  const ac_sample_key key = {.index = one->sample};
  if (image_sample_read(s, &key) != STATUS_CONTINUE) return NULL;
  json_t *image = image_sample_png(s, SIDE);
  if (!image) return NULL;
  json_t *object = json_pack("{s:I, s:I, s:I, s:f, s:f, s:o}", "sample", (json_int_t)one->sample,
                             "label", (json_int_t)one->label, "answer", (json_int_t)one->answer,
                             "probability", one->probability, "loss", one->loss, "png", image);
  const char *path = ac_pictures_path(list, one->sample);
  if (object && path && json_object_set_new(object, "file", json_text_name(path)) == 0)
    return object;
  if (!path && object) return object;
  json_decref(object);
  fail("out of memory");
  return NULL;
}

static int put_list(const examples *e, const example *list, image_sample *s,
                    const ac_pictures *files, const char *key, json_t *object) {
  json_t *array = json_array();
  const int64_t count = e->met < e->most ? e->met : e->most;
  int status = STATUS_CONTINUE;
  for (int64_t i = 0; i < count && status == STATUS_CONTINUE; i++) {
    json_t *one = one_example(&list[i], s, files);
    if (!one) status = STATUS_FAILED;
    else if (json_array_append_new(array, one) != 0) status = fail("out of memory");
  }
  if (json_object_set_new(object, key, array) != 0 && status == STATUS_CONTINUE)
    status = fail("out of memory");
  return status;
}

/* Of a text with one a line, or of pictures. */
static int put_names(const examples *e, const ac_pictures *list, const char *text, json_t *object) {
  json_t *names = json_array();
  for (int64_t c = 0; c < e->classes; c++) {
    const char *name = text ? text : ac_pictures_class_name(list, c);
    const size_t length = text ? strcspn(text, "\n") : name ? strlen(name) : 0;
    char *copy = name ? strndup(name, length) : NULL;
    if (copy) json_array_append_new(names, json_text_name(copy));
    free(copy);
    if (text) text = text[length] ? text + length + 1 : text + length;
  }
  const bool known = (int64_t)json_array_size(names) == e->classes && (text || list);
  if (!known) {
    json_decref(names);
    return STATUS_CONTINUE;
  }
  return json_object_set_new(object, "class_names", names) == 0 ? STATUS_CONTINUE
                                                                : fail("out of memory");
}

int examples_put(const examples *e, const train_data *data, ac_dataset *dataset,
                 const char *class_names, json_t *object) {
  const ac_pictures *list = data_list_of(data, dataset);
  image_sample s;
  int status = put_names(e, list, class_names, object);
  if (status != STATUS_CONTINUE || !e->most) return status;
  status = image_sample_open(&s, dataset);
  if (status == STATUS_CONTINUE) status = put_list(e, e->worst, &s, list, "worst", object);
  if (status == STATUS_CONTINUE) status = put_list(e, e->best, &s, list, "best", object);
  image_sample_close(&s);
  return status;
}

/* As it is, if there is `plain`, and as it changes. */
static int put_changed_row(image_sample *plain, image_sample *changed, int64_t index, uint64_t seed,
                           json_t *rows) {
  ac_sample_key key = {.index = index, .seed = seed};
  json_t *row = json_array();
  int status = STATUS_CONTINUE;
  for (int64_t column = plain ? -1 : 0; column < CHANGED_EPOCHS && status == STATUS_CONTINUE;
       column++) {
    image_sample *s = column < 0 ? plain : changed;
    key.epoch = column < 0 ? 0 : column;
    status = image_sample_read(s, &key);
    json_t *image = status == STATUS_CONTINUE ? image_sample_png(s, SIDE) : NULL;
    if (!image) status = STATUS_FAILED;
    else json_array_append_new(row, image);
  }
  json_array_append_new(rows, row);
  return status;
}

/* If classes are balanced, a sample is another picture in each epoch. */
int examples_put_changed(const train_data *data, uint64_t seed, json_t *object) {
  image_sample plain, changed = {0};
  ac_dataset *train = data->unsharded ? data->unsharded : data->train;
  const int64_t count = ac_dataset_count(train);
  json_t *rows = json_array();
  int status = image_sample_open(&plain, data_plain(data));
  if (status == STATUS_CONTINUE) status = image_sample_open(&changed, train);
  for (int64_t i = 0; i < CHANGED_ROWS && i < count && status == STATUS_CONTINUE; i++)
    status = put_changed_row(data->pictures.balanced ? NULL : &plain, &changed,
                             ac_shuffle(seed, 0, i, count), seed, rows);
  image_sample_close(&plain);
  image_sample_close(&changed);
  if (json_object_set_new(object, "changed", rows) != 0 && status == STATUS_CONTINUE)
    status = fail("out of memory");
  return status;
}
