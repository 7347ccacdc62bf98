/* Where elements of operands lie. */
#ifndef AC_BACKEND_CPU_ELEMENT_H
#define AC_BACKEND_CPU_ELEMENT_H

#include <accrue/base.h>

/* ac_dtype_bytes of an operand's type without a call, which in an inner loop would cost more than
 * what is done to the element. */
_Static_assert(AC_DTYPE_COUNT == 6, "a new dtype");
static inline size_t ac_element_bytes(ac_dtype dtype) {
  return dtype == AC_U8 ? 1 : dtype == AC_F16 || dtype == AC_BF16 ? 2 : dtype == AC_I64 ? 8 : 4;
}

/* The address of an operand's element. It is computed with integers, because `base` may be a
 * shifted handle, outside its object. */
static inline void *ac_element(const void *base, ac_dtype dtype, int64_t index) {
  return (void *)((uintptr_t)base + (uintptr_t)index * ac_element_bytes(dtype));
}

#endif
