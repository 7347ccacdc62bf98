#include "io/checksum.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *ac_checksum_digits(char *header, const char *key) {
  char text[64];
  snprintf(text, sizeof text, "\"%s\":\"", key);
  char *found = strstr(header, text);
  return found ? found + strlen(text) : NULL;
}

uint64_t ac_header_checksum(const unsigned char prefix[8], char *header, size_t length) {
  static const char zeros[AC_CHECKSUM_DIGITS + 1] = "0000000000000000";
  char kept[AC_CHECKSUM_DIGITS];
  XXH3_state_t state;
  char *digits = ac_checksum_digits(header, AC_HEADER_CHECKSUM);
  bool whole = digits && !memchr(digits, 0, sizeof kept);
  if (whole) {
    memcpy(kept, digits, sizeof kept);
    memcpy(digits, zeros, sizeof kept);
  }
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, prefix, 8);
  XXH3_64bits_update(&state, header, length);
  if (whole) memcpy(digits, kept, sizeof kept);
  return XXH3_64bits_digest(&state);
}
