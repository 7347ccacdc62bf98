/* IDX files: a big-endian magic number (0, 0, element type, rank), one uint32 per dimension, then
 * the elements. Images are rank 3 and labels rank 1, both of unsigned bytes. zlib reads plain and
 * gzip files alike.
 *
 * Pixels stay bytes in memory and become floats when a sample is read. Memory grows with the bytes
 * that a file really yields, not with what its header announces, so a hostile header costs nothing.
 */
#include "data/dataset.h"

#include "core/error.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- one file -------------------------------------------------------------------------------- */

typedef struct idx_reader {
  gzFile stream;
  const char *path;
} idx_reader;

static ac_status idx_open(idx_reader *reader, const char *path) {
  errno = 0;
  *reader = (idx_reader){.stream = gzopen(path, "rb"), .path = path};
  if (!reader->stream)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path,
                   errno ? strerror(errno) : "out of memory");
  gzbuffer(reader->stream, 1u << 17);
  return AC_OK;
}

/* As many of `wanted` bytes as there are, into *got. */
static ac_status idx_read(idx_reader *reader, void *data, size_t wanted, size_t *got) {
  *got = 0;
  while (*got < wanted) {
    size_t left = wanted - *got;
    unsigned piece = left < (1u << 30) ? (unsigned)left : 1u << 30;
    int count = gzread(reader->stream, (char *)data + *got, piece);
    int error = Z_OK;
    if (count <= 0) gzerror(reader->stream, &error);
    if (error == Z_ERRNO)
      return ac_fail(AC_ERROR_IO, "cannot read %s: %s", reader->path, strerror(errno));
    if (count < 0) return ac_fail(AC_ERROR_FORMAT, "%s: its gzip data is corrupt", reader->path);
    if (error == Z_BUF_ERROR)
      return ac_fail(AC_ERROR_FORMAT, "%s: its gzip data is truncated", reader->path);
    if (count == 0) break;
    *got += (size_t)count;
  }
  return AC_OK;
}

/* Checks the magic number and reads `rank` dimensions, none of them 0. */
static ac_status idx_header(idx_reader *reader, const char *kind, int rank, int64_t *shape) {
  unsigned char bytes[16];
  size_t wanted = 4 + 4 * (size_t)rank, got;
  AC_TRY(idx_read(reader, bytes, wanted, &got));
  uint32_t words[4] = {0};
  for (size_t i = 0; i < got / 4; i++)
    words[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
               (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
  uint32_t magic = 0x0800u + (uint32_t)rank;
  if (got >= 4 && words[0] != magic)
    return ac_fail(AC_ERROR_FORMAT, "%s: not an IDX file of %s: it begins with 0x%08x, not 0x%08x",
                   reader->path, kind, (unsigned)words[0], (unsigned)magic);
  if (!got) return ac_fail(AC_ERROR_FORMAT, "%s is empty", reader->path);
  if (got < wanted)
    return ac_fail(AC_ERROR_FORMAT, "%s: ends after %zu bytes, within its header", reader->path,
                   got);
  for (int i = 0; i < rank; i++) {
    shape[i] = words[1 + i];
    if (!shape[i])
      return ac_fail(AC_ERROR_FORMAT,
                     i ? "%s: its header announces %s of size zero"
                       : "%s: its header announces no %s",
                     reader->path, kind);
  }
  return AC_OK;
}

/* Reads the `bytes` bytes that the header has announced and makes sure that nothing follows.
 * Reading one byte more also makes zlib verify the checksum at the end of gzip data. */
static ac_status idx_body(idx_reader *reader, size_t bytes, uint8_t **data) {
  size_t have = 0, capacity = 0, got = 0;
  do {
    capacity = capacity ? 2 * capacity : (size_t)1 << 20;
    if (capacity > bytes) capacity = bytes;
    uint8_t *grown = realloc(*data, capacity);
    if (!grown)
      return ac_fail(AC_ERROR_MEMORY, "%s: no memory for %zu bytes", reader->path, capacity);
    *data = grown;
    AC_TRY(idx_read(reader, *data + have, capacity - have, &got));
    have += got;
    if (have < capacity)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: truncated: its header announces %zu bytes, %zu are there", reader->path,
                     bytes, have);
  } while (have < bytes);

  unsigned char extra;
  AC_TRY(idx_read(reader, &extra, 1, &got));
  if (got)
    return ac_fail(AC_ERROR_FORMAT, "%s: has more than the %zu bytes that its header announces",
                   reader->path, bytes);
  return AC_OK;
}

static ac_status idx_load(const char *path, const char *kind, int rank, int64_t *shape,
                          uint8_t **data) {
  idx_reader reader;
  AC_TRY(idx_open(&reader, path));
  ac_status status = idx_header(&reader, kind, rank, shape);
  uint64_t bytes = 1;
  for (int i = 0; i < rank && status == AC_OK; i++) {
    if ((uint64_t)shape[i] > PTRDIFF_MAX / 4 / bytes)
      status = ac_fail(AC_ERROR_FORMAT, "%s: the sizes in its header overflow", path);
    else bytes *= (uint64_t)shape[i];
  }
  if (status == AC_OK) status = idx_body(&reader, (size_t)bytes, data);
  gzclose(reader.stream);
  return status;
}

/* ---- images with labels ---------------------------------------------------------------------- */

/* Shared by the datasets cut from one pair of files. */
typedef struct samples {
  atomic_int users;
  int64_t count, pixels_per_image, classes;
  uint8_t *pixels, *labels;
} samples;

static void release(samples *pair) {
  if (!pair || atomic_fetch_sub(&pair->users, 1) > 1) return;
  free(pair->pixels);
  free(pair->labels);
  free(pair);
}

static ac_status load_files(samples *pair, const char *images_path, const char *labels_path) {
  int64_t images[3], labels[1];
  AC_TRY(idx_load(images_path, "images", 3, images, &pair->pixels));
  AC_TRY(idx_load(labels_path, "labels", 1, labels, &pair->labels));
  if (images[0] != labels[0])
    return ac_fail(AC_ERROR_FORMAT, "%s has %lld images, but %s has %lld labels", images_path,
                   (long long)images[0], labels_path, (long long)labels[0]);
  pair->count = images[0];
  pair->pixels_per_image = images[1] * images[2];
  for (int64_t i = 0; i < pair->count; i++)
    if (pair->labels[i] >= pair->classes) pair->classes = pair->labels[i] + 1;
  return AC_OK;
}

/* The caller is the first user. */
static ac_status load_pair(samples **pair, const char *images_path, const char *labels_path) {
  *pair = NULL;
  samples *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", images_path);
  atomic_init(&made->users, 1);
  ac_status status = load_files(made, images_path, labels_path);
  if (status == AC_OK) *pair = made;
  else release(made);
  return status;
}

typedef struct idx_range {
  samples *pair;
  int64_t begin;
} idx_range;

static ac_status read_idx(void *user, const ac_sample_key *key, void *const *fields) {
  const idx_range *range = user;
  const samples *pair = range->pair;
  int64_t i = range->begin + key->index, n = pair->pixels_per_image;
  const uint8_t *pixels = pair->pixels + i * n;
  float *image = fields[0];
  for (int64_t p = 0; p < n; p++) image[p] = (float)pixels[p] / 255.0f;
  *(int32_t *)fields[1] = pair->labels[i];
  return AC_OK;
}

static void close_idx(void *user) {
  idx_range *range = user;
  release(range->pair);
  free(range);
}

static ac_status make_dataset(ac_dataset **dataset, samples *pair, int64_t begin, int64_t end,
                              int64_t classes) {
  idx_range *range = malloc(sizeof *range);
  if (!range) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for a description");
  *range = (idx_range){.pair = pair, .begin = begin};
  ac_callback_dataset_desc desc = {
      .count = end - begin,
      .field_count = 2,
      .fields = {{"images", AC_F32, pair->pixels_per_image}, {"labels", AC_I32, 1}},
      .read = read_idx,
      .close = close_idx,
      .user = range};
  ac_status status = ac_dataset_create(dataset, &desc, classes);
  if (status == AC_OK) atomic_fetch_add(&pair->users, 1);
  else free(range);
  return status;
}

ac_status ac_dataset_from_idx(ac_dataset **dataset, const char *images_path,
                              const char *labels_path, int64_t begin, int64_t end) {
  *dataset = NULL;
  samples *pair;
  AC_TRY(load_pair(&pair, images_path, labels_path));
  int64_t last = end < 0 ? pair->count : end;
  ac_status status =
      begin < 0 || begin >= last || last > pair->count
          ? ac_fail(AC_ERROR_ARGUMENT, "%s: [%lld, %lld) is no part of %lld images", images_path,
                    (long long)begin, (long long)last, (long long)pair->count)
          : make_dataset(dataset, pair, begin, last, pair->classes);
  release(pair);
  return status;
}

/* ---- a folder with MNIST's file names -------------------------------------------------------- */

/* A file that exists but cannot be opened counts as there: reading it then says why it cannot. */
static bool is_there(const char *path) {
  FILE *stream = fopen(path, "rb");
  if (stream) fclose(stream);
  return stream || errno != ENOENT;
}

typedef char file_path[4096];

/* The path of folder/name or folder/name.gz; the former if neither is there. */
static ac_status find_file(file_path path, const char *folder, const char *name, bool *found) {
  for (int gzip = 1; gzip >= 0; gzip--) {
    file_path candidate;
    int length = snprintf(candidate, sizeof candidate, "%s/%s%s", folder, name, gzip ? ".gz" : "");
    if (length < 0 || (size_t)length >= sizeof candidate)
      return ac_fail(AC_ERROR_ARGUMENT, "the folder's path is longer than a path may be");
    bool there = is_there(candidate);
    if (there || (!gzip && !*found)) memcpy(path, candidate, sizeof candidate);
    *found = *found || there;
  }
  return AC_OK;
}

/* Leaves *pair NULL if neither the images nor the labels are there; one of them alone is an error,
 * which the reader reports by the name of the missing file. */
static ac_status load_from_folder(samples **pair, const char *folder, const char *images_name,
                                  const char *labels_name) {
  *pair = NULL;
  file_path images, labels;
  bool have_images = false, have_labels = false;
  AC_TRY(find_file(images, folder, images_name, &have_images));
  AC_TRY(find_file(labels, folder, labels_name, &have_labels));
  return have_images || have_labels ? load_pair(pair, images, labels) : AC_OK;
}

static ac_status split(ac_dataset **train, ac_dataset **validation, const char *folder,
                       samples *training, samples *validating) {
  if (training && validating) {
    if (training->pixels_per_image != validating->pixels_per_image)
      return ac_fail(
          AC_ERROR_FORMAT, "%s: training images have %lld pixels, validation images have %lld",
          folder, (long long)training->pixels_per_image, (long long)validating->pixels_per_image);
    int64_t classes =
        training->classes > validating->classes ? training->classes : validating->classes;
    AC_TRY(make_dataset(train, training, 0, training->count, classes));
    return make_dataset(validation, validating, 0, validating->count, classes);
  }
  samples *only = training ? training : validating;
  if (!only)
    return ac_fail(AC_ERROR_IO,
                   "%s holds neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor "
                   "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (plain or .gz)",
                   folder);
  if (only->count < 2)
    return ac_fail(AC_ERROR_FORMAT, "%s: one image cannot both train and validate", folder);
  int64_t held = only->count / 10 ? only->count / 10 : 1, boundary = only->count - held;
  AC_TRY(make_dataset(train, only, 0, boundary, only->classes));
  return make_dataset(validation, only, boundary, only->count, only->classes);
}

ac_status ac_dataset_mnist_folder(ac_dataset **train, ac_dataset **validation, const char *folder) {
  *train = *validation = NULL;
  samples *training = NULL, *validating = NULL;
  ac_status status =
      load_from_folder(&training, folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
  if (status == AC_OK)
    status =
        load_from_folder(&validating, folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
  if (status == AC_OK) status = split(train, validation, folder, training, validating);
  if (status != AC_OK) {
    ac_dataset_free(*train);
    *train = NULL;
  }
  release(training);
  release(validating);
  return status;
}
