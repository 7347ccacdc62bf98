/* upsample_nearest2d: y[p,i,j] = x[p,i/f,j/f] for planes of width `width` x f; gradient: dx[p,i,j]
 * (+)= sum of dy over the square of f x f that the pixel became. Planes follow each other without a
 * gap, so their rows are numbered on. One work-item an element of y or dx, groups of GROUP. Dtypes:
 * storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void upsample_nearest2d(const global storage *x, global storage *y,
                                                    long n, long width, long factor) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, width * factor), column = e - row * width * factor;
  store(y, e, load(x, quotient(row, factor) * width + quotient(column, factor)));
}

kernel WORK_GROUP(GROUP, 1) void upsample_nearest2d_gradient(const global storage *dy,
                                                             global storage *dx, long n, long width,
                                                             long factor, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, width), column = e - row * width;
  float sum = 0;
  for (size_t r = 0; r < factor; r++)
    for (size_t t = 0; t < factor; t++)
      sum += load(dy, ((row * factor + r) * width + column) * factor + t);
  store(dx, e, add ? load(dx, e) + sum : sum);
}
