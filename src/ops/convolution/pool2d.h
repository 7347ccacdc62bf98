#ifndef AC_OPS_POOL2D_H
#define AC_OPS_POOL2D_H

#include "ops/arguments.h"

/* Height first, then width, all resolved. A padding is at most half of its kernel, and each patch
 * has an element of the image. A patch may reach beyond the padding after the image; what lies
 * there does not count. Where the kernel is 0, patch i of n is [floor(i size / n), ceil((i + 1)
 * size / n)).
 */
typedef struct ac_pool2d_attributes {
  int32_t kernel[2], stride[2];
  int32_t padding[2], after[2]; /* before the image, and after it */
  int32_t skip_padding;         /* averages are of elements of the image alone */
} ac_pool2d_attributes;

/* Elements that count in a patch that begins at `origin` and has those from `begin` to before `end`
 * of the image, along axis i of a size. */
static inline int64_t ac_pool2d_counted(const ac_pool2d_attributes *a, int i, int64_t size,
                                        int64_t origin, int64_t begin, int64_t end) {
  const int64_t whole = origin + a->kernel[i], padded = size + a->after[i];
  if (!a->kernel[i] || a->skip_padding) return end - begin;
  return (whole < padded ? whole : padded) - origin;
}

/* Whether not all patches have as many elements that count. */
static inline bool ac_pool2d_is_uneven(const ac_pool2d_attributes *a, const ac_operand *x,
                                       const ac_operand *y) {
  for (int i = 0; i < 2; i++) {
    const int64_t origin = (y->dim[2 + i] - 1) * a->stride[i] - a->padding[i];
    const int64_t after = a->skip_padding ? 0 : a->after[i];
    if (!a->kernel[i] || (a->skip_padding && a->padding[i]) ||
        origin + a->kernel[i] > x->dim[2 + i] + after)
      return true;
  }
  return false;
}

/* Whether each plane of x has one patch, which is the plane: without padding, that is, which would
 * shift it. */
static inline bool ac_pool2d_is_of_planes(const ac_pool2d_attributes *a, const ac_operand *x,
                                          const ac_operand *y) {
  bool one = y->dim[2] * y->dim[3] == 1, padded = a->padding[0] || a->padding[1];
  return one && !padded && a->kernel[0] == x->dim[2] && a->kernel[1] == x->dim[3];
}

#endif
