#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t ac_utf8_put(char *to, uint32_t character) {
  return (size_t)utf8proc_encode_char((utf8proc_int32_t)character, (utf8proc_uint8_t *)to);
}

/* The first byte allows only some second bytes; later ones are all 10xxxxxx (table 3-7 of the
 * Unicode standard). */
static size_t valid_part(const unsigned char *text, size_t count, bool *whole) {
  const unsigned char first = text[0];
  const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  *whole = length == 1;
  if (length == 1 || first < 0xc2 || first > 0xf4 || count < 2) return 1;
  const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (text[1] < least || text[1] > most) return 1;
  size_t part = 2;
  while (part < length && part < count && (text[part] & 0xc0) == 0x80) part++;
  *whole = part == length;
  return part;
}

size_t ac_utf8_valid(const char *text, size_t count, size_t *wrong) {
  const unsigned char *at = (const unsigned char *)text;
  size_t valid = 0;
  while (valid < count) {
    bool whole;
    const size_t part = valid_part(at + valid, count - valid, &whole);
    *wrong = part;
    if (!whole) return valid;
    valid += part;
  }
  *wrong = 0;
  return valid;
}

bool ac_is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool ac_is_mark(uint32_t c, bool spacing_too) {
  const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
  return category == UTF8PROC_CATEGORY_MN ||
         (spacing_too && (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
}

bool ac_is_control(uint32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool ac_is_ideograph(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

uint32_t ac_lower(uint32_t c) {
  return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

static int options_of(ac_normal_form form) {
  const int decompose = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
  switch (form) {
  case AC_NFC:
    return UTF8PROC_COMPOSE | UTF8PROC_STABLE;
  case AC_NFD:
    return decompose;
  case AC_NFKC:
    return UTF8PROC_COMPOSE | UTF8PROC_STABLE | UTF8PROC_COMPAT;
  default:
    return decompose | UTF8PROC_COMPAT;
  }
}

/* The second of a pair that composes: by utf8proc's table, or a vowel or final of Hangul. */
static bool composes_backwards(uint32_t c) {
  const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
  if (c >= 0x1161 && c <= 0x11ff) return true;
  return property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
}

static bool starts(uint32_t c) {
  return utf8proc_get_property((utf8proc_int32_t)c)->combining_class == 0 && !composes_backwards(c);
}

bool ac_begins_cluster(uint32_t c, ac_normal_form form) {
  if (c < 0x80) return true;
  if (utf8proc_get_property((utf8proc_int32_t)c)->decomp_seqindex == UINT16_MAX) return starts(c);
  utf8proc_int32_t parts[32];
  int last = UTF8PROC_BOUNDCLASS_START;
  const int options = options_of(form == AC_NFC ? AC_NFD : form == AC_NFKC ? AC_NFKD : form);
  const utf8proc_ssize_t count =
      utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, (utf8proc_option_t)options, &last);
  return count > 0 && starts((uint32_t)parts[0]);
}

bool ac_is_normal(uint32_t c, ac_normal_form form) {
  (void)form;
  if (c < 0x80) return true;
  const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
  const bool syllable = c >= 0xac00 && c <= 0xd7a3; /* decomposed by arithmetic */
  return property->decomp_seqindex == UINT16_MAX && !syllable;
}

/* Marks in a row in the order of their combining classes, as a normal form has them. utf8proc sorts
 * by insertion: in the square of the time, if they are many and in another order. */
static void sort_marks(utf8proc_int32_t *characters, utf8proc_int32_t *room, size_t count) {
  size_t places[257] = {0};
  for (size_t i = 0; i < count; i++)
    places[utf8proc_get_property(characters[i])->combining_class + 1]++;
  for (int class = 0; class < 256; class ++) places[class + 1] += places[class];
  for (size_t i = 0; i < count; i++)
    room[places[utf8proc_get_property(characters[i])->combining_class]++] = characters[i];
  memcpy(characters, room, count * sizeof *room);
}

/* The text with such rows in order; free() frees it. NULL: there is no memory. */
static char *order_marks(const char *text, size_t count, size_t *length) {
  utf8proc_int32_t *characters = malloc(2 * (count + 1) * sizeof *characters);
  char *ordered = malloc(count + 1);
  size_t total = 0, bytes;
  for (size_t at = 0; characters && at < count; at += bytes)
    characters[total++] = (utf8proc_int32_t)ac_utf8_get(text + at, &bytes);
  for (size_t i = 0, end; characters && i < total; i = end + 1) {
    for (end = i; end < total && utf8proc_get_property(characters[end])->combining_class;) end++;
    if (end > i) sort_marks(characters + i, characters + count + 1, end - i);
  }
  *length = 0;
  for (size_t i = 0; characters && ordered && i < total; i++)
    *length += ac_utf8_put(ordered + *length, (uint32_t)characters[i]);
  if (!characters) free(ordered);
  free(characters);
  return characters ? ordered : NULL;
}

static ac_status map(char **result, size_t *length, const char *text, size_t count,
                     ac_normal_form form) {
  utf8proc_uint8_t *made;
  const utf8proc_ssize_t bytes =
      utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)count, &made,
                   (utf8proc_option_t)options_of(form));
  if (bytes < 0) return ac_fail(AC_ERROR_MEMORY, "tokenizer: %s", utf8proc_errmsg(bytes));
  *result = (char *)made;
  *length = (size_t)bytes;
  return AC_OK;
}

ac_status ac_normalise(char **result, size_t *length, const char *text, size_t count,
                       ac_normal_form form) {
  enum { FEW = 64 };
  if (count <= FEW) return map(result, length, text, count, form);
  size_t bytes;
  char *ordered = order_marks(text, count, &bytes);
  if (!ordered) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu marks", count);
  const ac_status status = map(result, length, ordered, bytes, form);
  free(ordered);
  return status;
}

size_t ac_grapheme_length(const char *text, size_t count) {
  size_t at, length;
  uint32_t before = ac_utf8_get(text, &length);
  utf8proc_int32_t state = 0;
  for (at = length; at < count; at += length) {
    const uint32_t next = ac_utf8_get(text + at, &length);
    if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)next, &state))
      break;
    before = next;
  }
  return at;
}
