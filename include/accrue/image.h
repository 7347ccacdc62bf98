/** @file
 * Images, [B, channels, height, width], of another size. */
#ifndef ACCRUE_IMAGE_H
#define ACCRUE_IMAGE_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a pixel of a resized image is made of. */
typedef enum ac_resize_kind {
  AC_RESIZE_NEAREST = 0, /**< One pixel: the one at the position, rounded down. */
  AC_RESIZE_BILINEAR,    /**< The two neighbours along each axis, by their distance. */
  AC_RESIZE_BICUBIC      /**< Four neighbours along each axis, by Keys' kernel with a = -3/4. */
} ac_resize_kind;

/** Settings of a resize. Height comes first, then width. An axis has a size or a factor; one
 * without either stays as it is. */
typedef struct ac_resize2d_desc {
  ac_resize_kind kind; /**< Which pixels. */
  int64_t size[2];     /**< Pixels of the result. */
  double factor[2];    /**< Or pixels of the result for one of x; the size is rounded down. */
  /** The pixels in the corners keep their places. Otherwise the edges of the images do, half a
   * pixel further out. Not for AC_RESIZE_NEAREST. */
  bool align_corners;
} ac_resize2d_desc;

/** x [B, C, H, W] in another size, [B, C, H', W'], without a filter before it is made smaller: the
 * values of PyTorch's interpolate. Neighbours beyond the edge are the pixels at the edge. */
AC_API ac_tensor *ac_resize2d(ac_tensor *x, const ac_resize2d_desc *desc);

/** Each pixel becomes a square of factor x factor: [B, C, factor * H, factor * W]. This is
 * ac_resize2d by that factor, with AC_RESIZE_NEAREST. */
AC_API ac_tensor *ac_upsample_nearest2d(ac_tensor *x, int factor);

#ifdef __cplusplus
}
#endif
#endif
