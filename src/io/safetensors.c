/* The order of bytes. */
#include "io/safetensors.h"

void ac_swap_to_little_endian(void *data, size_t count, size_t size) {
  static const uint16_t one = 1;
  unsigned char *bytes = data;
  if (*(const unsigned char *)&one) return;
  for (size_t i = 0; i < count; i++, bytes += size)
    for (size_t k = 0; k < size / 2; k++) {
      const unsigned char low = bytes[k];
      bytes[k] = bytes[size - 1 - k];
      bytes[size - 1 - k] = low;
    }
}
