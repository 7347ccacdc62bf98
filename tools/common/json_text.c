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
