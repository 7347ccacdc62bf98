/* Opens what a run learns from and splits off what it is validated on. */
#ifndef TOOLS_PROGRAM_DATA_H
#define TOOLS_PROGRAM_DATA_H

#include "common/options.h"
#include "program/left_out.h"

#include <accrue/dataset.h>

typedef struct train_data {
  /* Set beforehand: */
  bool optional;   /* data may be missing if flags give the shape of the kind */
  bool unlabelled; /* for predictions: images need no labels, and one image is enough */
  bool undivided;  /* nothing is split off to validate, as folds will do that. Of text only the
                      tokens are opened */

  left_out left_out; /* the files that the run writes, which are not part of a folder of text */

  ac_tokens *tokens;
  ac_dataset *whole;              /* what train and validation are parts of, or NULL */
  ac_dataset *plain;              /* what train's images are before they are changed, or NULL */
  ac_dataset *unsharded;          /* what train is a shard of, or NULL */
  ac_dataset *train, *validation; /* validation is NULL if undivided */
  ac_augmentation augmentation;   /* of train's images, set by the kind of model; zeros: none */
  const char *unit;               /* what speed is counted in: "byte", "token", "image" */
  int64_t tokens_per_sample;      /* 0: samples are not made of tokens */
  const char *loss_unit;          /* what a loss is per; NULL: the unit */
} train_data;

/* What a loss is per: "token", "pair". */
const char *data_loss_unit(const train_data *data);

/* Text as bytes (vocab 0), or files of any kind (`binary`), or a file of uint16 tokens below
 * `vocab`; the last 10 % validates. */
typedef struct token_data_flags {
  const char *path;
  uint64_t max_bytes; /* 0: all */
  bool binary;
  int64_t vocab;
} token_data_flags;
int data_open_tokens(train_data *data, const token_data_flags *flags, int64_t context);

/* The flags by which image data is given. --data PATH is a folder with MNIST's file names, where
 * train-* trains and t10k-* validates, or with those of CIFAR-10 or CIFAR-100; or one file of
 * CIFAR's records. Or --images FILE and --labels FILE are a pair of IDX files. Of a single source
 * the last 10 % validates. */
typedef struct image_data_flags {
  const char *path, *images, *labels;
  bool coarse;
} image_data_flags;
void data_add_image_options(image_data_flags *flags, options *o);
bool data_image_flags_given(const options *o);
int data_open_image_flags(train_data *data, const image_data_flags *flags);

/* Refuses labels that are not below `classes`, of images that train or validate. */
int data_check_labels(const train_data *data, int64_t classes);

/* Changes training images as `augmentation` says, if it says anything. */
int data_augment(train_data *data);

/* "I/K", of undivided data: trains on all but fold I and validates on that, I being 1 .. K. The
 * folds of text are ranges of it. */
int data_fold(train_data *data, const char *part);

/* "I/N": trains on the share of process I, which is 0 .. N - 1. */
int data_shard(train_data *data, const char *part);

void data_close(train_data *data);

/* Elements per sample of a field, or 0. */
int64_t data_field_elements(const ac_dataset *dataset, const char *name);

#endif
