#include "text/charsmap.h"
#include "core/little_endian.h"

#include "text/room.h"

/* Bytes of a string of the table and of what it becomes; known ones have about ten. */
enum { MOST_OF_STRING = 1024 };

static int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* `to` has room for 3 bytes for each 4 digits. Returns how many bytes there are, or -1. */
static int64_t decode_base64(unsigned char *to, const char *text) {
  size_t length = strlen(text), made = 0;
  while (length && text[length - 1] == '=') length--;
  uint32_t bits = 0;
  for (size_t i = 0; i < length; i++) {
    const int digit = digit_of(text[i]);
    if (digit < 0) return -1;
    bits = bits << 6 | (uint32_t)digit;
    if (i % 4 != 3) continue;
    to[made++] = (unsigned char)(bits >> 16);
    to[made++] = (unsigned char)(bits >> 8);
    to[made++] = (unsigned char)bits;
  }
  if (length % 4 == 1) return -1;
  if (length % 4 == 2) to[made++] = (unsigned char)(bits >> 4);
  if (length % 4 == 3) {
    to[made++] = (unsigned char)(bits >> 10);
    to[made++] = (unsigned char)(bits >> 2);
  }
  return (int64_t)made;
}

static bool has_long_text(const char *texts, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const size_t length = strlen(texts + at); /* a 0 follows the last one */
    if (length > MOST_OF_STRING) return true;
    at += length + 1;
  }
  return false;
}

static ac_status take_apart(ac_charsmap *map, const unsigned char *bytes, int64_t count) {
  const ac_status wrong =
      ac_fail(AC_ERROR_FORMAT, "precompiled_charsmap is not a table of characters");
  if (count < 4) return wrong;
  const uint32_t table = (uint32_t)ac_little_endian(bytes, 4);
  if (table % 4 || !table || (int64_t)table > count - 4) return wrong;
  map->unit_count = table / 4;
  map->text_bytes = (size_t)count - 4 - table;
  map->units = malloc(table);
  map->texts = malloc(map->text_bytes + 1);
  if (!map->units || !map->texts)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a table of characters");
  for (size_t i = 0; i < map->unit_count; i++)
    map->units[i] = (uint32_t)ac_little_endian(bytes + 4 + 4 * i, 4);
  memcpy(map->texts, bytes + 4 + table, map->text_bytes);
  map->texts[map->text_bytes] = 0;
  if (!has_long_text(map->texts, map->text_bytes)) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "precompiled_charsmap has a text of more than %d bytes",
                 MOST_OF_STRING);
}

ac_status ac_charsmap_read(ac_charsmap *map, const char *base64) {
  *map = (ac_charsmap){0};
  unsigned char *bytes = malloc(strlen(base64) + 4);
  if (!bytes) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a table of characters");
  const ac_status status = take_apart(map, bytes, decode_base64(bytes, base64));
  free(bytes);
  if (status != AC_OK) ac_charsmap_free(map);
  return status;
}

ac_status ac_charsmap_read_bytes(ac_charsmap *map, const unsigned char *bytes, size_t count) {
  *map = (ac_charsmap){0};
  const ac_status status = take_apart(map, bytes, (int64_t)count);
  if (status != AC_OK) ac_charsmap_free(map);
  return status;
}

void ac_charsmap_free(ac_charsmap *map) {
  free(map->units);
  free(map->texts);
  *map = (ac_charsmap){0};
}

/* A unit has its byte, whether a string ends below it, and where its children are; a leaf has the
 * place of the replacement. */
static size_t children_of(uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Goes down by a byte from where the children of a unit are. False: there is no such string. */
static bool go_down(const ac_charsmap *map, size_t *at, unsigned char byte, uint32_t *unit) {
  *at ^= byte;
  if (!byte || *at >= map->unit_count) return false;
  *unit = map->units[*at];
  if ((*unit & (1u << 31 | 0xff)) != byte) return false;
  *at ^= children_of(*unit);
  return *at < map->unit_count;
}

/* What the string that ends at this unit becomes; NULL: none ends there. */
static const char *replacement(const ac_charsmap *map, size_t at, uint32_t unit) {
  const uint32_t place = map->units[at] & 0x7fffffff;
  return (unit >> 8 & 1) && place < map->text_bytes ? map->texts + place : NULL;
}

const char *ac_charsmap_find(const ac_charsmap *map, const char *text, size_t count) {
  size_t at = children_of(map->units[0]);
  uint32_t unit;
  if (count > MOST_OF_STRING) count = MOST_OF_STRING;
  for (size_t i = 0; i < count && go_down(map, &at, (unsigned char)text[i], &unit); i++)
    if (unit >> 8 & 1) return replacement(map, at, unit);
  return NULL;
}

const char *ac_charsmap_longest(const ac_charsmap *map, const char *text, size_t count,
                                size_t *length) {
  size_t at = children_of(map->units[0]);
  const char *found = NULL;
  uint32_t unit;
  if (count > MOST_OF_STRING) count = MOST_OF_STRING; /* units may be a circle */
  for (size_t i = 0; i < count && go_down(map, &at, (unsigned char)text[i], &unit); i++) {
    const char *by = replacement(map, at, unit);
    if (!by) continue;
    found = by;
    *length = i + 1;
  }
  return found;
}

bool ac_charsmap_begins(const ac_charsmap *map, unsigned char byte) {
  size_t at = children_of(map->units[0]);
  uint32_t unit;
  return go_down(map, &at, byte, &unit);
}
