/** @file
 * Convolutions, pools and upsampling.
 *
 * Images are [B, channels, height, width], lines [B, channels, length] and volumes [B, channels,
 * depth, height, width]. Kernels, strides and paddings are in this order. Values and shapes are as
 * PyTorch's.
 *
 * graph.h includes this header. */
#ifndef ACCRUE_CONVOLUTION_H
#define ACCRUE_CONVOLUTION_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolutions ---------------------------------------------------------------------------- */

/** Settings of ac_conv2d. Height comes first, then width. */
typedef struct ac_conv2d_desc {
  int stride[2];   /**< 0: 1. */
  int padding[2];  /**< Zeros on both sides. */
  int dilation[2]; /**< Distance between the kernel's elements. 0: 1. */
  int groups;      /**< Groups of channels, each convolved by itself. 0: 1. */
  /** So many zeros more below and to the right than `padding` says. Negative: fewer; if they are
   * fewer than none, elements of x are left out. */
  int more_padding[2];
  /** The result has the size of x: padding of dilation (k - 1) zeros in all, as many on both sides
   * or, if that is odd, one more below or to the right. Then strides are 1, and paddings 0 here. */
  bool same;
} ac_conv2d_desc;

/** Convolution (more precisely cross-correlation, as usual) of x [B, Ci, H, W] with weight
 * [Co, Ci / groups, kh, kw] and bias [Co] or NULL:
 *
 *     [B, Co, Ho, Wo]
 *     Ho = (H + 2 padding + more_padding - dilation (kh - 1) - 1) / stride + 1
 *
 * rounded down, and Wo likewise. Refused are groups that do not divide both numbers of channels,
 * and a kernel that is larger than the padded image. A depthwise convolution (as many groups as
 * channels) has kernels of its own, which memory limits. `desc` may be NULL. */
AC_API ac_tensor *ac_conv2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                            const ac_conv2d_desc *desc);

/** Settings of ac_conv1d: as those of ac_conv2d. */
typedef struct ac_conv1d_desc {
  int stride;       /**< 0: 1. */
  int padding;      /**< Zeros on both sides. */
  int dilation;     /**< Distance between the kernel's elements. 0: 1. */
  int groups;       /**< Groups of channels, each convolved by itself. 0: 1. */
  int more_padding; /**< So many zeros more at the end than at the beginning. */
  bool same;        /**< The result is as long as x. */
} ac_conv1d_desc;

/** Convolution of lines: x [B, Ci, L], weight [Co, Ci / groups, k], bias [Co] or NULL ->
 * [B, Co, Lo]. The same as ac_conv2d of images of height 1. */
AC_API ac_tensor *ac_conv1d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                            const ac_conv1d_desc *desc);

/** Settings of ac_conv3d: as those of ac_conv2d, with depth first. */
typedef struct ac_conv3d_desc {
  int stride[3];       /**< 0: 1. */
  int padding[3];      /**< Zeros on both sides. */
  int dilation[3];     /**< Distance between the kernel's elements. 0: 1. */
  int groups;          /**< Groups of channels, each convolved by itself. 0: 1. */
  int more_padding[3]; /**< So many zeros more after x than before it. */
  bool same;           /**< The result has the size of x. */
} ac_conv3d_desc;

/** Convolution of volumes: x [B, Ci, D, H, W], weight [Co, Ci / groups, kd, kh, kw], bias [Co] or
 * NULL -> [B, Co, Do, Ho, Wo], with sizes as for ac_conv2d. */
AC_API ac_tensor *ac_conv3d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                            const ac_conv3d_desc *desc);

/** Settings of ac_conv_transpose2d. Height comes first, then width. */
typedef struct ac_conv_transpose2d_desc {
  int stride[2];         /**< 0: 1. */
  int padding[2];        /**< What is cut off on both sides. */
  int dilation[2];       /**< Distance between the kernel's elements. 0: 1. */
  int groups;            /**< Groups of channels, each convolved by itself. 0: 1. */
  int output_padding[2]; /**< Rows and columns more; fewer than the stride or the dilation. */
} ac_conv_transpose2d_desc;

/** Transposed convolution of x [B, Ci, H, W] with weight [Ci, Co / groups, kh, kw] and bias [Co] or
 * NULL: the gradient with respect to the input of a convolution with this weight, used forward. It
 * makes images larger:
 *
 *     [B, Co, Ho, Wo]
 *     Ho = (H - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1
 *
 * and Wo likewise. Refused are groups that do not divide the channels of x, and a result without
 * rows or columns. `desc` may be NULL. As torch.nn.functional.conv_transpose2d. */
AC_API ac_tensor *ac_conv_transpose2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                                      const ac_conv_transpose2d_desc *desc);

/** Settings of ac_conv_transpose1d: as those of ac_conv_transpose2d. */
typedef struct ac_conv_transpose1d_desc {
  int stride;         /**< 0: 1. */
  int padding;        /**< What is cut off on both sides. */
  int dilation;       /**< Distance between the kernel's elements. 0: 1. */
  int groups;         /**< Groups of channels, each convolved by itself. 0: 1. */
  int output_padding; /**< Elements more; fewer than the stride or the dilation. */
} ac_conv_transpose1d_desc;

/** Transposed convolution of lines: x [B, Ci, L], weight [Ci, Co / groups, k], bias [Co] or NULL ->
 * [B, Co, Lo]. */
AC_API ac_tensor *ac_conv_transpose1d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                                      const ac_conv_transpose1d_desc *desc);

/* ---- pools ----------------------------------------------------------------------------------- */

/** Settings of ac_max_pool2d and ac_average_pool2d. Height comes first, then width. */
typedef struct ac_pool2d_desc {
  int kernel[2];       /**< Size of a patch. */
  int stride[2];       /**< Distance between patches. 0: the kernel's size. */
  int padding[2];      /**< On both sides; at most half the kernel. */
  int more_padding[2]; /**< So much more below and to the right. In all it is at most half of the
                            kernel there as well. */
  bool ceil;           /**< Numbers of patches are rounded up: the last one may be cut off, but it
                            begins within x or before it. */
  bool skip_padding;   /**< Averages are of elements of x alone. */
} ac_pool2d_desc;

/** The largest element of each patch:
 *
 *     [B, C, Ho, Wo]   with Ho = (H + 2 padding + more_padding - kernel) / stride + 1
 *
 * rounded down, or up with `ceil`, and Wo likewise. Padding is never the largest. Among equal
 * largest elements the first one, in row-major order, gets the gradient. */
AC_API ac_tensor *ac_max_pool2d(ac_tensor *x, const ac_pool2d_desc *desc);
/** The average of each patch. Shapes are as for ac_max_pool2d. Padding counts as zeros, unless
 * `skip_padding` is set; what a patch has beyond the padding does not count. */
AC_API ac_tensor *ac_average_pool2d(ac_tensor *x, const ac_pool2d_desc *desc);

/** Settings of ac_max_pool1d and ac_average_pool1d: as those of images. */
typedef struct ac_pool1d_desc {
  int kernel;        /**< Size of a patch. */
  int stride;        /**< Distance between patches. 0: the kernel's size. */
  int padding;       /**< On both sides; at most half the kernel. */
  int more_padding;  /**< So much more at the end. */
  bool ceil;         /**< The number of patches is rounded up. */
  bool skip_padding; /**< Averages are of elements of x alone. */
} ac_pool1d_desc;

/** The largest element of each patch of a line: [B, C, L] -> [B, C, Lo]. */
AC_API ac_tensor *ac_max_pool1d(ac_tensor *x, const ac_pool1d_desc *desc);
/** The average of each patch of a line: [B, C, L] -> [B, C, Lo]. */
AC_API ac_tensor *ac_average_pool1d(ac_tensor *x, const ac_pool1d_desc *desc);

/** Settings of ac_max_pool3d and ac_average_pool3d: as those of images, with depth first. */
typedef struct ac_pool3d_desc {
  int kernel[3];       /**< Size of a patch. */
  int stride[3];       /**< Distance between patches. 0: the kernel's size. */
  int padding[3];      /**< On both sides; at most half the kernel. */
  int more_padding[3]; /**< So much more after x than before it. */
  bool ceil;           /**< Numbers of patches are rounded up. */
  bool skip_padding;   /**< Averages are of elements of x alone. */
} ac_pool3d_desc;

/** The largest element of each patch of a volume: [B, C, D, H, W] -> [B, C, Do, Ho, Wo]. Planes are
 * pooled first, and then across the planes: these are two ops. */
AC_API ac_tensor *ac_max_pool3d(ac_tensor *x, const ac_pool3d_desc *desc);
/** The average of each patch of a volume: [B, C, D, H, W] -> [B, C, Do, Ho, Wo], by two ops. In 16
 * bits the averages of planes are rounded as well. */
AC_API ac_tensor *ac_average_pool3d(ac_tensor *x, const ac_pool3d_desc *desc);

/** The largest element of each of so many patches that cover x, [B, C, ...] with one to three
 * `axes` of positions: patch i of n of an axis has the elements from i size / n, rounded down, to
 * before (i + 1) size / n, rounded up. 0: as many as there are. For example
 * `ac_adaptive_max_pool(x, AC_SHAPE(7, 7))` of images. */
AC_API ac_tensor *ac_adaptive_max_pool(ac_tensor *x, int axes, const int64_t *outputs);
/** The averages of the patches of ac_adaptive_max_pool. */
AC_API ac_tensor *ac_adaptive_average_pool(ac_tensor *x, int axes, const int64_t *outputs);

/** The largest element of each channel: [B, C, ...] -> [B, C]. */
AC_API ac_tensor *ac_global_max_pool(ac_tensor *x);
/** The average of each channel: [B, C, ...] -> [B, C]. */
AC_API ac_tensor *ac_global_average_pool(ac_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
