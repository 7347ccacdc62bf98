/* Whole numbers in files, the lowest byte first. */
#ifndef AC_CORE_LITTLE_ENDIAN_H
#define AC_CORE_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

/* Of at most 8 bytes. */
static inline uint64_t ac_little_endian(const unsigned char *data, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)data[i] << 8 * i;
  return value;
}

#endif
