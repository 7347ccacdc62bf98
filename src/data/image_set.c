#include "data/image_set.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

ac_status ac_image_set_create(ac_image_set **set, const char *path) {
  *set = calloc(1, sizeof **set);
  if (!*set) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", path);
  atomic_init(&(*set)->users, 1);
  return AC_OK;
}

void ac_image_set_release(ac_image_set *set) {
  if (!set || atomic_fetch_sub(&set->users, 1) > 1) return;
  for (int i = 0; i < 2; i++) free(set->memory[i]);
  free(set);
}

int64_t ac_image_set_pixels(const ac_image_set *set) {
  return set->shape[0] * set->shape[1] * set->shape[2];
}

/* ---- datasets -------------------------------------------------------------------------------- */

typedef struct range {
  ac_image_set *set;
  int64_t begin, pixels;
} range;

static ac_status read_image(void *user, const ac_sample_key *key, void *const *fields) {
  const range *cut = user;
  size_t i = (size_t)(cut->begin + key->index);
  const uint8_t *pixels = cut->set->pixels + i * cut->set->pixel_stride;
  float *image = fields[0];
  for (int64_t p = 0; p < cut->pixels; p++) image[p] = (float)pixels[p] / 255.0f;
  if (cut->set->labels) *(int32_t *)fields[1] = cut->set->labels[i * cut->set->label_stride];
  return AC_OK;
}

static void close_range(void *user) {
  range *cut = user;
  ac_image_set_release(cut->set);
  free(cut);
}

static ac_status make_dataset(ac_dataset **dataset, ac_image_set *set, int64_t begin, int64_t end,
                              int64_t classes) {
  range *cut = malloc(sizeof *cut);
  if (!cut) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for a description");
  *cut = (range){.set = set, .begin = begin, .pixels = ac_image_set_pixels(set)};
  ac_callback_dataset_desc desc = {
      .count = end - begin,
      .field_count = set->labels ? 2 : 1,
      .fields = {{"images", AC_F32, cut->pixels}, {"labels", AC_I32, 1}},
      .read = read_image,
      .close = close_range,
      .user = cut};
  ac_status status = ac_dataset_create(dataset, &desc, classes);
  if (status != AC_OK) {
    free(cut);
    return status;
  }
  atomic_fetch_add(&set->users, 1);
  memcpy((*dataset)->image_shape, set->shape, sizeof set->shape);
  return AC_OK;
}

ac_status ac_image_set_cut(ac_dataset **dataset, ac_image_set *set, const char *path, int64_t begin,
                           int64_t end) {
  int64_t last = end < 0 ? set->count : end;
  if (begin < 0 || begin >= last || last > set->count)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: [%lld, %lld) is not a part of %lld images", path,
                   (long long)begin, (long long)last, (long long)set->count);
  return make_dataset(dataset, set, begin, last, set->classes);
}

static int64_t most_classes(const ac_image_set *a, const ac_image_set *b) {
  return a->classes > b->classes ? a->classes : b->classes;
}

static ac_status split_in_two(ac_dataset **train, ac_dataset **validation, ac_image_set *training,
                              int64_t boundary, ac_image_set *validating, int64_t begin) {
  int64_t classes = most_classes(training, validating);
  ac_dataset *first;
  AC_TRY(make_dataset(&first, training, 0, boundary, classes));
  ac_status status = make_dataset(validation, validating, begin, validating->count, classes);
  if (status == AC_OK) *train = first;
  else ac_dataset_free(first);
  return status;
}

ac_status ac_image_set_split(ac_dataset **train, ac_dataset **validation, const char *folder,
                             ac_image_set *training, ac_image_set *validating) {
  if (training && validating) {
    if (memcmp(training->shape, validating->shape, sizeof training->shape) != 0)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: training images have %lld x %lld pixels, validation images have "
                     "%lld x %lld",
                     folder, (long long)training->shape[1], (long long)training->shape[2],
                     (long long)validating->shape[1], (long long)validating->shape[2]);
    if (!validation)
      return make_dataset(train, training, 0, training->count, most_classes(training, validating));
    return split_in_two(train, validation, training, training->count, validating, 0);
  }
  ac_image_set *only = training ? training : validating;
  if (!validation) return make_dataset(train, only, 0, only->count, only->classes);
  if (only->count < 2)
    return ac_fail(AC_ERROR_FORMAT, "%s: one image cannot both train and validate", folder);
  int64_t held = only->count / 10 ? only->count / 10 : 1, boundary = only->count - held;
  return split_in_two(train, validation, only, boundary, only, boundary);
}
