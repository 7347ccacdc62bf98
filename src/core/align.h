/* Sizes rounded up to where the next thing may begin. */
#ifndef AC_CORE_ALIGN_H
#define AC_CORE_ALIGN_H

#include <stdint.h>

enum { AC_LINE_BYTES = 64 }; /* a cache line */

/* The least multiple of `alignment` that is at least `bytes`. */
static inline uint64_t ac_align(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

#endif
