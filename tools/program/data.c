#include "program/data.h"

#include "common/message.h"
#include "common/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *data_loss_unit(const train_data *data) {
  return data->loss_unit ? data->loss_unit : data->unit;
}

const char *data_loss_words(const train_data *data) {
  return data->no_nats ? "per" : "nats per";
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Whether a file's name, or what its vocabulary needs, says that its tokens have 32 bits. */
static bool is_wide(const token_data_flags *flags) {
  static const char *const endings[] = {".u32", ".u32.gz"};
  const size_t length = strlen(flags->path);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const size_t end = strlen(endings[i]);
    if (length > end && !strcmp(flags->path + length - end, endings[i])) return true;
  }
  return flags->vocab > 65536;
}

static int open_token_file(train_data *data, const token_data_flags *flags) {
  struct stat info;
  if (stat(flags->path, &info) == 0 && S_ISDIR(info.st_mode))
    return fail_usage("--vocab is for a file of tokens, but %s is a folder", flags->path);
  const ac_status status = is_wide(flags)
                               ? ac_tokens_from_uint32(&data->tokens, flags->path, flags->vocab)
                               : ac_tokens_from_uint16(&data->tokens, flags->path, flags->vocab);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* Files that runs have written into a folder of data are left out. */
static int open_bytes(train_data *data, const token_data_flags *flags) {
  struct stat info;
  left_out *l = &data->left_out;
  const bool folder = stat(flags->path, &info) == 0 && S_ISDIR(info.st_mode);
  const int status = folder ? left_out_check(l, flags->path) : STATUS_CONTINUE;
  if (status != STATUS_CONTINUE) return status;
  const ac_status opened =
      flags->binary
          ? ac_tokens_from_bytes(&data->tokens, flags->path, flags->max_bytes, left_out_takes, l)
          : ac_tokens_from_text_where(&data->tokens, flags->path, flags->max_bytes, left_out_takes,
                                      l);
  if (opened != AC_OK) return fail_library();
  left_out_say(l, flags->path);
  return STATUS_CONTINUE;
}

static int open_own(train_data *data, const token_data_flags *flags) {
  return flags->vocab ? open_token_file(data, flags) : open_bytes(data, flags);
}

void shared_tokens_close(shared_tokens *shared) {
  ac_tokens_free(shared->tokens);
  free(shared->flags);
}

/* All that is asked for; free it. */
static char *words_of(const token_data_flags *flags) {
  char numbers[64];
  snprintf(numbers, sizeof numbers, "%" PRIu64 " %d %" PRId64 " ", flags->max_bytes, flags->binary,
           flags->vocab);
  char *words = malloc(strlen(numbers) + strlen(flags->path) + 1);
  return words ? strcat(strcpy(words, numbers), flags->path) : NULL;
}

/* The tokens that another has opened, or this one for all. */
static int open_shared(train_data *data, const token_data_flags *flags) {
  shared_tokens *shared = data->shared;
  char *words = words_of(flags);
  int status = words ? STATUS_CONTINUE : fail("out of memory");
  const bool there = words && shared->tokens && !strcmp(shared->flags, words);
  if (there) {
    data->tokens = shared->tokens;
    left_out_say(&shared->left_out, flags->path);
  } else if (words) {
    status = open_own(data, flags);
  }
  if (status == STATUS_CONTINUE && !shared->tokens) {
    *shared = (shared_tokens){data->tokens, words, data->left_out};
    words = NULL;
  }
  free(words);
  return status;
}

int data_open_tokens(train_data *data, const token_data_flags *flags, int64_t context) {
  const char *path = flags->path;
  const int status = data->shared ? open_shared(data, flags) : open_own(data, flags);
  if (status != STATUS_CONTINUE) return status;
  data->unit = flags->vocab ? "token" : "byte";
  data->tokens_per_sample = context;
  if (data->undivided) return STATUS_CONTINUE;

  int64_t count = ac_tokens_count(data->tokens), split = (int64_t)(0.9 * (double)count);
  if (count - split < context + 1)
    return fail("%s has %s %ss, too few for a context of %" PRId64
                ": the last tenth validates and must hold %" PRId64,
                path, text_count(count).text, data->unit, context, context + 1);
  if (ac_dataset_from_tokens(&data->train, data->tokens, 0, split, context, true) != AC_OK ||
      ac_dataset_from_tokens(&data->validation, data->tokens, split, count, context, false) !=
          AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Splits a single source: the last tenth validates, if anything does. */
static ac_dataset **whole_of(train_data *data) {
  return data->undivided ? &data->train : &data->whole;
}

static int divide(train_data *data, const char *path) {
  data->unit = "image";
  if (data->undivided) return STATUS_CONTINUE;
  int64_t count = ac_dataset_count(data->whole), split = count - (count < 20 ? 1 : count / 10);
  const int64_t first = split < 1 ? 0 : split; /* of what validates */
  if (split < 1 && !data->unlabelled)
    return fail("%s has 1 image, too few to train and validate on", path);
  if (ac_dataset_slice(&data->train, data->whole, 0, split < 1 ? count : split) != AC_OK ||
      ac_dataset_slice(&data->validation, data->whole, first, count) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

static int open_idx(train_data *data, const char *images, const char *labels) {
  if (ac_dataset_from_idx(whole_of(data), images, labels, 0, -1) != AC_OK) return fail_library();
  return divide(data, images);
}

/* Opens records of CIFAR-10; if they cannot be that, of CIFAR-100. */
static int open_cifar_file(train_data *data, const char *path, bool coarse) {
  ac_dataset **whole = whole_of(data);
  const ac_status status = coarse ? ac_dataset_from_cifar100(whole, path, true, 0, -1)
                                  : ac_dataset_from_cifar(whole, path, 0, -1);
  if (status == AC_OK) return divide(data, path);
  if (strstr(ac_last_error(), " is an IDX file, "))
    return fail("%s is an IDX file: give images with --images FILE, labels with --labels FILE",
                path);
  return fail_library();
}

/* Whether the folder holds one of the files, plain or gzip. */
static bool holds_any(const char *folder, const char *const *names) {
  for (; *names; names++)
    for (int gzip = 0; gzip < 2; gzip++) {
      char path[4096];
      snprintf(path, sizeof path, "%s/%s%s", folder, *names, gzip ? ".gz" : "");
      if (access(path, F_OK) == 0) return true;
    }
  return false;
}

static const char *const ten[] = {"data_batch_1.bin",
                                  "data_batch_2.bin",
                                  "data_batch_3.bin",
                                  "data_batch_4.bin",
                                  "data_batch_5.bin",
                                  "test_batch.bin",
                                  NULL};
static const char *const hundred[] = {"train.bin", "test.bin", NULL};
static const char *const mnist[] = {
    "train-images-idx3-ubyte", "train-images.idx3-ubyte", "train-labels-idx1-ubyte",
    "train-labels.idx1-ubyte", "t10k-images-idx3-ubyte",  "t10k-images.idx3-ubyte",
    "t10k-labels-idx1-ubyte",  "t10k-labels.idx1-ubyte",  NULL};

/* A folder without the file names of MNIST and CIFAR, or a file that ends like a picture or a list
 * of them. */
bool data_is_pictures(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  if (S_ISDIR(info.st_mode))
    return !holds_any(path, ten) && !holds_any(path, hundred) && !holds_any(path, mnist);
  const char *dot = strrchr(path, '.');
  return ac_picture_is_named(path) || (dot && !strcasecmp(dot, ".csv"));
}

static int open_folder(train_data *data, const char *folder, bool coarse) {
  data->unit = "image";
  ac_dataset **train = &data->train, **validation = data->undivided ? NULL : &data->validation;
  ac_status status;
  bool is_hundred = !holds_any(folder, ten) && holds_any(folder, hundred);
  if (coarse && !is_hundred)
    return fail_usage("--coarse is for CIFAR-100, and %s holds none of its files", folder);
  if (is_hundred) status = ac_dataset_cifar100_folder(train, validation, folder, coarse);
  else if (holds_any(folder, ten)) status = ac_dataset_cifar10_folder(train, validation, folder);
  else status = ac_dataset_mnist_folder(train, validation, folder);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

void data_add_image_options(image_data_flags *flags, options *o) {
  picture_flags *p = &flags->pictures;
  const option data[] = {FLAG("data", OPTION_TEXT, &flags->path)};
  const option others[] = {
      FLAG("coarse", OPTION_SWITCH, &flags->coarse),
      FLAG("images", OPTION_TEXT, &flags->images),
      FLAG("labels", OPTION_TEXT, &flags->labels),
  };
  const option rows[] = {
      FLAG("size", OPTION_INTEGER, &p->size),
      FLAG("grey", OPTION_SWITCH, &p->grey),
      FLAG("filter", OPTION_CHOICE, &p->filter),
      FLAG("crop-share", OPTION_REAL, &p->crop_share),
      FLAG("scaled-decoding", OPTION_SWITCH, &p->scaled),
      FLAG("bad-images", OPTION_CHOICE, &p->bad),
  };
  const option cache[] = {FLAG("image-cache", OPTION_TEXT, &p->cache)};
  if (!p->size) p->size = 224;
  if (p->crop_share == 0) p->crop_share = 0.875;
  OPTIONS_ADD(o, data);
  if (!p->segments) OPTIONS_ADD(o, others);
  OPTIONS_ADD(o, rows);
  OPTIONS_ADD_FILED(o, cache);
}

bool data_image_flags_given(const options *o) {
  static const char *const names[] = {"data", "images", "labels"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (options_find(o, names[i]) && options_given(o, names[i])) return true;
  return false;
}

/* Flags of pictures would have no effect on other images. */
static int refuse_picture_flags(const options *o) {
  static const char *const names[] = {"size",
                                      "grey",
                                      "filter",
                                      "crop-share",
                                      "image-cache",
                                      "bad-images",
                                      "scaled-decoding",
                                      "crop-area",
                                      "balanced",
                                      "class-weights",
                                      "rand-augment",
                                      "trivial-augment",
                                      "jitter",
                                      "hue"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (options_find(o, names[i]) && options_given(o, names[i]))
      return fail_usage("--%s is for folders and lists of pictures (JPEG, PNG or WebP)", names[i]);
  return STATUS_CONTINUE;
}

int data_open_image_flags(train_data *data, const image_data_flags *flags, const options *o) {
  if (flags->images && !flags->labels && !data->unlabelled)
    return fail_usage("--images needs --labels as well");
  if (flags->labels && !flags->images) return fail_usage("--labels needs --images as well");
  if (flags->images && flags->coarse) return fail_usage("--coarse is for CIFAR-100");
  struct stat info;
  const bool missing = flags->path && stat(flags->path, &info) != 0;
  if (!flags->images && missing) return fail("cannot read %s: %s", flags->path, strerror(errno));
  if (!flags->images && flags->path && data_is_pictures(flags->path))
    return data_open_pictures(data, flags, o);
  if (flags->pictures.segments && (flags->images || flags->path))
    return fail_usage("images have masks if they are pictures in files, JPEG, PNG or WebP: give a "
                      "folder of them as --data");
  const int status = refuse_picture_flags(o);
  if (status != STATUS_CONTINUE) return status;
  if (flags->images) return open_idx(data, flags->images, flags->labels);
  if (flags->path && !S_ISDIR(info.st_mode))
    return open_cifar_file(data, flags->path, flags->coarse);
  if (flags->path) return open_folder(data, flags->path, flags->coarse);
  return fail_usage("--data is missing: a folder of pictures, or one with the file names of MNIST "
                    "or of CIFAR-10 or -100; or give --images%s",
                    data->unlabelled ? "" : " and --labels");
}

int data_check_labels(const train_data *data, int64_t classes) {
  if (!data_field_elements(data->train, "labels")) return STATUS_CONTINUE;
  if (ac_dataset_classes(data->train) <= classes) return STATUS_CONTINUE;
  if (ac_dataset_check_labels(data->train, classes) != AC_OK) return fail_library();
  if (data->validation && ac_dataset_check_labels(data->validation, classes) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* "I/N" with I in [first, first + N). */
static int parse_part(const char *flag, const char *text, int first, int64_t *index,
                      int64_t *count) {
  char *slash, *end;
  errno = 0;
  *index = strtoll(text, &slash, 10);
  *count = *slash == '/' ? strtoll(slash + 1, &end, 10) : 0;
  if (text[strspn(text, "0123456789/")] || slash == text || !*count || *end)
    return fail_usage("--%s %s is not of the form I/N, such as %d/4", flag, text, first);
  if (errno == ERANGE || *index < first || *index - first >= *count)
    return fail_usage("--%s %s is out of range: of N parts, I is one of %s", flag, text,
                      first ? "1 to N" : "0 to N - 1");
  return STATUS_CONTINUE;
}

int data_fold(train_data *data, const char *part) {
  int64_t fold, folds;
  int status = parse_part("fold", part, 1, &fold, &folds);
  if (status != STATUS_CONTINUE) return status;
  if (folds < 2) return fail_usage("--fold %s: at least two folds are needed", part);
  if (data->tokens) {
    const ac_status made = ac_dataset_fold_tokens(&data->train, &data->validation, data->tokens,
                                                  fold, folds, data->tokens_per_sample);
    return made == AC_OK ? STATUS_CONTINUE : fail_library();
  }
  if (!data->train) return fail_usage("--fold needs data to be given");
  if (data->all) return data_fold_pictures(data, fold, folds);
  data->whole = data->train;
  data->train = NULL;
  if (ac_dataset_fold(&data->train, &data->validation, data->whole, fold, folds) != AC_OK)
    return fail_library();
  return STATUS_CONTINUE;
}

int data_shard(train_data *data, const char *part) {
  int64_t rank, ranks;
  int status = parse_part("rank", part, 0, &rank, &ranks);
  if (status != STATUS_CONTINUE) return status;
  if (!data->train) return fail_usage("--rank needs data to be given");
  data->unsharded = data->train;
  if (ac_dataset_shard(&data->train, data->unsharded, rank, ranks) != AC_OK) return fail_library();
  return STATUS_CONTINUE;
}

/* ---- both ------------------------------------------------------------------------------------ */

int64_t data_field_elements(const ac_dataset *dataset, const char *name) {
  for (int i = 0; i < ac_dataset_field_count(dataset); i++)
    if (!strcmp(ac_dataset_field(dataset, i)->name, name))
      return ac_dataset_field(dataset, i)->elements;
  return 0;
}

void data_close(train_data *data) {
  ac_dataset_free(data->train);
  ac_dataset_free(data->validation);
  ac_dataset_free(data->unsharded);
  ac_dataset_free(data->unmixed);
  ac_dataset_free(data->judged);
  ac_dataset_free(data->changed);
  ac_dataset_free(data->plain);
  ac_dataset_free(data->whole);
  ac_pictures_free(data->all);
  ac_pictures_free(data->training);
  ac_pictures_free(data->validating);
  if (!data->shared || data->tokens != data->shared->tokens) ac_tokens_free(data->tokens);
  *data = (train_data){0};
}
