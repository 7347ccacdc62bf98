/* Pictures in files as data: lists of them, and the datasets that train, validate and are
 * predicted. */
#include "common/message.h"
#include "common/text.h"
#include "program/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lists ----------------------------------------------------------------------------------- */

static void say_left_out(void *user, const char *path, const char *sentence) {
  (void)user, (void)path;
  say("left out: %s", sentence);
}

static ac_status open_lists(train_data *data, const char *path, ac_pictures_desc *desc,
                            ac_pictures_problem *problem) {
  desc->problem = problem;
  desc->bad = (ac_bad_pictures)data->pictures.bad;
  desc->masks = data->pictures.masks;
  desc->report = say_left_out;
  return ac_pictures_open(&data->all, data->undivided ? NULL : &data->validating, path, desc);
}

/* The lines of a text, which it ends with zeros. Free the array; NULL: out of memory. */
static const char **split_lines(char *text, int64_t *count) {
  *count = 1;
  for (const char *at = text; *at; at++) *count += *at == '\n';
  const char **line = malloc((size_t)*count * sizeof *line);
  for (int64_t i = 0; line && i < *count; i++, text += strlen(text) + 1) {
    line[i] = text;
    text[strcspn(text, "\n")] = '\0';
  }
  return line;
}

/* With the numbers that the model's classes have. */
static ac_status open_as_model(train_data *data, const char *path, ac_pictures_problem *problem,
                               bool *no_memory) {
  ac_pictures_desc desc = {0};
  const char *model_names = data->class_names ? data->class_names : data->pictures.class_names;
  if (!model_names) return open_lists(data, path, &desc, problem);
  char *text = strdup(model_names);
  const char **names = text ? split_lines(text, &desc.class_count) : NULL;
  desc.classes = names;
  *no_memory = !names;
  const ac_status status = names ? open_lists(data, path, &desc, problem) : AC_ERROR_MEMORY;
  free(names);
  free(text);
  return status;
}

/* Pictures with classes of pixels; only predictions do without masks. */
static ac_status open_masked(train_data *data, const char *path, ac_pictures_problem *problem,
                             bool *no_memory) {
  if (data->pictures.masks) return open_as_model(data, path, problem, no_memory);
  return open_lists(data, path, &(ac_pictures_desc){.unlabelled = true}, problem);
}

static int open_list(train_data *data, const char *path) {
  const bool segments = data->pictures.segments;
  bool no_memory = false;
  ac_pictures_problem problem = AC_PICTURES_OTHER_PROBLEM;
  if (segments && !data->pictures.masks && !data->unlabelled)
    return fail_usage("--masks is missing: a folder with a mask for each picture of --data");
  ac_status status = segments ? open_masked(data, path, &problem, &no_memory)
                              : open_as_model(data, path, &problem, &no_memory);
  if (no_memory) return fail("out of memory");
  if (segments && status != AC_OK) return fail_library();
  if (problem != AC_PICTURES_OTHER_PROBLEM && data->unlabelled)
    status = open_lists(data, path, &(ac_pictures_desc){.unlabelled = true}, &problem);
  else if (problem == AC_PICTURES_OTHER_CLASSES && !data->class_names)
    status = open_lists(data, path, &(ac_pictures_desc){0}, &problem);
  if (status == AC_OK) {
    const int64_t left_out =
        ac_pictures_left_out(data->all) + ac_pictures_left_out(data->validating);
    if (left_out)
      say("%s picture%s cannot be read and %s left out", text_count(left_out).text,
          left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
    return STATUS_CONTINUE;
  }
  if (problem == AC_PICTURES_NONE)
    return fail(
        "%s has no images that accrue reads: a folder must hold a folder of pictures (JPEG, "
        "PNG or WebP) for each class, or MNIST's files, such as train-images-idx3-ubyte and "
        "train-labels-idx1-ubyte, or CIFAR's, such as data_batch_1.bin or train.bin",
        path);
  return fail_library();
}

/* A plan decodes nothing. */
static int use_cache(const train_data *data, const options *o) {
  const picture_flags *p = &data->pictures;
  if (!p->cache || options_find(o, "image-cache")->ignored) return STATUS_CONTINUE;
  const int64_t channels = p->grey ? 1 : 3;
  if (access(p->cache, F_OK) != 0)
    say("decoding %s pictures into %s, %s",
        text_count(ac_pictures_count(data->all) + ac_pictures_count(data->validating)).text,
        p->cache, text_bytes(ac_pictures_cache_bytes(data->all, channels)).text);
  return ac_pictures_use_cache(data->all, p->cache, channels) == AC_OK ? STATUS_CONTINUE
                                                                       : fail_library();
}

/* ---- datasets -------------------------------------------------------------------------------- */

static int make_changed(train_data *data, const ac_pictures *list,
                        const ac_picture_changes *changes, ac_dataset **dataset) {
  const picture_flags *p = &data->pictures;
  const ac_picture_samples samples = {.changes = changes,
                                      .balanced = changes && p->balanced,
                                      .height = p->size,
                                      .channels = p->grey ? 1 : 3,
                                      .dtype = data->bytes ? AC_U8 : AC_F32,
                                      .filter = (ac_picture_filter)p->filter,
                                      .crop_share = p->crop_share,
                                      .fit = (ac_picture_fit)p->fit,
                                      .scaled_decoding = p->scaled};
  return ac_dataset_from_pictures(dataset, list, &samples) == AC_OK ? STATUS_CONTINUE
                                                                    : fail_library();
}

static int make_samples(train_data *data, const ac_pictures *list, ac_dataset **dataset) {
  return make_changed(data, list, NULL, dataset);
}

uint64_t data_picture_bytes(const train_data *data) {
  if (!data->all) return 0;
  return ac_dataset_picture_bytes(data->train) + ac_dataset_picture_bytes(data->changed) +
         ac_dataset_picture_bytes(data->unmixed) + ac_dataset_picture_bytes(data->unsharded) +
         ac_dataset_picture_bytes(data->validation) + ac_dataset_picture_bytes(data->judged);
}

int data_change_pictures(train_data *data) {
  const picture_flags *p = &data->pictures;
  ac_picture_changes changes = p->changes;
  changes.random_crop = p->crop_area > 0;
  changes.crop_area[0] = p->crop_area;
  changes.crop_area[1] = changes.random_crop;
  changes.rand_augment = (int)p->rand_augment;
  changes.brightness = changes.contrast = changes.saturation = p->jitter;
  data->plain = data->train;
  data->train = NULL;
  return make_changed(data, data->training ? data->training : data->all, &changes, &data->train);
}

void data_add_picture_changes(picture_flags *p, options *o) {
  const option rows[] = {
      FLAG("crop-area", OPTION_REAL, &p->crop_area),
      FLAG("rand-augment", OPTION_INTEGER, &p->rand_augment),
      FLAG("magnitude", OPTION_REAL, &p->changes.magnitude),
      FLAG("trivial-augment", OPTION_SWITCH, &p->changes.trivial_augment),
      FLAG("jitter", OPTION_REAL, &p->jitter),
      FLAG("hue", OPTION_REAL, &p->changes.hue),
  };
  p->crop_area = 0.25;
  p->changes.magnitude = 9;
  OPTIONS_ADD(o, rows);
}

/* ---- lists and folds ------------------------------------------------------------------------- */

int data_fold_pictures(train_data *data, int64_t fold, int64_t folds) {
  ac_pictures_free(data->training);
  ac_pictures_free(data->validating);
  ac_dataset_free(data->train);
  data->train = NULL;
  data->training = data->validating = NULL;
  if (ac_pictures_fold(&data->training, &data->validating, data->all, fold, folds) != AC_OK)
    return fail_library();
  const int status = make_samples(data, data->training, &data->train);
  return status == STATUS_CONTINUE ? make_samples(data, data->validating, &data->validation)
                                   : status;
}

/* A tenth of each class, if there is no folder that validates. */
static int divide(train_data *data, const char *path) {
  enum { FOLDS = 10 };
  const int64_t count = ac_pictures_count(data->all);
  const bool all = data->unlabelled && (count < 2 || !ac_pictures_classes(data->all));
  if (data->validating || all) return STATUS_CONTINUE;
  if (count < 2) return fail("%s has 1 picture, too few to train and validate on", path);
  const int64_t folds = count < FOLDS ? count : FOLDS;
  const int status = make_samples(data, data->all, &data->whole);
  return status == STATUS_CONTINUE ? data_fold_pictures(data, folds, folds) : status;
}

int data_open_pictures(train_data *data, const image_data_flags *flags, const options *o) {
  if (flags->coarse) return fail_usage("--coarse is for CIFAR-100");
  data->unit = "image";
  data->pictures = flags->pictures;
  int status = open_list(data, flags->path);
  if (status == STATUS_CONTINUE) status = use_cache(data, o);
  if (status != STATUS_CONTINUE) return status;
  if (data->undivided) return make_samples(data, data->all, &data->train);
  status = divide(data, flags->path);
  if (status != STATUS_CONTINUE || data->train) return status;
  if (!data->validating) { /* all is predicted */
    status = make_samples(data, data->all, &data->whole);
    if (status == STATUS_CONTINUE) status = make_samples(data, data->all, &data->train);
    return status == STATUS_CONTINUE ? make_samples(data, data->all, &data->validation) : status;
  }
  status = make_samples(data, data->all, &data->train);
  return status == STATUS_CONTINUE ? make_samples(data, data->validating, &data->validation)
                                   : status;
}
