/* Whole numbers: the smaller, the larger, and quotients rounded up. */
#ifndef AC_CORE_INTEGERS_H
#define AC_CORE_INTEGERS_H

#include <stdint.h>

static inline int64_t ac_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t ac_larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline uint64_t ac_smaller_bytes(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static inline uint64_t ac_larger_bytes(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}
/* a not negative, b positive. */
static inline int64_t ac_ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

#endif
