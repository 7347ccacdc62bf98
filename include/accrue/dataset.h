/* Datasets: where samples come from. A dataset has named fields; each sample holds one block of
 * elements per field, and a field feeds the graph input of the same name. */
#ifndef ACCRUE_DATASET_H
#define ACCRUE_DATASET_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_dataset ac_dataset;

#define AC_MAX_FIELDS 8

typedef struct ac_field {
  const char *name; /* "tokens", "targets", "images", "labels", "weights", ... */
  ac_dtype dtype;
  int64_t elements; /* per sample */
} ac_field;

/* Which sample to read. Reading is a pure function of this key: any sample can be read again. */
typedef struct ac_sample_key {
  int64_t index; /* in [0, count) */
  int64_t epoch;
  uint64_t seed;
} ac_sample_key;

/* Writes the sample's elements of field f to fields[f]. Called from one thread at a time, not
 * always the same one, unless the description says `concurrent`.
 *
 * It may read other datasets, and use trainers and sessions but that for which the sample is read:
 * what would change or run that one is refused with AC_ERROR_STATE. So is reading the same dataset,
 * unless it is `concurrent`; and in a child process, a dataset that a thread of the parent was
 * reading when the process was forked. It has to return: it must not leave by longjmp or by an
 * exception. A number that is not an ac_status counts as AC_ERROR_IO. */
typedef ac_status (*ac_read_sample)(void *user, const ac_sample_key *key, void *const *fields);

typedef struct ac_callback_dataset_desc {
  int64_t count;
  int field_count;
  ac_field fields[AC_MAX_FIELDS];
  ac_read_sample read;
  bool concurrent;           /* several threads may call `read` at once */
  void (*close)(void *user); /* when the dataset is freed (not if making it fails); may be NULL */
  void *user;
} ac_callback_dataset_desc;

AC_API ac_status ac_dataset_from_callback(ac_dataset **dataset,
                                          const ac_callback_dataset_desc *desc);

/* Samples in the caller's memory: field f of sample i starts at data[f] + i * elements * size. Not
 * copied; must outlive the dataset. */
AC_API ac_status ac_dataset_from_memory(ac_dataset **dataset, int64_t count, int field_count,
                                        const ac_field *fields, const void *const *data);

AC_API void ac_dataset_free(ac_dataset *dataset);
AC_API int64_t ac_dataset_count(const ac_dataset *dataset);
AC_API int ac_dataset_field_count(const ac_dataset *dataset);
AC_API const ac_field *ac_dataset_field(const ac_dataset *dataset, int index); /* NULL: no such */

/* How many classes there are to tell apart: the largest label of an IDX file + 1, those of CIFAR,
 * the vocabulary of tokens, what the whole has for a part; 0 where the library cannot know
 * (callbacks, memory). */
AC_API int64_t ac_dataset_classes(const ac_dataset *dataset);

/* Channels, height and width of the field "images"; false and zeros where the library cannot know
 * them. */
AC_API bool ac_dataset_image_shape(const ac_dataset *dataset, int64_t shape[3]);

/* Reads every sample and fails with AC_ERROR_FORMAT, naming the sample, if an element of the i32
 * field "labels" is not in [0, classes). */
AC_API ac_status ac_dataset_check_labels(ac_dataset *dataset, int64_t classes);

/* Fails with AC_ERROR_ARGUMENT if key->index is out of range. */
AC_API ac_status ac_dataset_read(ac_dataset *dataset, const ac_sample_key *key,
                                 void *const *fields);

/* The sample at `position` of an epoch shuffled by (seed, epoch): a bijection of [0, count),
 * computed in constant memory (a Feistel network with cycle walking), so any position can be asked
 * for alone and the order does not depend on how batches are split. -1 if position is not in [0,
 * count). */
AC_API int64_t ac_shuffle(uint64_t seed, int64_t epoch, int64_t position, int64_t count);

/* ---- text and token files -------------------------------------------------------------------- */

/* A sequence of tokens; a language-model dataset cuts it into windows. */
typedef struct ac_tokens ac_tokens;

/* Bytes of a text file, plain or gzip, or of every regular file below a folder in byte order of
 * their paths, as tokens in [0, 256). The first max_bytes of them are kept (0: all). Links to
 * folders are not followed. Fails on missing or empty data, on files and folders below `path` that
 * cannot be read, with AC_ERROR_FORMAT on a file that is not text (a picture, an archive, a model,
 * one with many control characters), naming it, and with AC_ERROR_MEMORY before data fill the
 * machine's memory. `path` may be a pipe. */
AC_API ac_status ac_tokens_from_text(ac_tokens **tokens, const char *path, uint64_t max_bytes);

/* Whether a file or a folder that lies below the path is to be read; of a folder that is not,
 * nothing is. */
typedef bool ac_takes_path(void *user, const char *path, bool is_folder);

/* The same, of what `takes` says yes to; NULL takes everything. It is asked about each regular file
 * and each folder below a folder, not about the path itself. */
AC_API ac_status ac_tokens_from_text_where(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                           ac_takes_path *takes, void *user);

/* The same of files of any kind, each byte as it is: nothing is unzipped and nothing refused for
 * what it holds. */
AC_API ac_status ac_tokens_from_bytes(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                      ac_takes_path *takes, void *user);

/* A file of little-endian uint16, plain or gzip, or one of llm.c's token files (magic 20240520 or
 * 20240801, whose header is left out); every token must be < vocab (1 to 65536). Files of other
 * formats, text and raw 32- or 64-bit integers fail with AC_ERROR_FORMAT. `path` may be a pipe. */
AC_API ac_status ac_tokens_from_uint16(ac_tokens **tokens, const char *path, int64_t vocab);

AC_API void ac_tokens_free(ac_tokens *tokens);
AC_API int64_t ac_tokens_count(const ac_tokens *tokens);

/* Windows of `context` tokens in [begin, end) of the sequence, with fields "tokens" (i32 [context])
 * and "targets" (the same shifted by one). Windows do not overlap, so a token comes up at most once
 * an epoch. Without jitter there are (end - begin - 1) / context windows, rounded down, from
 * `begin` on. With jitter (for training) the first window of an epoch begins at an offset in [0,
 * context) drawn from (seed, epoch), so that tokens come up at changing positions. There are
 * (end - begin) / context - 1 windows, which fit at every offset, and fewer than 2 context tokens
 * at the two ends are left out. A range too short for that has its one window at any offset that
 * fits. The tokens must outlive the dataset. Fails if the range is shorter than context + 1. */
AC_API ac_status ac_dataset_from_tokens(ac_dataset **dataset, const ac_tokens *tokens,
                                        int64_t begin, int64_t end, int64_t context, bool jitter);

/* Cross-validation on a sequence, whose neighbours resemble each other: fold `fold` of 1 .. `folds`
 * is a range of it and validates, without jitter; the ranges on both sides train, with jitter. No
 * window reaches from one range into another, so what validates is in nothing that trains. The
 * lengths of the folds differ by at most one token. Fails with AC_ERROR_ARGUMENT as ac_dataset_fold
 * does, and where a fold, or the longer one of the ranges beside it, is shorter than context + 1.
 */
AC_API ac_status ac_dataset_fold_tokens(ac_dataset **train, ac_dataset **validation,
                                        const ac_tokens *tokens, int64_t fold, int64_t folds,
                                        int64_t context);

/* ---- images ---------------------------------------------------------------------------------- */

/* IDX images (magic 0x0803) and labels (0x0801), plain or gzip. Fields "images" (f32 [height *
 * width], 0..1) and "labels" (i32 [1]). Samples [begin, end) of the file; end < 0: to the end. The
 * file is kept in memory as bytes. Fails with AC_ERROR_FORMAT on wrong magic numbers, sizes that
 * overflow, truncated, damaged or trailing data, and on different numbers of images and labels.
 * `labels_path` NULL: images alone, in a dataset without the field "labels". */
AC_API ac_status ac_dataset_from_idx(ac_dataset **dataset, const char *images_path,
                                     const char *labels_path, int64_t begin, int64_t end);

/* A folder with MNIST's file names, each plain or with .gz (plain is preferred):
 * train-images-idx3-ubyte and train-labels-idx1-ubyte train, t10k-images-idx3-ubyte and
 * t10k-labels-idx1-ubyte validate; so do train-images.idx3-ubyte and the others with that dot.
 * Where only one pair is there, its last 10 % (at least one sample) validates. With `validation`
 * NULL nothing validates: train-* trains, or all of the only pair. The classes are the larger of
 * the two in any case. The datasets are freed one by one, in any order. */
AC_API ac_status ac_dataset_mnist_folder(ac_dataset **train, ac_dataset **validation,
                                         const char *folder);

/* The binary version of CIFAR-10: records of a label in [0, 10) and 3 x 32 x 32 bytes, plain or
 * gzip. Fields as of IDX, images being [3, 32, 32]. `path` is a file or a folder, whose training
 * files (data_batch_1.bin and those after it up to data_batch_5.bin) are read one after another.
 * Samples [begin, end) of them all; end < 0: to the end. Fails with AC_ERROR_FORMAT on a length
 * that is no whole number of records, on labels out of range and on damaged gzip data, and with
 * AC_ERROR_IO if one of the files is missing before another. */
AC_API ac_status ac_dataset_from_cifar10(ac_dataset **dataset, const char *path, int64_t begin,
                                         int64_t end);

/* The same for CIFAR-100, whose records have two labels: of 20 coarse classes and of 100 fine ones.
 * A folder's training file is train.bin. */
AC_API ac_status ac_dataset_from_cifar100(ac_dataset **dataset, const char *path, bool coarse,
                                          int64_t begin, int64_t end);

/* One file of CIFAR-10's records or, where it cannot be these, of CIFAR-100's (with fine classes).
 * It is read once, so it may be a pipe. */
AC_API ac_status ac_dataset_from_cifar(ac_dataset **dataset, const char *path, int64_t begin,
                                       int64_t end);

/* A folder with CIFAR's file names, each plain or with .gz: data_batch_*.bin train and
 * test_batch.bin validates, or train.bin and test.bin. Where only one of the two is there, its last
 * 10 % validates; `validation` may be NULL, as in ac_dataset_mnist_folder. */
AC_API ac_status ac_dataset_cifar10_folder(ac_dataset **train, ac_dataset **validation,
                                           const char *folder);
AC_API ac_status ac_dataset_cifar100_folder(ac_dataset **train, ac_dataset **validation,
                                            const char *folder, bool coarse);

/* ---- datasets on datasets -------------------------------------------------------------------- */

/* These read another dataset, which must outlive them, and can be stacked. */

/* Samples [begin, end). */
AC_API ac_status ac_dataset_slice(ac_dataset **dataset, ac_dataset *whole, int64_t begin,
                                  int64_t end);

/* Cross-validation: fold `fold` of 1 .. `folds` validates, the others train. The folds are a fixed
 * partition of the shuffled samples, the same in every run, and their sizes differ by at most one.
 * Fails with AC_ERROR_ARGUMENT on fewer than two folds, on a fold that is not there and on more
 * folds than samples, which would leave one empty. */
AC_API ac_status ac_dataset_fold(ac_dataset **train, ac_dataset **validation, ac_dataset *whole,
                                 int64_t fold, int64_t folds);

/* The share of process `rank` of 0 .. `ranks` - 1: samples rank, rank + ranks, rank + 2 ranks, ...
 * Every sample is in exactly one shard; sizes differ by at most one. Fails with AC_ERROR_ARGUMENT
 * on a rank that is not there or would get nothing. */
AC_API ac_status ac_dataset_shard(ac_dataset **dataset, ac_dataset *whole, int64_t rank,
                                  int64_t ranks);

/* ---- augmentation ---------------------------------------------------------------------------- */

/* How images change each time they are read. What is zero is off. The changes are drawn by Philox
 * from (seed, epoch, index of the sample), so that they depend neither on threads nor on how
 * batches are split; to draw the same on every rank, augment the whole and cut shards from that.
 *
 * Let (x, y) be pixels from the centre ((width - 1) / 2, (height - 1) / 2), y downwards. An image
 * is mirrored, turned by a, scaled by s and shifted by (dx, dy), all at once: the pixel at (x, y)
 * is taken from
 *
 *   (u, v) = (cos a (x - dx) + sin a (y - dy), -sin a (x - dx) + cos a (y - dy)) / s
 *
 * or (-u, v) if mirrored, bilinear between the four pixels around it; those outside the image are
 * `fill`. So a shift is a crop out of the padded image. Without turning and scaling, pixels are
 * copied as they are. Then a rectangle may be erased (Zhong, Zheng, Kang, Li, Yang, "Random erasing
 * data augmentation", AAAI 2020), and at last channel c becomes (pixel - mean[c]) / deviation[c].
 */
typedef struct ac_augmentation {
  int64_t channels, height, width; /* zeros: as ac_dataset_image_shape says */
  int64_t shift;                   /* pixels: dx and dy are whole numbers in [-shift, shift] */
  bool flip;                       /* mirrored left to right in half of all cases */
  double rotation;                 /* degrees: a is in [-rotation, rotation] */
  double scaling;                  /* s is in [1 - scaling, 1 + scaling]; below 1 */
  double erase_probability;        /* that a rectangle is erased to `fill` */
  double erase_area; /* its share of the image is in [0, erase_area]; its height / width in
                        [1/3, 3], as far as it fits, uniform in the logarithm */
  double fill;       /* 0: black */
  const float *mean, *deviation; /* by channel; NULL: 0 and 1. Copied */
} ac_augmentation;

/* Another dataset, which must outlive this one, with its f32 field "images" ([channels, height,
 * width]) changed and the other fields as they are. With nothing but mean and deviation it is what
 * validation data needs. Fails with AC_ERROR_ARGUMENT if there is no such field, its size is
 * another, or a number is out of range. */
AC_API ac_status ac_dataset_augmented(ac_dataset **dataset, ac_dataset *whole,
                                      const ac_augmentation *augmentation);

#ifdef __cplusplus
}
#endif
#endif
