/* IDX files: a big-endian magic number (0, 0, element type, rank), one uint32 per dimension, then
 * the elements. Images are rank 3 and labels rank 1, both of unsigned bytes. */
#include "core/error.h"
#include "data/byte_file.h"
#include "data/image_set.h"

#include <string.h>

/* ---- one file -------------------------------------------------------------------------------- */

/* Checks the magic number and reads `rank` dimensions, none of them 0. */
static ac_status read_header(ac_byte_file *file, const char *kind, int rank, int64_t *shape) {
  unsigned char bytes[16];
  size_t wanted = 4 + 4 * (size_t)rank, got;
  AC_TRY(ac_byte_file_read(file, bytes, wanted, &got));
  uint32_t words[4] = {0};
  for (size_t i = 0; i < got / 4; i++)
    words[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16 |
               (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
  uint32_t magic = 0x0800u + (uint32_t)rank;
  const char *path = ac_byte_file_path(file);
  if (got >= 4 && words[0] != magic) {
    const char *format = ac_byte_file_format(file);
    return ac_fail(AC_ERROR_FORMAT,
                   "%s%s%s%s not an IDX file of %s: it begins with 0x%08x, not 0x%08x", path,
                   format ? " is " : ":", format ? format : "", format ? "," : "", kind,
                   (unsigned)words[0], (unsigned)magic);
  }
  if (!got) return ac_fail(AC_ERROR_FORMAT, "%s is empty", path);
  if (got < wanted)
    return ac_fail(AC_ERROR_FORMAT, "%s: ends after %zu bytes, within its header", path, got);
  for (int i = 0; i < rank; i++) {
    shape[i] = words[1 + i];
    if (!shape[i])
      return ac_fail(AC_ERROR_FORMAT,
                     i ? "%s: its header announces %s of size zero"
                       : "%s: its header announces no %s",
                     path, kind);
  }
  return AC_OK;
}

/* Reads the `count` bytes that the header has announced and makes sure that nothing follows, which
 * also brings gzip data to its end. */
static ac_status read_body(ac_byte_file *file, uint64_t count, ac_bytes *bytes) {
  const char *path = ac_byte_file_path(file);
  AC_TRY(ac_byte_file_append(file, bytes, count));
  if (bytes->count < count)
    return ac_fail(AC_ERROR_FORMAT, "%s: truncated: its header announces %llu bytes, %zu are there",
                   path, (unsigned long long)count, bytes->count);
  unsigned char extra;
  size_t got;
  AC_TRY(ac_byte_file_read(file, &extra, 1, &got));
  if (got)
    return ac_fail(AC_ERROR_FORMAT, "%s: has more than the %llu bytes that its header announces",
                   path, (unsigned long long)count);
  return AC_OK;
}

static ac_status load_file(const char *path, const char *kind, int rank, int64_t *shape,
                           uint8_t **data) {
  ac_byte_file *file;
  AC_TRY(ac_byte_file_open(&file, path, AC_UNZIP));
  ac_status status = read_header(file, kind, rank, shape);
  uint64_t count = 1;
  for (int i = 0; i < rank && status == AC_OK; i++) {
    if ((uint64_t)shape[i] > PTRDIFF_MAX / 4 / count)
      status = ac_fail(AC_ERROR_FORMAT, "%s: the sizes in its header overflow", path);
    else count *= (uint64_t)shape[i];
  }
  ac_bytes bytes = {0};
  if (status == AC_OK) status = read_body(file, count, &bytes);
  *data = bytes.data;
  ac_byte_file_close(file);
  return status;
}

/* ---- images with labels ---------------------------------------------------------------------- */

static ac_status load_files(ac_image_set *set, const char *images_path, const char *labels_path) {
  int64_t images[3], labels[1];
  AC_TRY(load_file(images_path, "images", 3, images, &set->memory[0]));
  if (labels_path) AC_TRY(load_file(labels_path, "labels", 1, labels, &set->memory[1]));
  if (labels_path && images[0] != labels[0])
    return ac_fail(AC_ERROR_FORMAT, "%s has %lld images, but %s has %lld labels", images_path,
                   (long long)images[0], labels_path, (long long)labels[0]);
  set->count = images[0];
  set->shape[0] = 1, set->shape[1] = images[1], set->shape[2] = images[2];
  set->pixels = set->memory[0], set->pixel_stride = (size_t)ac_image_set_pixels(set);
  set->labels = set->memory[1], set->label_stride = 1;
  for (int64_t i = 0; i < set->count && set->labels; i++)
    if (set->labels[i] >= set->classes) set->classes = set->labels[i] + 1;
  return AC_OK;
}

static ac_status load_pair(ac_image_set **set, const char *images_path, const char *labels_path) {
  AC_TRY(ac_image_set_create(set, images_path));
  ac_status status = load_files(*set, images_path, labels_path);
  if (status == AC_OK) return AC_OK;
  ac_image_set_release(*set);
  *set = NULL;
  return status;
}

ac_status ac_dataset_from_idx(ac_dataset **dataset, const char *images_path,
                              const char *labels_path, int64_t begin, int64_t end) {
  AC_CREATES(dataset);
  AC_REQUIRE(images_path);
  ac_image_set *set;
  AC_TRY(load_pair(&set, images_path, labels_path));
  ac_status status = ac_image_set_cut(dataset, set, images_path, begin, end);
  ac_image_set_release(set);
  return status;
}

/* ---- a folder with MNIST's file names -------------------------------------------------------- */

/* The same file as it was published and as it is called once archives have been unpacked. */
typedef const char *const spellings[2];
static spellings train_images = {"train-images-idx3-ubyte", "train-images.idx3-ubyte"};
static spellings train_labels = {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"};
static spellings test_images = {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"};
static spellings test_labels = {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"};

/* If no file is there, the path is that of the first. */
static ac_status find_spelling(ac_file_path path, const char *folder, spellings names,
                               bool *found) {
  AC_TRY(ac_find_file(path, folder, names[0], found));
  if (*found) return AC_OK;
  ac_file_path other;
  AC_TRY(ac_find_file(other, folder, names[1], found));
  if (*found) memcpy(path, other, sizeof other);
  return AC_OK;
}

/* Leaves *set NULL if neither the images nor the labels are there; one of them alone is an error,
 * which the reader reports by the name of the missing file. */
static ac_status load_from_folder(ac_image_set **set, const char *folder, spellings images_names,
                                  spellings labels_names) {
  ac_file_path images, labels;
  bool have_images = false, have_labels = false;
  AC_TRY(find_spelling(images, folder, images_names, &have_images));
  AC_TRY(find_spelling(labels, folder, labels_names, &have_labels));
  return have_images || have_labels ? load_pair(set, images, labels) : AC_OK;
}

ac_status ac_dataset_mnist_folder(ac_dataset **train, ac_dataset **validation, const char *folder) {
  AC_CREATES(train);
  if (validation) *validation = NULL;
  AC_REQUIRE(folder);
  ac_image_set *training = NULL, *validating = NULL;
  ac_status status = load_from_folder(&training, folder, train_images, train_labels);
  if (status == AC_OK) status = load_from_folder(&validating, folder, test_images, test_labels);
  if (status == AC_OK && !training && !validating)
    status = ac_fail(AC_ERROR_IO,
                     "%s holds neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor "
                     "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (plain or .gz)",
                     folder);
  if (status == AC_OK) status = ac_image_set_split(train, validation, folder, training, validating);
  ac_image_set_release(training);
  ac_image_set_release(validating);
  return status;
}
