/** @file
 * Movement: ops that put elements elsewhere, without changing them.
 *
 * Those that say "f32 or i32" also take integers, such as ids: a batch of tokens can be cut into
 * what goes in and what is to come out. Integers that are moved keep the checks of ids. An input
 * that they come from is checked, when it is fed, against the smallest limit of all that uses a
 * part of it.
 *
 * An axis may be negative: it counts from the end, and -1 is the last one. Lists of axes are
 * written as AC_AXES(0, 2, 1). The batch is the first axis, and stays there. */
#ifndef ACCRUE_MOVEMENT_H
#define ACCRUE_MOVEMENT_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shapes ---------------------------------------------------------------------------------- */

/** The same elements with another shape. Nothing is copied. One dimension may be 0: it is computed
 * from the others. Only the leading dimension may be symbolic. */
AC_API ac_tensor *ac_reshape(ac_tensor *x, int rank, const int64_t *shape);

/** x with its axes in another order: axis d of the result is axis axes[d] of x. `axes` lists all of
 * them, each once. With a batch, the first one is 0. x is f32 or i32.
 *
 *     [B, C, H, W]   ->   ac_permute(x, AC_AXES(0, 2, 3, 1)) is [B, H, W, C] */
AC_API ac_tensor *ac_permute(ac_tensor *x, int count, const int *axes);

/** Swaps two axes. Neither may be the batch. x is f32 or i32. */
AC_API ac_tensor *ac_transpose(ac_tensor *x, int axis_a, int axis_b);

/** x repeated to a larger shape, as in NumPy: from the last dimension backwards, a dimension of x
 * is that of the shape, or it is 1 or absent and is repeated. A dimension of 0 stays as it is in x.
 * The shape may begin with the batch; x that has none is then repeated for each sample. Its
 * gradient is the sum over the repetitions. Functions of elements repeat their operands anyway, and
 * take this op into them. */
AC_API ac_tensor *ac_expand(ac_tensor *x, int rank, const int64_t *shape);

/* ---- parts ----------------------------------------------------------------------------------- */

/** Tensors side by side along an axis that is not the batch. `count` is 1 or more. Their other
 * dimensions are equal. All are f32, or all i32. */
AC_API ac_tensor *ac_concat(ac_graph *graph, ac_tensor *const *parts, int count, int axis);

/** Tensors of one shape along a new axis: that of the result, where -1 is the one after all axes
 * of the parts. It is not the batch. All are f32, or all i32. */
AC_API ac_tensor *ac_stack(ac_graph *graph, ac_tensor *const *parts, int count, int axis);

/** The elements [first, first + length) of an axis that is not the batch. x is f32 or i32. */
AC_API ac_tensor *ac_slice(ac_tensor *x, int axis, int64_t first, int64_t length);

/** `length` elements of an axis that is not the batch: first, first + step, first + 2 step, and so
 * on. The step is not 0, and may be negative. x is f32 or i32. */
AC_API ac_tensor *ac_slice_step(ac_tensor *x, int axis, int64_t first, int64_t length,
                                int64_t step);

/** Cuts x into `count` parts along an axis that is not the batch. sizes[i] is the length of
 * parts[i]; `sizes` NULL: all are equal. The sizes add up to that of the axis. If it fails, as all
 * builders do, all parts are NULL. x is f32 or i32. */
AC_API void ac_split(ac_tensor *x, int axis, int count, const int64_t *sizes, ac_tensor **parts);

/** x backwards along these axes; none is the batch. AC_ALL_AXES are all but the batch. x
 * is f32 or i32. */
AC_API ac_tensor *ac_flip(ac_tensor *x, int count, const int *axes);

/** What ac_pad puts around x. */
typedef enum ac_pad_mode {
  AC_PAD_VALUE = 0, /**< A value. */
  AC_PAD_REFLECT,   /**< x as in a mirror: of 1 2 3, by two on each side, 3 2 1 2 3 2 1. */
  AC_PAD_EDGE       /**< The outermost element, again and again: 1 1 1 2 3 3 3. */
} ac_pad_mode;

/** Settings of padding. */
typedef struct ac_pad_desc {
  int64_t
      before[AC_MAX_RANK];    /**< How many elements before each axis of x, the first axis first. */
  int64_t after[AC_MAX_RANK]; /**< How many after it. */
  ac_pad_mode mode;           /**< What they are. */
  float value;                /**< For AC_PAD_VALUE. */
} ac_pad_desc;

/** x [...] with more elements on any side of any axis but the batch. With AC_PAD_REFLECT it can be
 * less than the size of the axis on each side. The gradient of an element that was repeated is the
 * sum over all places where it is. */
AC_API ac_tensor *ac_pad(ac_tensor *x, const ac_pad_desc *desc);

/* ---- images ---------------------------------------------------------------------------------- */

/** [B, C factor^2, H, W] -> [B, C, factor H, factor W]: the channels of a pixel become a square of
 * pixels; arXiv 1609.05158. Element (c, factor h + i, factor w + j) is element
 * (factor^2 c + factor i + j, h, w) of x. */
AC_API ac_tensor *ac_pixel_shuffle(ac_tensor *x, int factor);
/** The inverse: [B, C, factor H, factor W] -> [B, C factor^2, H, W]. */
AC_API ac_tensor *ac_pixel_unshuffle(ac_tensor *x, int factor);

/* ---- gradients ------------------------------------------------------------------------------- */

/** x itself, but nothing that is computed from the result gives x a gradient. Nothing is copied. */
AC_API ac_tensor *ac_stop_gradient(ac_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
