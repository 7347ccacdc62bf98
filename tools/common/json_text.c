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

bool json_text_put(const json_t *json, size_t flags, FILE *stream) {
  errno = ENOMEM;
  char *text = json_text(json, flags);
  const bool good = text && fputs(text, stream) >= 0 && fputc('\n', stream) != EOF;
  const int error = errno;
  free(text);
  errno = error;
  return good;
}

/* How many bytes at `text` are a whole character, which jansson judges. 0: none are. */
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
  char *text = json ? json_text(json, flags) : NULL;
  bool good = text && replacement_open(&file, path);
  if (good && !replacement_write(&file, text)) {
    replacement_abandon(&file);
    good = false;
  } else if (good) good = replacement_commit(&file);
  const int error = errno;
  free(text);
  return good ? STATUS_CONTINUE : fail("cannot write %s: %s", path, strerror(error));
}
