/* Pictures of another size: Pillow's antialiased filters, equal to the bit, so that weights of
 * models that were trained on its pictures keep their accuracy. */
#ifndef AC_IMAGE_RESAMPLE_H
#define AC_IMAGE_RESAMPLE_H

#include <accrue/pictures.h>

/* A rectangle of a picture is made width x height; `left` and `top` say where in that the result
 * lies, which is as large as the last two fields. */
typedef struct ac_resampling {
  ac_picture_filter filter;
  int channels;                                     /* 1 or 3 */
  int64_t from_width, from_height;                  /* the whole picture */
  int64_t box_left, box_top, box_width, box_height; /* the rectangle; it is all that is looked at */
  int64_t width, height;                            /* what it becomes */
  int64_t left, top, result_width, result_height;   /* what is wanted of that */
} ac_resampling;

/* Bytes of `room`. */
uint64_t ac_resample_room(const ac_resampling *r);

/* `room` is aligned to 8 bytes. */
void ac_resample(const ac_resampling *r, const uint8_t *from, void *room, uint8_t *to);

#endif
