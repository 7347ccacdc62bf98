/* SentencePiece's table of what characters become: a double array (Aoe, 1989; as in Darts) of byte
 * strings, each with the place of its replacement, and the replacements, each with a 0 after it. A
 * file has it in base64. */
#ifndef AC_TEXT_CHARSMAP_H
#define AC_TEXT_CHARSMAP_H

#include "core/error.h"

#include <stdint.h>

typedef struct ac_charsmap {
  uint32_t *units; /* NULL: there is none */
  char *texts;
  size_t unit_count, text_bytes;
} ac_charsmap;

ac_status ac_charsmap_read(ac_charsmap *map, const char *base64);
ac_status ac_charsmap_read_bytes(ac_charsmap *map, const unsigned char *bytes, size_t count);
void ac_charsmap_free(ac_charsmap *map);

/* What the shortest of the table's strings that the text begins with becomes; NULL: there is none.
 */
const char *ac_charsmap_find(const ac_charsmap *map, const char *text, size_t count);
/* The same of the longest one; *length gets its bytes. */
const char *ac_charsmap_longest(const ac_charsmap *map, const char *text, size_t count,
                                size_t *length);
/* Whether one of the strings begins with this byte. */
bool ac_charsmap_begins(const ac_charsmap *map, unsigned char byte);

#endif
