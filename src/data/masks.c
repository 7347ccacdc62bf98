/* Masks of pictures as they are read, and boxes as they go through datasets. */
#include <accrue/masks.h>

#include "core/error.h"
#include "core/platform/files.h"
#include "data/dataset.h"
#include "data/picture_geometry.h"
#include "data/pictures.h"

#include <math.h>
#include <stdio.h>

/* ---- files ----------------------------------------------------------------------------------- */

static ac_status check_size(const ac_picture_entry *entry, int64_t width, int64_t height) {
  const int64_t wide = entry->turned ? entry->height : entry->width,
                high = entry->turned ? entry->width : entry->height;
  if (width == wide && height == high) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s is a mask of %lld x %lld pixels, and its picture %s has %lld x %lld",
                 entry->mask, (long long)width, (long long)height, entry->path, (long long)wide,
                 (long long)high);
}

ac_status ac_mask_read(const ac_picture_entry *entry, ac_picture_buffer *bytes,
                       ac_picture_buffer *pixels, ac_picture_buffer *turned, const uint8_t **mask) {
  ac_picture_file file = {.path = entry->mask};
  ac_picture_info info;
  uint64_t all;
  AC_TRY(ac_picture_read_file(file.path, UINT64_MAX, bytes, &file.bytes, &all));
  file.data = bytes->data;
  AC_TRY(ac_picture_inspect(&file, &info));
  if (info.format != AC_PICTURE_PNG)
    return ac_fail(AC_ERROR_FORMAT, "%s is not a PNG picture, as masks are", file.path);
  const bool turns = info.orientation > 4;
  AC_TRY(check_size(entry, turns ? info.height : info.width, turns ? info.width : info.height));
  const uint64_t count = (uint64_t)(info.width * info.height);
  AC_TRY(ac_picture_buffer_grow(pixels, count, file.path));
  AC_TRY(ac_png_decode_mask(&file, &info, pixels->data));
  *mask = pixels->data;
  if (info.orientation == 1) return AC_OK;
  AC_TRY(ac_picture_buffer_grow(turned, count, file.path));
  ac_picture_orient(pixels->data, info.width, info.height, 1, info.orientation, turned->data);
  *mask = turned->data;
  return AC_OK;
}

static ac_status measure(ac_picture_entry *entry) {
  FILE *stream;
  const ac_status status = ac_file_open(&stream, entry->mask, false);
  if (status == AC_ERROR_MEMORY) return status;
  if (status != AC_OK)
    return ac_fail(AC_ERROR_FORMAT, "%s has no mask: there is no %s that can be read", entry->path,
                   entry->mask);
  entry->mask_bytes = ac_file_bytes(stream);
  fclose(stream);
  return AC_OK;
}

ac_status ac_mask_inspect(ac_picture_entry *entry, int64_t classes, ac_picture_buffer *file,
                          ac_picture_buffer *pixels, ac_picture_buffer *turned) {
  const uint8_t *mask;
  AC_TRY(measure(entry));
  AC_TRY(ac_mask_read(entry, file, pixels, turned, &mask));
  entry->largest = -1;
  for (int64_t i = 0; i < (int64_t)entry->width * entry->height; i++)
    if (mask[i] > entry->largest && mask[i] != AC_MASK_IGNORED) entry->largest = mask[i];
  if (!classes || entry->largest < classes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s has pixels of class %d; the classes are 0 to %lld, and %d",
                 entry->mask, (int)entry->largest, (long long)(classes - 1), (int)AC_MASK_IGNORED);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

ac_status ac_dataset_trace(const ac_dataset *dataset, const ac_sample_key *key, ac_polygon *p) {
  if (!dataset->trace)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "masks: boxes are followed through pictures, their augmentation and their "
                   "parts; this dataset is of another kind");
  return dataset->trace(dataset->user, key, p);
}

static void put_bounds(const ac_polygon *p, float *box) {
  double least[2] = {0}, most[2] = {0};
  for (int i = 0; i < p->count; i++)
    for (int axis = 0; axis < 2; axis++) {
      const double at = p->corner[i][axis];
      if (!i || at < least[axis]) least[axis] = at;
      if (!i || at > most[axis]) most[axis] = at;
    }
  const bool seen = most[0] > least[0] && most[1] > least[1];
  for (int axis = 0; axis < 2; axis++) {
    box[axis] = seen ? (float)least[axis] : 0;
    box[2 + axis] = seen ? (float)most[axis] : 0;
  }
}

ac_status ac_dataset_map_boxes(const ac_dataset *dataset, const ac_sample_key *key, int64_t count,
                               const float *boxes, float *mapped) {
  AC_REQUIRE(dataset, key);
  if (count) AC_REQUIRE(boxes, mapped);
  if (key->index < 0 || key->index >= dataset->count)
    return ac_fail(AC_ERROR_ARGUMENT, "masks: there is no sample %lld", (long long)key->index);
  for (int64_t i = 0; i < count; i++) {
    const double left = (double)boxes[4 * i], top = (double)boxes[4 * i + 1],
                 right = (double)boxes[4 * i + 2], bottom = (double)boxes[4 * i + 3];
    if (!isfinite(left + top + right + bottom) || right < left || bottom < top)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "masks: box %lld from (%g, %g) to (%g, %g) is not a rectangle", (long long)i,
                     left, top, right, bottom);
    ac_polygon p = {.count = 4,
                    .corner = {{left, top}, {right, top}, {right, bottom}, {left, bottom}}};
    AC_TRY(ac_dataset_trace(dataset, key, &p));
    put_bounds(&p, mapped + 4 * i);
  }
  return AC_OK;
}
