/** @file
 * Reductions: results over axes of a tensor.
 *
 * Each takes a list of axes, written as AC_AXES(1, 2). A negative axis counts from the end: -1 is
 * the last one. Axes may come in any order, each once. AC_ALL_AXES are all axes but the batch. The
 * batch itself is refused: samples are added up by losses. With `keep` a reduced axis stays with
 * size 1, so that the result can be combined with x; otherwise it goes. If no axis is left, the
 * result is [1].
 *
 * Results are f32 in every precision. Sums run in an order that depends on the shape alone. */
#ifndef ACCRUE_REDUCTION_H
#define ACCRUE_REDUCTION_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @def AC_AXES
 * The two arguments `count, axes` of a reduction, in C and C++: `ac_sum(x, AC_AXES(-1), false)`.
 * The array lives as long as the call. */
#ifdef __cplusplus
extern "C++" {
template <int count> struct ac_axis_list {
  int axis[count];
  operator const int *() const { return axis; }
};
template <typename... T> ac_axis_list<static_cast<int>(sizeof...(T))> ac_axis_list_of(T... axis) {
  return {{static_cast<int>(axis)...}};
}
}
#define AC_AXES(...)                                                    \
  static_cast<int>(sizeof(ac_axis_list_of(__VA_ARGS__)) / sizeof(int)), \
      static_cast<const int *>(ac_axis_list_of(__VA_ARGS__))
#else
#define AC_AXES(...)                                                       \
  (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)), (const int[]) { \
    __VA_ARGS__                                                            \
  }
#endif
/** All axes but the batch, in the place of AC_AXES. */
#define AC_ALL_AXES 0, NULL

/** The sum of x over the axes. Its gradient is that of the result, for each element. */
AC_API ac_tensor *ac_sum(ac_tensor *x, int count, const int *axes, bool keep);
/** The mean of x over the axes: the sum, divided by the number of elements. */
AC_API ac_tensor *ac_mean(ac_tensor *x, int count, const int *axes, bool keep);

/** The largest x over the axes; NaN if there is one. Elements that are equal to it share its
 * gradient evenly, as in PyTorch's amax. */
AC_API ac_tensor *ac_max(ac_tensor *x, int count, const int *axes, bool keep);
/** The smallest x over the axes. The rest is as for ac_max. */
AC_API ac_tensor *ac_min(ac_tensor *x, int count, const int *axes, bool keep);

/** log(sum of e^x) over the axes, computed as m + log(sum of e^(x - m)) with the largest m, so that
 * large x do not overflow. If all x are -infinity, so is the result, and its gradient is 0. */
AC_API ac_tensor *ac_logsumexp(ac_tensor *x, int count, const int *axes, bool keep);

/** (sum of |x|^p)^(1/p) over the axes. p is at least 1; with INFINITY it is the largest |x|, and
 * the gradient is shared as for ac_max. 0: 2. Where the result is 0, its gradient is 0. Powers are
 * floats, as in PyTorch: with p = 2 elements below 1e-23 count for nothing, and elements above 1e19
 * make the result infinite. Scale x before if it has such ones. */
AC_API ac_tensor *ac_norm(ac_tensor *x, float p, int count, const int *axes, bool keep);

/** The mean of (x - mean)^2 over the axes; `unbiased` divides by n - 1 instead of n, and needs two
 * elements. Blocks of elements have means of their own, which are then joined, so nothing is lost
 * when the mean is large; Chan, Golub and LeVeque 1979. */
AC_API ac_tensor *ac_variance(ac_tensor *x, bool unbiased, int count, const int *axes, bool keep);

/** e^x / sum of e^x over an axis, which may be negative; ac_softmax is that over the last one. */
AC_API ac_tensor *ac_softmax_over(ac_tensor *x, int axis);
/** The logarithm of ac_softmax_over, x - logsumexp(x), without a detour by numbers near 0. */
AC_API ac_tensor *ac_log_softmax(ac_tensor *x, int axis);

/** y[j] = x[0] + ... + x[j] along an axis, which may be negative. */
AC_API ac_tensor *ac_cumulative_sum(ac_tensor *x, int axis);

/** Where the largest x along an axis is: i32 in [0, length of the axis), without a gradient. It is
 * the first one of several, and a NaN is larger than any number. The axis stays with size 1 if
 * `keep` is set. The result may be an output, or the ids of another op if that has as many. */
AC_API ac_tensor *ac_argmax(ac_tensor *x, int axis, bool keep);

/** The k largest of the last dimension, [..., C] -> [..., k], the largest one first. *ids, unless
 * `ids` is NULL, is where they are in x: i32 [..., k]. Of equal elements the first one comes first,
 * and a NaN is larger than any number. The gradient of a value is that of its element. */
AC_API ac_tensor *ac_top_k(ac_tensor *x, int64_t k, ac_tensor **ids);

#ifdef __cplusplus
}
#endif
#endif
