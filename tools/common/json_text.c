#include "common/json_text.h"

#include "common/message.h"
#include "common/replacement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *json_text(const json_t *json, size_t flags) {
  const size_t length = json_dumpb(json, NULL, 0, flags);
  char *text = length ? malloc(length + 1) : NULL;
  if (!text) return NULL;
  text[length] = 0;
  if (json_dumpb(json, text, length, flags) == length) return text;
  free(text);
  return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Writes a number with as few digits as needed to read the same number again: jansson's 17 digits
 * show 0.90000000000000002 for 0.9. Returns its length. */
static size_t shorten_number(const char *from, size_t length, char *to) {
  char number[64], best[64];
  if (length >= sizeof number) return 0;
  memcpy(number, from, length);
  number[length] = 0;
  const double value = strtod(number, NULL);
  int digits = 1;
  do snprintf(best, sizeof best, "%.*g", digits, value);
  while (strtod(best, NULL) != value && ++digits <= 17);
  char *exponent = strchr(best, 'e'), *sign = exponent ? exponent + 1 : NULL;
  if (sign) { /* e-05 is e-5, e+20 is e20 */
    char *digits_of = sign + (*sign == '-' || *sign == '+');
    memmove(sign + (*sign == '-'), digits_of + strspn(digits_of, "0"),
            strlen(digits_of + strspn(digits_of, "0")) + 1);
  }
  if (!strpbrk(best, ".e")) strcat(best, ".0"); /* which tells it from a whole number */
  if (strlen(best) > length) return 0;
  memcpy(to, best, strlen(best));
  return strlen(best);
}

/* Shortens all numbers with a point or an exponent, in place; texts stay. */
static void shorten(char *text) {
  char *to = text;
  for (const char *at = text; *at;) {
    const size_t length = strspn(at, "+-.0123456789eE");
    const bool real = (*at == '-' || (*at >= '0' && *at <= '9')) && strcspn(at, ".eE") < length;
    const size_t shorter = real ? shorten_number(at, length, to) : 0;
    size_t taken = real ? length : 1;
    if (*at == '"')
      for (; at[taken] && at[taken] != '"'; taken++) taken += at[taken] == '\\' && at[taken + 1];
    if (*at == '"') taken++;
    if (!shorter) memmove(to, at, taken);
    to += shorter ? shorter : taken;
    at += taken;
  }
  *to = 0;
}

char *json_text_short(const json_t *json, size_t flags) {
  char *text = json_text(json, flags);
  if (text) shorten(text);
  return text;
}

/* ---- files ----------------------------------------------------------------------------------- */

bool json_text_put(const json_t *json, size_t flags, FILE *stream) {
  errno = ENOMEM;
  char *text = json_text(json, flags);
  const bool good = text && fputs(text, stream) >= 0 && fputc('\n', stream) != EOF;
  const int error = errno;
  free(text);
  errno = error;
  return good;
}

/* The length of the UTF-8 character at `text`, as jansson judges it. 0: there is none. */
static size_t character_at(const char *text) {
  for (size_t length = 1; length <= 4 && text[length - 1]; length++) {
    json_t *character = json_stringn(text, length);
    json_decref(character);
    if (character) return length;
  }
  return 0;
}

json_t *json_text_name(const char *text) {
  json_t *whole = json_string(text);
  char *fixed = whole ? NULL : malloc(3 * strlen(text) + 1), *to = fixed;
  if (!fixed) return whole;
  while (*text) {
    const size_t length = character_at(text);
    if (length) memcpy(to, text, length);
    else memcpy(to, "\xef\xbf\xbd", 3);
    to += length ? length : 3;
    text += length ? length : 1;
  }
  *to = 0;
  whole = json_string(fixed);
  free(fixed);
  return whole;
}

int json_text_replace(const json_t *json, size_t flags, const char *path) {
  replacement file;
  errno = ENOMEM;
  char *text = json ? json_text_short(json, flags) : NULL;
  bool good = text && replacement_open(&file, path);
  if (good && !replacement_write(&file, text)) {
    replacement_abandon(&file);
    good = false;
  } else if (good) good = replacement_commit(&file);
  const int error = errno;
  free(text);
  return good ? STATUS_CONTINUE : fail("cannot write %s: %s", path, strerror(error));
}
