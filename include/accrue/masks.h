/** @file
 * Masks and boxes of pictures: what is where in a picture, for segmentation and detection.
 *
 * A mask is a PNG file as large as its picture. A pixel's class is its place in the palette or, in
 * a grey file, its level. Pixels of the class AC_MASK_IGNORED count for nothing.
 *
 * ac_pictures_open lists pictures with their masks (ac_pictures_desc.masks).
 * ac_dataset_from_pictures then makes samples with the fields "images" and "masks". The mask goes
 * through the geometry of its picture: crops, mirrors, turns, sizes. ac_dataset_map_boxes takes
 * boxes through the same. */
#ifndef ACCRUE_MASKS_H
#define ACCRUE_MASKS_H

#include <accrue/pictures.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

enum {
  /** The class of pixels that count for nothing, such as borders that nobody could tell. Pixels of
   * a sample that come from outside of its picture have it as well. It is the `ignore_index` for
   * ac_cross_entropy and ac_class_iou. */
  AC_MASK_IGNORED = 255
};

/** The path of a picture's mask. NULL if the list has no masks, or no such picture. */
AC_API const char *ac_pictures_mask(const ac_pictures *pictures, int64_t index);

/** Width and height of a picture in pixels, turned as its EXIF orientation says. Fails with
 * AC_ERROR_ARGUMENT if there is no such picture. */
AC_API ac_status ac_pictures_size(const ac_pictures *pictures, int64_t index, int64_t *width,
                                  int64_t *height);

/** Takes boxes through the geometry of a sample: where they are in the picture becomes where they
 * are in the sample that is read with the same key. `boxes` and `mapped` are [count, 4]: left, top,
 * right, bottom, in pixels from the upper left corner; pixel i of a row is from i to i + 1. Boxes
 * are those of the picture as it is seen, turned as its EXIF orientation says.
 *
 * A box that is turned or sheared becomes the smallest upright box around what the sample shows of
 * it. A box that the sample does not show becomes four zeros. `mapped` may be `boxes`.
 *
 * The dataset is one of ac_dataset_from_pictures, or ac_dataset_augmented, ac_dataset_slice,
 * ac_dataset_fold or ac_dataset_shard of such a dataset; others are refused with
 * AC_ERROR_UNSUPPORTED. Fails with AC_ERROR_ARGUMENT if the key's index is out of range, or if a
 * number is not finite or right is less than left, or bottom less than top. */
AC_API ac_status ac_dataset_map_boxes(const ac_dataset *dataset, const ac_sample_key *key,
                                      int64_t count, const float *boxes, float *mapped);

/** Takes a mask of sample `index` back to its picture: `mask` [height, width] of the sample,
 * `restored` [height, width] of the picture (ac_pictures_size). Each pixel of the picture has the
 * class of the sample's pixel that shows it, or AC_MASK_IGNORED if none does.
 *
 * The dataset is one of ac_dataset_from_pictures without random changes; others are refused with
 * AC_ERROR_UNSUPPORTED. Fails with AC_ERROR_ARGUMENT if there is no such sample. */
AC_API ac_status ac_dataset_restore_mask(const ac_dataset *dataset, int64_t index,
                                         const uint8_t *mask, uint8_t *restored);

/** Writes a mask [height, width] as a PNG file with a palette: the colours of the Pascal VOC data,
 * so that classes can be told apart by eye. It can be read as a mask again. Fails as
 * ac_picture_write_png does. */
AC_API ac_status ac_mask_write_png(const char *path, int64_t width, int64_t height,
                                   const uint8_t *mask);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
