/** @file
 * Datasets: where samples come from. A dataset has named fields. Each sample has one block of
 * elements for each field. A field feeds the graph input of the same name. */
#ifndef ACCRUE_DATASET_H
#define ACCRUE_DATASET_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A source of samples. */
typedef struct ac_dataset ac_dataset;

/** Most fields of a dataset. */
#define AC_MAX_FIELDS 8

/** A field of a dataset. */
typedef struct ac_field {
  const char *name; /**< "tokens", "targets", "images", "labels", "weights" or another name. */
  ac_dtype dtype;   /**< Type of its elements. */
  int64_t elements; /**< Elements of one sample. */
} ac_field;

/** Which sample to read. Reading depends on this key alone, so any sample can be read again. */
typedef struct ac_sample_key {
  int64_t index; /**< Which sample, in [0, count). */
  int64_t epoch; /**< The epoch that it is read for, from 0 on. */
  uint64_t seed; /**< Seed for what is random in a sample, such as augmentation. */
} ac_sample_key;

/** Writes the sample's elements of field f to fields[f]. It is called by one thread at a time, not
 * always the same one, unless the description sets `concurrent`.
 *
 * It may read other datasets. It may use other trainers and sessions than the one for which the
 * sample is read. Calls that would change or run that one are refused with AC_ERROR_STATE. Also
 * refused is reading the same dataset, unless it is `concurrent`; and, in a child process, reading
 * a dataset that a thread of the parent was reading at the fork.
 *
 * It has to return: it must not leave by longjmp or by an exception. A number that is not an
 * ac_status counts as AC_ERROR_IO. */
typedef ac_status (*ac_read_sample)(void *user, const ac_sample_key *key, void *const *fields);

/** A dataset that calls a function for each sample. */
typedef struct ac_callback_dataset_desc {
  int64_t count;                  /**< How many samples there are. */
  int field_count;                /**< How many fields there are. */
  ac_field fields[AC_MAX_FIELDS]; /**< The fields. */
  ac_read_sample read;            /**< Reads one sample. */
  bool concurrent;                /**< Several threads may call `read` at once. */
  /** Called when the dataset is freed, but not if making it fails. May be NULL. */
  void (*close)(void *user);
  void *user; /**< Passed to both functions. */
} ac_callback_dataset_desc;

/** Makes a dataset from a function that reads one sample. */
AC_API ac_status ac_dataset_from_callback(ac_dataset **dataset,
                                          const ac_callback_dataset_desc *desc);

/** Makes a dataset from samples in the caller's memory. Field f of sample i starts at data[f] + i *
 * elements * size. The data are not copied and must outlive the dataset. */
AC_API ac_status ac_dataset_from_memory(ac_dataset **dataset, int64_t count, int field_count,
                                        const ac_field *fields, const void *const *data);

/** Frees a dataset. */
AC_API void ac_dataset_free(ac_dataset *dataset);
/** How many samples a dataset has. */
AC_API int64_t ac_dataset_count(const ac_dataset *dataset);
/** How many fields a dataset has. */
AC_API int ac_dataset_field_count(const ac_dataset *dataset);
/** A field of a dataset. NULL if there is none with this index. */
AC_API const ac_field *ac_dataset_field(const ac_dataset *dataset, int index);

/** How many classes there are. For an IDX file it is the largest label + 1. For tokens it is the
 * vocabulary. A part of a dataset has the classes of the whole. 0 if the library cannot know it
 * (callbacks, memory). */
AC_API int64_t ac_dataset_classes(const ac_dataset *dataset);

/** Channels, height and width of the field "images". If the library cannot know them it returns
 * false, and zeros. */
AC_API bool ac_dataset_image_shape(const ac_dataset *dataset, int64_t shape[3]);

/** Reads every sample. Fails with AC_ERROR_FORMAT, and names the sample, if an element of the i32
 * field "labels" is not in [0, classes). */
AC_API ac_status ac_dataset_check_labels(ac_dataset *dataset, int64_t classes);

/** Reads one sample. Fails with AC_ERROR_ARGUMENT if key->index is out of range. */
AC_API ac_status ac_dataset_read(ac_dataset *dataset, const ac_sample_key *key,
                                 void *const *fields);

/** The sample at `position` of an epoch that is shuffled by (seed, epoch). Each sample of [0,
 * count) has exactly one position. It is computed in constant memory (a Feistel network with cycle
 * walking). So any position can be asked for alone, and the order does not depend on how batches
 * are split. -1 if `position` is not in [0, count). */
AC_API int64_t ac_shuffle(uint64_t seed, int64_t epoch, int64_t position, int64_t count);

/* ---- text and token files -------------------------------------------------------------------- */

/** A sequence of tokens. ac_dataset_from_tokens cuts it into samples. */
typedef struct ac_tokens ac_tokens;

/** Reads text, one token in [0, 256) for each byte.
 *
 * `path` is a text file, plain or gzip, or a pipe. Or it is a folder: then all regular files below
 * it are read, in byte order of their paths. Links to folders are not followed. The first
 * `max_bytes` bytes are kept (0: all).
 *
 * Fails if data are missing or empty, and if a file or folder below `path` cannot be read. Fails
 * with AC_ERROR_FORMAT, and names the file, if a file is not text: a picture, an archive, a model,
 * or one with many control characters. Fails with AC_ERROR_MEMORY before the data fill the
 * machine's memory. */
AC_API ac_status ac_tokens_from_text(ac_tokens **tokens, const char *path, uint64_t max_bytes);

/** Whether to read this file or folder, which lies below the path. If a folder is not read, nothing
 * in it is. */
typedef bool ac_takes_path(void *user, const char *path, bool is_folder);

/** Like ac_tokens_from_text, but reads only the files for which `takes` returns true. NULL: all. It
 * is asked about each regular file and each folder below a folder, not about `path` itself. */
AC_API ac_status ac_tokens_from_text_where(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                           ac_takes_path *takes, void *user);

/** Like ac_tokens_from_text_where, but for files of any kind. Each byte is a token as it is.
 * Nothing is unzipped, and no file is refused because of its content. */
AC_API ac_status ac_tokens_from_bytes(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                      ac_takes_path *takes, void *user);

/** Reads a file of little-endian uint16, plain or gzip, or a token file of llm.c (magic 20240520 or
 * 20240801; its header is left out). Every token must be below `vocab` (1 to 65536). Fails with
 * AC_ERROR_FORMAT on files of other formats, text, and raw 32- or 64-bit integers. `path` may be a
 * pipe. */
AC_API ac_status ac_tokens_from_uint16(ac_tokens **tokens, const char *path, int64_t vocab);

/** Like ac_tokens_from_uint16, but for little-endian uint32 and a `vocab` of 1 to 2147483647.
 * llm.c's files of both widths are read. */
AC_API ac_status ac_tokens_from_uint32(ac_tokens **tokens, const char *path, int64_t vocab);

/** Frees a sequence of tokens. */
AC_API void ac_tokens_free(ac_tokens *tokens);
/** How many tokens a sequence has. */
AC_API int64_t ac_tokens_count(const ac_tokens *tokens);

/** Makes a dataset from tokens [begin, end) of a sequence. Each sample is a span of `context`
 * tokens, in the fields "tokens" (i32 [context]) and "targets" (the same, shifted by one). Spans do
 * not overlap, so a token is read at most once in an epoch.
 *
 * Without jitter there are (end - begin - 1) / context spans, rounded down, starting at `begin`.
 *
 * With jitter (for training) the first span of an epoch begins at an offset in [0, context), drawn
 * from (seed, epoch). So tokens appear at changing positions. There are (end - begin) / context - 1
 * spans, which fit at every offset. Fewer than 2 context tokens at the two ends are left out. A
 * range that is too short for this has one span, at any offset that fits.
 *
 * The tokens must outlive the dataset. Fails if the range is shorter than context + 1. */
AC_API ac_status ac_dataset_from_tokens(ac_dataset **dataset, const ac_tokens *tokens,
                                        int64_t begin, int64_t end, int64_t context, bool jitter);

/** K-fold cross-validation on a sequence of tokens. Neighbours in a sequence are alike, so a fold
 * is one contiguous range. Fold `fold` of 1 to `folds` validates, without jitter. The ranges on
 * both sides train, with jitter. No span crosses from one range into another, so no token is used
 * for both. The lengths of the folds differ by at most one token.
 *
 * Fails with AC_ERROR_ARGUMENT like ac_dataset_fold. Fails as well if a fold is shorter than
 * context + 1, or if the longer one of the two ranges next to it is. */
AC_API ac_status ac_dataset_fold_tokens(ac_dataset **train, ac_dataset **validation,
                                        const ac_tokens *tokens, int64_t fold, int64_t folds,
                                        int64_t context);

/* ---- images ---------------------------------------------------------------------------------- */

/** Reads IDX images (magic 0x0803) and labels (0x0801), plain or gzip: samples [begin, end) of the
 * file, or to the end if end < 0. The fields are "images" (f32 [height * width], in [0, 1]) and
 * "labels" (i32 [1]). The file is kept in memory as bytes. If `labels_path` is NULL there is no
 * field "labels".
 *
 * Fails with AC_ERROR_FORMAT on wrong magic numbers, sizes that overflow, truncated, damaged or
 * trailing data, and if there are not as many images as labels. */
AC_API ac_status ac_dataset_from_idx(ac_dataset **dataset, const char *images_path,
                                     const char *labels_path, int64_t begin, int64_t end);

/** Reads a folder with the file names of MNIST, each plain or with .gz (plain is preferred).
 * train-images-idx3-ubyte and train-labels-idx1-ubyte train. t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte validate. Names with a dot, such as train-images.idx3-ubyte, are also
 * accepted.
 *
 * If only one pair is there, its last 10 % (at least one sample) validate. If `validation` is NULL
 * nothing validates: the training files train, or all of the only pair. Both datasets have the
 * larger number of classes. They are freed one by one, in any order. */
AC_API ac_status ac_dataset_mnist_folder(ac_dataset **train, ac_dataset **validation,
                                         const char *folder);

/** Reads the binary version of CIFAR-10: records of a label in [0, 10) and 3 x 32 x 32 bytes, plain
 * or gzip. The fields are those of ac_dataset_from_idx, with images [3, 32, 32]. `path` is a file
 * or a folder. Of a folder the training files are read one after another: data_batch_1.bin to
 * data_batch_5.bin. Samples [begin, end) of all these; end < 0: to the end.
 *
 * Fails with AC_ERROR_FORMAT if a length is not a multiple of a record, and on labels out of range
 * and damaged gzip data. Fails with AC_ERROR_IO if a file is missing and a later one is there. */
AC_API ac_status ac_dataset_from_cifar10(ac_dataset **dataset, const char *path, int64_t begin,
                                         int64_t end);

/** Like ac_dataset_from_cifar10, but for CIFAR-100. Its records have two labels: one of 20 coarse
 * classes and one of 100 fine classes. The training file of a folder is train.bin. */
AC_API ac_status ac_dataset_from_cifar100(ac_dataset **dataset, const char *path, bool coarse,
                                          int64_t begin, int64_t end);

/** Reads one file of CIFAR-10's records or, if it cannot be these, of CIFAR-100's records (with
 * fine classes). It is read once, so it may be a pipe. */
AC_API ac_status ac_dataset_from_cifar(ac_dataset **dataset, const char *path, int64_t begin,
                                       int64_t end);

/** Reads a folder with the file names of CIFAR-10, each plain or with .gz: data_batch_1.bin and so
 * on train, and test_batch.bin validates. If only one of the two is there, its last 10 % validate.
 * `validation` may be NULL, as in ac_dataset_mnist_folder. */
AC_API ac_status ac_dataset_cifar10_folder(ac_dataset **train, ac_dataset **validation,
                                           const char *folder);
/** Like ac_dataset_cifar10_folder, but for CIFAR-100: train.bin trains and test.bin validates. */
AC_API ac_status ac_dataset_cifar100_folder(ac_dataset **train, ac_dataset **validation,
                                            const char *folder, bool coarse);

/* ---- datasets on datasets -------------------------------------------------------------------- */

/* These read another dataset, which must outlive them, and can be stacked. */

/** Samples [begin, end) of another dataset, which must outlive this one. */
AC_API ac_status ac_dataset_slice(ac_dataset **dataset, ac_dataset *whole, int64_t begin,
                                  int64_t end);

/** K-fold cross-validation: fold `fold` of 1 to `folds` validates, and the others train. The folds
 * are a fixed split of the shuffled samples, the same in every run. Their sizes differ by at most
 * one. `whole` must outlive both datasets. Fails with AC_ERROR_ARGUMENT on fewer than two folds, on
 * a fold that does not exist, and on more folds than samples. */
AC_API ac_status ac_dataset_fold(ac_dataset **train, ac_dataset **validation, ac_dataset *whole,
                                 int64_t fold, int64_t folds);

/** The share of process `rank` of 0 to `ranks` - 1: samples rank, rank + ranks, rank + 2 ranks and
 * so on. Every sample is in exactly one share. Their sizes differ by at most one. `whole` must
 * outlive the dataset. Fails with AC_ERROR_ARGUMENT if the rank does not exist or would get
 * nothing. */
AC_API ac_status ac_dataset_shard(ac_dataset **dataset, ac_dataset *whole, int64_t rank,
                                  int64_t ranks);

/* ---- augmentation ---------------------------------------------------------------------------- */

/** How images change each time they are read. What is zero is off.
 *
 * The changes are drawn by Philox from (seed, epoch, index of the sample). So they do not depend on
 * threads or on how batches are split. To draw the same on every rank, augment the whole dataset
 * and cut shards from that.
 *
 * Let (x, y) be pixels from the centre ((width - 1) / 2, (height - 1) / 2), with y downwards. An
 * image is mirrored, turned by a, scaled by s and shifted by (dx, dy), all at once. The pixel at
 * (x, y) is taken from
 *
 *     (u, v) = (cos a (x - dx) + sin a (y - dy), -sin a (x - dx) + cos a (y - dy)) / s
 *
 * or from (-u, v) if the image is mirrored. The value is bilinear between the four pixels around
 * it. Pixels outside the image are `fill`. So a shift is a crop out of the padded image. Without
 * turning and scaling, pixels are copied as they are. Then a rectangle may be erased (Zhong, Zheng,
 * Kang, Li, Yang, "Random erasing data augmentation", AAAI 2020). At last channel c becomes
 * (pixel - mean[c]) / deviation[c]. */
typedef struct ac_augmentation {
  int64_t channels;         /**< Channels of an image. 0: as ac_dataset_image_shape says. */
  int64_t height;           /**< Height in pixels. 0: as ac_dataset_image_shape says. */
  int64_t width;            /**< Width in pixels. 0: as ac_dataset_image_shape says. */
  int64_t shift;            /**< Pixels: dx and dy are whole numbers in [-shift, shift]. */
  bool flip;                /**< Mirror left to right in half of all cases. */
  double rotation;          /**< Degrees: a is in [-rotation, rotation]. */
  double scaling;           /**< s is in [1 - scaling, 1 + scaling]; below 1. */
  double erase_probability; /**< Probability that a rectangle is erased to `fill`. */
  /** The rectangle's share of the image is in [0, erase_area]. Its height / width is in [1/3, 3],
   * uniform in the logarithm, as far as it fits. */
  double erase_area;
  double fill; /**< Value of pixels that are missing or erased; of u8 in parts of 255. 0: black. */
  const float *mean;      /**< Mean of each channel. NULL: 0. Copied. For f32 only. */
  const float *deviation; /**< Standard deviation of each channel. NULL: 1. Copied. For f32 only. */
} ac_augmentation;

/** Another dataset, which must outlive this one, with its field "images" ([channels, height,
 * width], f32 or u8) changed. An i32 field "masks" ([height, width], accrue/masks.h) moves with it:
 * its pixels are the nearest ones, and AC_MASK_IGNORED outside; what is erased stays. Other fields
 * stay as they are. Validation data need only mean and deviation. Pixels in u8 that are turned or
 * scaled are rounded to the nearest level. Fails with AC_ERROR_ARGUMENT if there is no such field,
 * if its size is different, or if a number is out of range. */
AC_API ac_status ac_dataset_augmented(ac_dataset **dataset, ac_dataset *whole,
                                      const ac_augmentation *augmentation);

#ifdef __cplusplus
}
#endif
#endif
