/* Follows the table of RFC 3629: the first byte says how many follow, and these are all 10xxxxxx. A
 * character with more bytes than it needs, a surrogate, or one above U+10FFFF is not allowed. A
 * text that ends within a character is found by its 0, which cannot follow a first byte.
 */
#include "core/utf8.h"

#include <stdint.h>

/* Bytes that follow the first one, and the least that they may encode; -1: no character begins so.
 */
static int length_of(unsigned char first, uint32_t *value, uint32_t *least) {
  static const uint32_t leasts[] = {0, 0x80, 0x800, 0x10000};
  const int length = first < 0x80             ? 0
                     : (first & 0xe0) == 0xc0 ? 1
                     : (first & 0xf0) == 0xe0 ? 2
                     : (first & 0xf8) == 0xf0 ? 3
                                              : -1;
  if (length < 0) return -1;
  *value = length ? first & (0x3fu >> length) : first;
  *least = leasts[length];
  return length;
}

bool ac_is_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at) {
    uint32_t value, least;
    const int length = length_of(*at++, &value, &least);
    if (length < 0) return false;
    for (int i = 0; i < length; i++, at++) {
      if ((*at & 0xc0) != 0x80) return false;
      value = value << 6 | (*at & 0x3fu);
    }
    if (value < least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return false;
  }
  return true;
}
