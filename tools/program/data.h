/* Opens what a run learns from and splits off what it is validated on. */
#ifndef TOOLS_PROGRAM_DATA_H
#define TOOLS_PROGRAM_DATA_H

#include "common/options.h"
#include "program/left_out.h"

#include <accrue/pictures.h>

/* The flags that say how pictures become samples. */
typedef struct picture_flags {
  const ac_pictures *list; /* what is learned; NULL: it is not pictures */
  int64_t size;
  bool grey, scaled;
  int bad, filter; /* ac_bad_pictures, ac_picture_filter */
  double crop_share;
  bool segments;     /* each pixel has a class, by a mask, and not the whole picture */
  const char *masks; /* their folder; NULL: there are none, as for predictions */
  int fit;           /* ac_picture_fit */
  /* Of those that train: */
  ac_picture_changes changes;
  double crop_area; /* the least; 0: not at random */
  double jitter;    /* of brightness, contrast and saturation */
  int64_t rand_augment;
  bool balanced;
  const char *cache; /* the file of --image-cache; NULL: none */
  const char
      *class_names; /* as in train_data, of --init; while data is opened. Others replace them */
} picture_flags;

/* Tokens that ranks of one process read together: the first opens them, one after another, and
 * none changes them. Close it when all have ended. */
typedef struct shared_tokens {
  ac_tokens *tokens; /* NULL: none yet */
  char *flags;       /* in words, by which they were opened */
  left_out left_out;
} shared_tokens;
void shared_tokens_close(shared_tokens *shared);

typedef struct train_data {
  /* Set beforehand: */
  shared_tokens *shared;   /* NULL: of this run alone */
  bool optional;           /* data may be missing if flags give the shape of the kind */
  bool bytes;              /* pictures become samples in u8, not in f32 */
  bool unlabelled;         /* for predictions: images need no labels, and one image is enough */
  const char *class_names; /* of the model, which no others replace, one a line, in the order of
                              their numbers; NULL: those of pictures are as the data has them */
  bool undivided; /* nothing is split off to validate, as folds will do that. Of text only the
                     tokens are opened */

  left_out left_out; /* the files that the run writes, which are not part of a folder of text */

  picture_flags pictures; /* how pictures become samples, if they are what is learned */
  /* Lists of pictures, or NULL: all that --data names but what is in a folder to validate; and what
   * train and validation are made of. */
  ac_pictures *all, *training, *validating;

  ac_tokens *tokens;
  ac_dataset *whole;     /* what train and validation are parts of, or NULL */
  ac_dataset *plain;     /* what train's images are before they are changed, or NULL */
  ac_dataset *changed;   /* pictures with changes of their own, if train changes them more */
  ac_dataset *unmixed;   /* what train is mixed of, or is without weights of classes; or NULL */
  ac_dataset *judged;    /* the same of validation */
  ac_dataset *unsharded; /* what train is a shard of, or NULL */
  ac_dataset *train, *validation; /* validation is NULL if undivided */
  ac_augmentation augmentation;   /* of train's images, set by the kind of model; zeros: none */
  ac_mixing mixing;          /* of training samples with others, set by the kind; zeros: none */
  bool class_weights;        /* the loss counts pictures by the size of their class */
  const char *unit;          /* what speed is counted in: "byte", "token", "image" */
  int64_t tokens_per_sample; /* 0: samples are not made of tokens */
  bool no_nats;              /* the loss has no unit */
  const char *loss_unit;     /* what a loss is per; NULL: the unit */
} train_data;

/* What a loss is per: "token", "pair". */
const char *data_loss_unit(const train_data *data);
/* The words before that: "nats per". */
const char *data_loss_words(const train_data *data);

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
 * CIFAR's records; or a folder or list of pictures (data_pictures.c), for which some flags are. Or
 * --images FILE and --labels FILE are a pair of IDX files. Of a single source the last 10 %
 * validates. */
typedef struct image_data_flags {
  const char *path, *images, *labels;
  bool coarse;
  picture_flags pictures;
} image_data_flags;
void data_add_image_options(image_data_flags *flags, options *o);
bool data_image_flags_given(const options *o);
int data_open_image_flags(train_data *data, const image_data_flags *flags, const options *o);

/* The same of pictures: a folder with a folder for each class, a .csv file, or, unlabelled, any
 * folder or one picture. Without a folder that validates, a tenth of each class does. */
bool data_is_pictures(const char *path);
/* The most that buffers for decoding take while a model trains and is validated. */
uint64_t data_picture_bytes(const train_data *data);
int data_open_pictures(train_data *data, const image_data_flags *flags, const options *o);
/* Fold `fold` of `folds` of all pictures. */
int data_fold_pictures(train_data *data, int64_t fold, int64_t folds);
/* The flags of random changes. */
void data_add_picture_changes(picture_flags *flags, options *o);
/* Makes `train` anew, with the changes that flags ask for. */
int data_change_pictures(train_data *data);

/* Refuses labels that are not below `classes`, of images that train or validate. */
int data_check_labels(const train_data *data, int64_t classes);

/* Changes training images as `augmentation` says, if it says anything, and pictures as their own
 * flags say; mixes them; or gives them weights. Defaults of `augmentation` are for small images, so
 * they do not change pictures. */
int data_change(train_data *data, const options *o);

/* What trains as it is, before it is changed. */
ac_dataset *data_plain(const train_data *data);
/* The files of a dataset of pictures, which is one of `data`; NULL: it is not made of such. */
const ac_pictures *data_list_of(const train_data *data, const ac_dataset *dataset);

/* "I/K", of undivided data: trains on all but fold I and validates on that, I being 1 .. K. The
 * folds of text are ranges of it. */
int data_fold(train_data *data, const char *part);

/* "I/N": trains on the share of process I, which is 0 .. N - 1. */
int data_shard(train_data *data, const char *part);

void data_close(train_data *data);

/* Elements per sample of a field, or 0. */
int64_t data_field_elements(const ac_dataset *dataset, const char *name);

#endif
