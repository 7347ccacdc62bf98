/* What is drawn for a sample of pictures, and done to it. */
#ifndef AC_IMAGE_CHANGE_H
#define AC_IMAGE_CHANGE_H

#include "image/colour.h"

#include <accrue/pictures.h>

/* Fills in defaults and refuses what makes no sense. */
ac_status ac_picture_changes_complete(ac_picture_changes *changes);

/* A rectangle of a picture. */
typedef struct ac_picture_box {
  int64_t left, top, width, height;
} ac_picture_box;

/* The rectangle of a random crop. */
ac_picture_box ac_picture_draw_crop(const ac_picture_changes *changes, const ac_sample_key *key,
                                    int64_t width, int64_t height);

/* All but the crop. `room` has as many bytes as the picture. */
void ac_picture_change(const ac_picture_changes *changes, const ac_sample_key *key,
                       const ac_pixels *pixels, uint8_t *room);

enum { AC_PICTURE_MOST_OPERATIONS = 16 /* of RandAugment */ };

/* How ac_picture_change moves the pixels of a sample: one transformation (ac_picture_transform)
 * after the other. */
typedef struct ac_picture_moves {
  int count;
  double m[AC_PICTURE_MOST_OPERATIONS + 1][6];
} ac_picture_moves;
void ac_picture_draw_moves(const ac_picture_changes *changes, const ac_sample_key *key,
                           int64_t width, int64_t height, ac_picture_moves *drawn);

/* ---- for tests ------------------------------------------------------------------------------- */

typedef enum ac_picture_operation {
  AC_OPERATION_IDENTITY,
  AC_OPERATION_SHEAR_X,
  AC_OPERATION_SHEAR_Y,
  AC_OPERATION_TRANSLATE_X,
  AC_OPERATION_TRANSLATE_Y,
  AC_OPERATION_ROTATE,
  AC_OPERATION_BRIGHTNESS,
  AC_OPERATION_SATURATION,
  AC_OPERATION_CONTRAST,
  AC_OPERATION_SHARPNESS,
  AC_OPERATION_POSTERIZE,
  AC_OPERATION_SOLARIZE,
  AC_OPERATION_AUTOCONTRAST,
  AC_OPERATION_EQUALIZE,
  AC_OPERATIONS
} ac_picture_operation;

/* With torchvision's meaning of `magnitude` for each. */
void ac_picture_operate(ac_picture_operation operation, double magnitude, const ac_pixels *pixels,
                        uint8_t *room);

#endif
