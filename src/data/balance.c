/* Weights of classes. */
#include "core/error.h"
#include "data/dataset.h"
#include "data/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ac_status ac_pictures_class_weights(const ac_pictures *pictures, float *weights) {
  AC_REQUIRE(pictures, weights);
  const int64_t classes = pictures->store->classes;
  if (!classes || pictures->store->several)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "pictures: classes have no weights unless each picture has one class");
  int64_t *counts = calloc((size_t)classes, sizeof *counts), present = 0;
  if (!counts) return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for weights");
  for (int64_t i = 0; i < pictures->count; i++)
    present += !counts[ac_pictures_label(pictures, i)]++;
  for (int64_t c = 0; c < classes; c++)
    weights[c] =
        counts[c] ? (float)((double)pictures->count / ((double)present * (double)counts[c])) : 0;
  free(counts);
  return AC_OK;
}

/* ---- a field of weights ---------------------------------------------------------------------- */

typedef struct weighted {
  ac_dataset *whole;
  int labels;
  int64_t count;
  float weights[];
} weighted;

static ac_status read_weighted(void *user, const ac_sample_key *key, void *const *fields) {
  const weighted *w = user;
  AC_TRY(ac_dataset_read(w->whole, key, fields));
  const int32_t label = *(const int32_t *)fields[w->labels];
  if (label < 0 || label >= w->count)
    return ac_fail(AC_ERROR_FORMAT, "dataset: label %d of sample %lld is not in [0, %lld)",
                   (int)label, (long long)key->index, (long long)w->count);
  *(float *)fields[w->whole->field_count] = w->weights[label];
  return AC_OK;
}

ac_status ac_dataset_with_field(ac_dataset **dataset, const ac_dataset *whole, ac_field field,
                                ac_read_sample read, void (*close)(void *user), void *user) {
  if (whole->field_count == AC_MAX_FIELDS || ac_dataset_find_field(whole, field.name) >= 0)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no room for a field %s", field.name);
  ac_callback_dataset_desc desc = {.count = whole->count,
                                   .field_count = whole->field_count + 1,
                                   .read = read,
                                   .close = close,
                                   .user = user};
  memcpy(desc.fields, whole->fields, sizeof desc.fields);
  desc.fields[whole->field_count] = field;
  AC_TRY(ac_dataset_create(dataset, &desc, whole->classes));
  memcpy((*dataset)->image_shape, whole->image_shape, sizeof whole->image_shape);
  return AC_OK;
}

int ac_dataset_label_field(const ac_dataset *dataset) {
  const int f = ac_dataset_find_field(dataset, "labels");
  return f >= 0 && dataset->fields[f].dtype == AC_I32 && dataset->fields[f].elements == 1 ? f : -1;
}

ac_status ac_dataset_weighted(ac_dataset **dataset, ac_dataset *whole, int64_t count,
                              const float *weights) {
  AC_CREATES(dataset);
  AC_REQUIRE(whole, weights);
  const int labels = ac_dataset_label_field(whole);
  if (labels < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no i32 field labels of one element");
  if (count < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: %lld weights of classes", (long long)count);
  for (int64_t c = 0; c < count; c++)
    if (!(weights[c] >= 0 && isfinite(weights[c])))
      return ac_fail(AC_ERROR_ARGUMENT, "dataset: weight %g of class %lld is not in [0, infinity)",
                     (double)weights[c], (long long)c);
  weighted *w = malloc(sizeof *w + (size_t)count * sizeof *weights);
  if (!w) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for its description");
  *w = (weighted){.whole = whole, .labels = labels, .count = count};
  memcpy(w->weights, weights, (size_t)count * sizeof *weights);
  const ac_status status = ac_dataset_with_field(dataset, whole, (ac_field){"weights", AC_F32, 1},
                                                 read_weighted, free, w);
  if (status != AC_OK) free(w);
  return status;
}
