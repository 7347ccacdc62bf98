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
#include <accrue/reduction.h>

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

/* ---- by ids ---------------------------------------------------------------------------------- */

/* Ids are i32, and below the length of what they pick from. Those that are fed out of range are
 * refused when they are fed; those that other ops compute, when the op is built. */

/** What ids pick along an axis that is not the batch. `ids` have the axes of x before this one, and
 * then one more: an id picks the row of all that follows the axis. Or they have the axes that
 * follow as well: each element has an id of its own, as in PyTorch's gather.
 *
 *     x [B, N, C], ids [B, E]        axis 1: [B, E, C], rows x[b, ids[b, e], :]
 *     x [B, N, C], ids [B, E, C]     axis 1: [B, E, C], elements x[b, ids[b, e, c], c]
 *     x [B, T, V], ids [B, T, n]     axis 2: [B, T, n], elements x[b, t, ids[b, t, n]]
 *
 * x is f32 or i32. Its gradient is summed as ac_scatter_add does. */
AC_API ac_tensor *ac_gather(ac_tensor *x, ac_tensor *ids, int axis);

/** The rows x[..., ids[n], ...] of an axis that is not the batch: the same ones for every sample.
 * `ids` are [n], without the batch: a constant, or an input of one value for all samples. x is f32
 * or i32. */
AC_API ac_tensor *ac_index_select(ac_tensor *x, ac_tensor *ids, int axis);

/** Adds up values by id: element id of the result is the sum of the values that have this id, and 0
 * if none has. The result is like `values`, but has `length` elements along the axis, which is not
 * the batch. `ids` are as for ac_gather: [B, E] for rows of values [B, E, C] along axis 1, or
 * [B, E, C]. Sums are in f32 in every precision, in the order of the values.
 *
 *     messages [B, E, C], ids [B, E]     axis 1, length N: [B, N, C] */
AC_API ac_tensor *ac_scatter_add(ac_tensor *values, ac_tensor *ids, int axis, int64_t length);

/** A row for each id, with 1 at this place and 0 elsewhere: [...] -> [..., classes], f32. */
AC_API ac_tensor *ac_one_hot(ac_tensor *ids, int64_t classes);

/** What ac_embedding_bag makes of the rows of a bag. */
typedef enum ac_bag_mode {
  AC_BAG_SUM = 0, /**< Their sum. */
  AC_BAG_MEAN,    /**< Their mean. */
  AC_BAG_MAX      /**< The largest of each column. */
} ac_bag_mode;

/** Settings of an embedding bag. */
typedef struct ac_embedding_bag_desc {
  ac_bag_mode mode; /**< What becomes of the rows. */
} ac_embedding_bag_desc;

/** One row for each bag of ids: table [V, C], ids [..., L] -> [..., C]. `lengths`, i32 [...], says
 * how many ids of each bag count, from the first one on; NULL: all. A bag of none gives zeros.
 * `weights`, f32 [..., L], are factors of the rows, with AC_BAG_SUM alone; NULL: 1. They have a
 * gradient. `desc` may be NULL. */
AC_API ac_tensor *ac_embedding_bag(ac_tensor *table, ac_tensor *ids, ac_tensor *lengths,
                                   ac_tensor *weights, const ac_embedding_bag_desc *desc);

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
