/* Where in a picture each pixel of a sample comes from, and back. A picture is resampled, which may
 * leave margins in the sample, and then moved (image/change.h). */
#ifndef AC_DATA_PICTURE_GEOMETRY_H
#define AC_DATA_PICTURE_GEOMETRY_H

#include <accrue/masks.h>

#include "image/change.h"
#include "image/resample.h"

typedef struct ac_picture_geometry {
  ac_resampling resampling;        /* of a picture as it is seen */
  int64_t width, height;           /* of the sample */
  int64_t margin_left, margin_top; /* where the result of resampling lies in it */
} ac_picture_geometry;

/* Of a picture of width x height, without and with what is drawn. */
ac_picture_geometry ac_picture_fit_whole(const ac_picture_samples *samples, int64_t width,
                                         int64_t height);
ac_picture_geometry ac_picture_arrange(const ac_picture_samples *samples, const ac_sample_key *key,
                                       int64_t width, int64_t height);

/* Moves the rows of a resampled picture to their place in the sample, in the same memory, and fills
 * the margins. */
void ac_picture_put_margins(const ac_picture_geometry *g, int channels, uint8_t fill,
                            uint8_t *pixels);

/* The sample's part of a mask, which is as large as the picture: the nearest pixels, their centres
 * compared. */
void ac_mask_resample(const ac_picture_geometry *g, const uint8_t *mask, uint8_t *sample);
/* From a mask of the sample to one of the picture. */
void ac_mask_restore(const ac_picture_geometry *g, const uint8_t *sample, uint8_t *mask);

/* ---- polygons -------------------------------------------------------------------------------- */

/* A convex one; cutting it by an upright rectangle adds at most four corners. A sample of pictures
 * is cut 18 times, and once more for each time it is augmented. */
enum { AC_MOST_CORNERS = 256 };
typedef struct ac_polygon {
  int count; /* 0: nothing is left */
  double corner[AC_MOST_CORNERS][2];
} ac_polygon;

/* What is left of it within a rectangle. */
void ac_polygon_cut(ac_polygon *p, double left, double top, double right, double bottom);
/* Each corner (x, y) becomes that for which (x, y) = (m0 u + m1 v + m2, m3 u + m4 v + m5). */
void ac_polygon_move(ac_polygon *p, const double m[6]);
/* Through a picture's geometry and what is drawn for its sample (NULL: nothing). */
void ac_polygon_trace(ac_polygon *p, const ac_picture_geometry *g,
                      const ac_picture_changes *changes, const ac_sample_key *key);

#endif
