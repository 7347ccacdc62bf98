/* Characters of UTF-8, and what Unicode says of them (utf8proc). */
#ifndef AC_TEXT_UNICODE_H
#define AC_TEXT_UNICODE_H

#include "core/error.h"

#include <stdint.h>

/* U+FFFD */
#define AC_REPLACEMENT "\xef\xbf\xbd"

/* Bytes of the character that begins with this byte, in text that is UTF-8. */
static inline size_t ac_utf8_length(char first) {
  const unsigned char c = (unsigned char)first;
  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* The character at `at`, in text that is UTF-8; *length: its bytes. */
static inline uint32_t ac_utf8_get(const char *at, size_t *length) {
  const unsigned char *c = (const unsigned char *)at;
  *length = ac_utf8_length(*at);
  switch (*length) {
  case 1:
    return c[0];
  case 2:
    return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
  case 3:
    return (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
  default:
    return (c[0] & 0x07u) << 18 | (c[1] & 0x3fu) << 12 | (c[2] & 0x3fu) << 6 | (c[3] & 0x3fu);
  }
}

/* Writes the character; returns its bytes, 4 at most. */
size_t ac_utf8_put(char *to, uint32_t character);

/* How many of the bytes are UTF-8 from the beginning on. *wrong gets the length of what follows and
 * is not: the longest part of a character, or one byte; 0 at the end. */
size_t ac_utf8_valid(const char *text, size_t count, size_t *wrong);

/* Unicode's White_Space. */
bool ac_is_space(uint32_t character);
/* Marks of category Mn, or also of Mc and Me. */
bool ac_is_mark(uint32_t character, bool spacing_too);
/* Controls as BERT's tokenizer removes them: categories Cc, Cf and Co, but not tab, newline and
 * return. */
bool ac_is_control(uint32_t character);
/* CJK ideographs as BERT's tokenizer has them. */
bool ac_is_ideograph(uint32_t character);
uint32_t ac_lower(uint32_t character);

typedef enum ac_normal_form { AC_NFC, AC_NFD, AC_NFKC, AC_NFKD } ac_normal_form;

/* Whether a normal form treats what is before this character apart from what begins with it. */
bool ac_begins_cluster(uint32_t character, ac_normal_form form);
/* Whether the character, alone, is its own normal form. */
bool ac_is_normal(uint32_t character, ac_normal_form form);
/* The normal form of some characters. free() frees it. */
ac_status ac_normalise(char **result, size_t *length, const char *text, size_t count,
                       ac_normal_form form);

/* The bytes of the grapheme that text begins with. */
size_t ac_grapheme_length(const char *text, size_t count);

#endif
