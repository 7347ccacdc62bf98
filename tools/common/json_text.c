#include "common/json_text.h"

#include <errno.h>
#include <stdlib.h>

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
