/** @file
 * Pictures in files as datasets: JPEG, PNG and WebP of any size, decoded whenever a sample is read.
 *
 * ac_pictures_open lists the files and their classes. ac_dataset_from_pictures makes samples of
 * them. A list can have several datasets, such as one that trains, with random changes, and one
 * that validates. Pictures are decoded by the thread that reads the sample, so threads of a loader
 * decode at the same time. */
#ifndef ACCRUE_PICTURES_H
#define ACCRUE_PICTURES_H

#include <accrue/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/* ---- lists of pictures ----------------------------------------------------------------------- */

/** A list of picture files, with the class of each. */
typedef struct ac_pictures ac_pictures;

/** What to do with a picture that cannot be read. */
typedef enum ac_bad_pictures {
  AC_BAD_PICTURES_FAIL =
      0,               /**< Opening the list, or reading the sample, fails and names the file. */
  AC_BAD_PICTURES_SKIP /**< It is left out of the list. Opening decodes every picture once. */
} ac_bad_pictures;

/** Called for each picture that is left out: its path, and a sentence that says why. Calls come in
 * the order of the list, from the thread that opens it. */
typedef void (*ac_bad_picture_callback)(void *user, const char *path, const char *sentence);

/** Why a list could not be opened, as far as a program can do something else then. */
typedef enum ac_pictures_problem {
  AC_PICTURES_OTHER_PROBLEM = 0, /**< Another reason, or none: the list was opened. */
  AC_PICTURES_NONE,              /**< The path has no pictures, or none in a folder of a class. */
  AC_PICTURES_OTHER_CLASSES      /**< A class is not among those that are given. */
} ac_pictures_problem;

/** How a list is opened. */
typedef struct ac_pictures_desc {
  ac_bad_pictures bad;            /**< What to do with pictures that cannot be read. */
  ac_bad_picture_callback report; /**< Told of each picture that is left out. May be NULL. */
  void *user;                     /**< Passed to `report`. */
  bool unlabelled;                /**< All pictures of a folder, without classes. */
  /** Pictures of a CSV file may have several classes, or none. */
  bool several_labels;
  /** Names of the classes, in the order of their numbers, such as those of a trained model; NULL:
   * the classes that are found. Some may have no pictures. Whole numbers in a CSV file are numbers
   * of these classes. Fails with AC_ERROR_FORMAT if a class is not among them. */
  const char *const *classes;
  int64_t class_count;          /**< How many. */
  ac_pictures_problem *problem; /**< Receives why opening failed. May be NULL. */
  /** A folder with a mask for each picture (accrue/masks.h); NULL: there are none. */
  const char *masks;
} ac_pictures_desc;

/** Lists pictures. `path` is one of these:
 *
 * - A folder with a folder for each class. Classes have the byte order of the folders' names.
 *   Pictures of a class have that of their folders' paths, and in a folder that of their names, as
 *   in torchvision's ImageFolder. If there is a folder `train`
 * that has folders itself, its classes train, and *validation lists the folder `val` (or `valid`,
 *   `validation`, `test`: the first that is there). The classes of that one must be among those of
 *   `train`.
 * - A CSV file (its name ends in .csv): a path, a comma and the name of a class on each line. With
 *   several_labels a line may have more classes, each after a comma. Fields may be quoted. Paths
 *   are relative to the file's folder. The first line is a heading if its first field does not end
 *   like the name of a picture. If all classes are whole numbers, they are the numbers of the
 *   classes. Otherwise classes have the byte order of their names.
 *
 * With `masks` it is a folder without folders of classes. All pictures below it are listed; those
 * below a folder `train`, if that has pictures, and *validation then lists those of `val`. The mask
 * of a picture has the same path below `masks`, with the ending .png. It is a PNG file with a
 * palette or in grey, and as large as the picture as it is seen. Opening decodes every mask. There
 * are as many classes as the largest one says, named by their numbers, unless `classes` names them.
 * A mask that is missing, damaged, of another size or with a class that is not expected makes its
 * picture one that cannot be read.
 *
 * Files that ac_picture_is_named takes for pictures are listed; what a file is, its first bytes
 * say. A picture of another format, such as a GIF or TIFF, is a picture that cannot be read. Other
 * files are left out, and so are names that begin with a dot. Links to folders are followed, but
 * not links below them, as those may form circles. A file may have at most 1 GiB. The header of
 * each file is read.
 *
 * *validation is NULL if the path has no pictures that validate. `validation` itself may be NULL;
 * then only those that train are listed. Fails with AC_ERROR_FORMAT, and names the file, if a
 * picture or the CSV file cannot be read, if there are no pictures, or if a class has none. Fails
 * with AC_ERROR_UNSUPPORTED if the library was built without a decoder that is needed. */
AC_API ac_status ac_pictures_open(ac_pictures **pictures, ac_pictures **validation,
                                  const char *path, const ac_pictures_desc *desc);

/** Whether the name of a file ends like that of a picture, in any case: .jpg, .jpeg, .jpe, .jfif,
 * .png and .webp, and endings of formats that are not read, such as .gif and .tif, so that such
 * files are not left out without a word. Names that begin with a dot do not. NULL: false. */
AC_API bool ac_picture_is_named(const char *path);

/** Stratified k-fold cross-validation: fold `fold` of 1 to `folds` validates, and the others train.
 * Each class is dealt to the folds in an order that is the same in every run, so that each fold has
 * its share of each class, and sizes of folds differ by at most one. Both lists have all classes.
 * Pictures without a label, or with several, are dealt as if they had one class. Fails with
 * AC_ERROR_ARGUMENT on fewer than two folds, on a fold that does not exist, and on more folds than
 * pictures. */
AC_API ac_status ac_pictures_fold(ac_pictures **train, ac_pictures **validation,
                                  const ac_pictures *pictures, int64_t fold, int64_t folds);

/** Frees a list. Datasets of it stay as they are. */
AC_API void ac_pictures_free(ac_pictures *pictures);
/** How many pictures a list has. */
AC_API int64_t ac_pictures_count(const ac_pictures *pictures);
/** How many classes there are. 0: the list has no labels. */
AC_API int64_t ac_pictures_classes(const ac_pictures *pictures);
/** The name of a class. NULL if there is none with this number. */
AC_API const char *ac_pictures_class_name(const ac_pictures *pictures, int64_t index);
/** The path of a picture's file. NULL if there is none with this index. */
AC_API const char *ac_pictures_path(const ac_pictures *pictures, int64_t index);
/** The class of a picture. -1 if it has none, or several, and if there is no such picture. */
AC_API int64_t ac_pictures_label(const ac_pictures *pictures, int64_t index);
/** How many pictures were left out as they cannot be read. */
AC_API int64_t ac_pictures_left_out(const ac_pictures *pictures);

/** Has all pictures of the list, with those that validate, decoded once into a file, from which
 * datasets of the list, and of its folds, read them from then on: the same pixels, without
 * decoding. If the file is there, it is used as it is. It then must have each picture, of the same
 * name, size, first 64 KiB and last 4 KiB; it may have more. Call it before datasets are made, once
 * for a list. Datasets of it have `channels` channels (1 or 3; 0: 3), and
 * ac_picture_samples.scaled_decoding is without effect.
 *
 * Fails with AC_ERROR_FORMAT if the file is not a cache, if it is damaged, if it lacks a picture or
 * has other channels, and if a picture cannot be decoded; with AC_ERROR_IO if it cannot be written.
 * What was written then is removed. */
AC_API ac_status ac_pictures_use_cache(ac_pictures *pictures, const char *path, int64_t channels);
/** The bytes of a file that ac_pictures_use_cache makes. 0 if there cannot be one of such channels.
 */
AC_API uint64_t ac_pictures_cache_bytes(const ac_pictures *pictures, int64_t channels);

/* ---- samples --------------------------------------------------------------------------------- */

/** How a picture gets another size: the antialiased filters of Pillow, equal to the bit. */
typedef enum ac_picture_filter {
  AC_PICTURE_BILINEAR = 0, /**< A triangle. */
  AC_PICTURE_BICUBIC       /**< Keys' kernel with a = -1/2. */
} ac_picture_filter;

/** What of a picture a sample shows. */
typedef enum ac_picture_fit {
  /** The picture is resized until its shorter side has `height` / crop_share pixels, rounded down,
   * and its middle is cut out. (If the sample is not square: the least size at which the middle
   * fits.) */
  AC_PICTURE_FIT_CROP = 0,
  AC_PICTURE_FIT_STRETCH, /**< The whole picture; its sides may change by different factors. */
  /** The whole picture, resized until it fits into the sample. What is left on both sides is black,
   * and AC_MASK_IGNORED in a mask. */
  AC_PICTURE_FIT_PAD
} ac_picture_fit;

/** How pictures change each time they are read, in this order: crop, mirror, RandAugment or
 * TrivialAugment, colours. What is zero is off. The changes are drawn by Philox from (seed, epoch,
 * index of the sample), so they depend neither on threads nor on how batches are split. Each one
 * has random numbers of its own: to switch one on leaves the others as they were. */
typedef struct ac_picture_changes {
  /** A rectangle at a random place becomes the sample, in the place of what `fit` says: Szegedy and
   * others, "Going deeper with convolutions", CVPR 2015. */
  bool random_crop;
  double crop_area[2];   /**< Least and most share of the area. Zeros: 0.08 and 1. */
  double crop_aspect[2]; /**< Least and most width / height. Zeros: 3/4 and 4/3. */
  bool flip;             /**< Mirror left to right in half of all cases. */
  /** RandAugment (arXiv 1909.13719): this many operations, one after the other, each drawn from the
   * 14 of torchvision. */
  int rand_augment;
  double magnitude;     /**< Strength of RandAugment, in [0, 30]. 0: 9. */
  bool trivial_augment; /**< One operation of any strength: TrivialAugment (arXiv 2103.10158). */
  double brightness;    /**< A factor in [1 - x, 1 + x], not below 0. */
  double contrast;      /**< A factor in [1 - x, 1 + x], not below 0. */
  double saturation;    /**< A factor in [1 - x, 1 + x], not below 0. */
  double hue;           /**< A part of the circle of hues in [-x, x]; at most 1/2. */
} ac_picture_changes;

/** How pictures become samples. A zero is the default. */
typedef struct ac_picture_samples {
  int64_t height;   /**< Pixels of a sample. 0: 224. */
  int64_t width;    /**< Pixels of a sample. 0: `height`. */
  int64_t channels; /**< 1: grey; 3: red, green and blue. 0: 3. */
  /** AC_F32: values in [0, 1]. AC_U8: bytes, a quarter of the memory; the graph makes floats of
   * them on the device: ac_scale(ac_input(graph, "images", AC_U8, ...), 1.0f / 255). */
  ac_dtype dtype;
  ac_picture_filter filter; /**< Of all resizing. */
  ac_picture_fit fit;       /**< What a sample shows, if it is not cut at random. */
  double crop_share;        /**< In (0, 1]. 0: 0.875. */
  /** A JPEG that is at least twice as large as needed is decoded at 1/2, 1/4 or 1/8 of its size,
   * which is faster. Pixels then are not those of Pillow. */
  bool scaled_decoding;
  const ac_picture_changes *changes; /**< Random changes. NULL: none. Copied. */
  /** Each class has the same number of samples in an epoch, or one more or less. An epoch has as
   * many samples as there are pictures, so pictures of small classes come several times. Over all
   * epochs each picture of a class comes equally often, or once more or less. Sample i is of class
   * i mod the number of classes that have pictures; which picture it is depends on the epoch and
   * the seed. Not with several_labels. */
  bool balanced;
  int threads; /**< That read at the same time, each with a buffer. 0: one for each processor, at
                    most 16. */
} ac_picture_samples;

/** Makes a dataset of a list. The fields are "images" ([channels, height, width], by channels) and
 * "labels" (i32 [1]); with several_labels "targets" (f32 [classes], 1 for each class that the
 * picture has, else 0) in their place. Without labels there are "images" alone. With masks there is
 * "masks" (i32 [height, width]: the class of each pixel, or AC_MASK_IGNORED). It goes through the
 * same geometry as its picture; its pixels are the nearest ones. Colours that change leave it as it
 * is.
 *
 * A picture is turned as its EXIF orientation says. Alpha is left away. Of 16 bits the upper 8
 * count. Inks (CMYK) become colours as in Pillow. `samples` may be NULL. The dataset keeps what it
 * needs of the list. Reading a sample fails with AC_ERROR_FORMAT and names the file if it cannot be
 * decoded, also if it changed since the list was opened.
 *
 * Fails with AC_ERROR_ARGUMENT if a number is out of range. */
AC_API ac_status ac_dataset_from_pictures(ac_dataset **dataset, const ac_pictures *pictures,
                                          const ac_picture_samples *samples);

/** The most bytes that the dataset's buffers take: for each thread one file, its picture before and
 * after it is turned, and what resizing needs. A buffer grows to what its pictures need, so less
 * may be used. Decoders take memory of their own meanwhile: up to 12 bytes for each pixel of a
 * progressive JPEG, 4 for each pixel of a WebP, a few hundred KiB otherwise. Of
 * ac_dataset_augmented and ac_dataset_mixed: one sample or two for each thread, without what the
 * dataset below takes. 0 of other datasets. */
AC_API uint64_t ac_dataset_picture_bytes(const ac_dataset *dataset);

/** Weights of classes that make up for their sizes: weights[c] = pictures / (classes that have
 * pictures x pictures of class c); 0 for a class that has none. `weights` has
 * ac_pictures_classes(pictures) elements. The mean over all pictures is 1. Fails with
 * AC_ERROR_ARGUMENT if the list has no labels, or several for a picture. */
AC_API ac_status ac_pictures_class_weights(const ac_pictures *pictures, float *weights);

/* ---- datasets on datasets -------------------------------------------------------------------- */

/** Another dataset, which must outlive this one, with one field more: "weights" (f32 [1]), which is
 * weights[label] of its i32 field "labels". It feeds the weights of a loss. `count` weights are
 * copied; they are finite and not negative. Fails with AC_ERROR_ARGUMENT if there is no such field,
 * if it has a field "weights", or if a weight is out of range; reading fails with AC_ERROR_FORMAT
 * if a label is not in [0, count). */
AC_API ac_status ac_dataset_weighted(ac_dataset **dataset, ac_dataset *whole, int64_t count,
                                     const float *weights);

/** How samples are mixed. A zero is off. */
typedef struct ac_mixing {
  double mixup; /**< alpha of mixup (arXiv 1710.09412), in [1e-6, 1000]: pixels are averaged. 0.2 is
                   usual. */
  double cutmix; /**< alpha of CutMix (arXiv 1905.04899): a rectangle is replaced. 1 is usual. */
  double probability; /**< That a sample is mixed at all. 0: 1. */
  double smoothing;   /**< Share s of the targets that is spread over all classes, in [0, 1). */
  int64_t classes;    /**< Elements of the targets. 0: as many as the dataset has classes. */
} ac_mixing;

/** Another dataset, which must outlive this one, with samples that are mixed with others, and one
 * field more: "targets" (f32 [classes]), the shares of the classes, for ac_soft_cross_entropy. The
 * field "labels" keeps the sample's own class.
 *
 * The partner is any sample, as it is read for the same seed and epoch. The share l of the sample
 * itself is drawn from Beta(alpha, alpha). With mixup pixels are l a + (1 - l) b. With CutMix a
 * rectangle with the share 1 - l of the area and the image's shape comes from the partner; it may
 * reach beyond the edge, and l is then what really stays. If both are on, each is chosen for half
 * of the samples. Targets are (1 - s) (l onehot(a) + (1 - l) onehot(b)) + s / classes. All is drawn
 * by Philox from (seed, epoch, index of the sample).
 *
 * The dataset has the field "images" (f32, or u8: averages are rounded then), of a known shape,
 * the i32 field "labels" of one element, and a known number of classes, unless it is given. Fails
 * with AC_ERROR_ARGUMENT if not, or if a number is out of range. Reading decodes two samples. If
 * both ways are off, targets are made of the labels alone, as a dataset that validates needs them.
 */
AC_API ac_status ac_dataset_mixed(ac_dataset **dataset, ac_dataset *whole, const ac_mixing *mixing);

/* ---- writing --------------------------------------------------------------------------------- */

/** The most bytes of a PNG picture of this size. 0 if ac_picture_encode_png would refuse it. */
AC_API uint64_t ac_picture_png_bytes(int64_t width, int64_t height, int channels);

/** Writes a PNG picture to memory: rows from the top, `channels` (1 or 3) bytes for each pixel.
 * `to` has room for `room` bytes, at least ac_picture_png_bytes; *bytes is how many it has. Fails
 * with AC_ERROR_ARGUMENT if a side is not in [1, 65535], if there are more than 2^27 pixels, or if
 * there is too little room. */
AC_API ac_status ac_picture_encode_png(uint8_t *to, uint64_t room, uint64_t *bytes, int64_t width,
                                       int64_t height, int channels, const uint8_t *pixels);

/** Like ac_picture_encode_png, to a file. Fails with AC_ERROR_IO if it cannot be written. */
AC_API ac_status ac_picture_write_png(const char *path, int64_t width, int64_t height, int channels,
                                      const uint8_t *pixels);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
