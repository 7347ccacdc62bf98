#include "common/base64.h"

char *base64_text(const uint8_t *data, size_t bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc(bytes / 3 * 4 + 5), *to = text;
  if (!text) return NULL;
  for (size_t i = 0; i < bytes; i += 3) {
    const size_t left = bytes - i;
    const uint32_t bits = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                          (left > 2 ? data[i + 2] : 0);
    for (size_t d = 0; d < 4; d++) *to++ = d > left ? '=' : digits[bits >> (18 - 6 * d) & 63];
  }
  *to = '\0';
  return text;
}
