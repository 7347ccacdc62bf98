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

#ifdef __cplusplus
}
#endif
#endif
