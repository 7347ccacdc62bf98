#include "common/json_file.h"

#include "common/file.h"

#include <accrue/format.h>
#include <string.h>
#include <sys/stat.h>

/* As Jansson reports it: the kind of error is the last byte of the sentence. */
static json_t *not_loaded(json_error_t *error, enum json_error_code code) {
  error->text[sizeof error->text - 1] = (char)code;
  return NULL;
}

static json_t *not_opened(json_error_t *error, const char *path, const char *why) {
  *error = (json_error_t){.line = -1};
  snprintf(error->text, sizeof error->text - 1, "cannot read %s: %s", path, why);
  return not_loaded(error, json_error_cannot_open_file);
}

static json_t *too_large(json_error_t *error) {
  *error = (json_error_t){.line = 1};
  snprintf(error->text, sizeof error->text - 1, "it has more than 64 MiB");
  return not_loaded(error, json_error_invalid_format);
}

/* Replaces Jansson's message about a file that is not JSON at all. */
static void name_format(FILE *file, uint64_t bytes, json_error_t *error) {
  unsigned char start[4096];
  rewind(file);
  const size_t count = fread(start, 1, sizeof start, file);
  const char *name = ac_format_name(start, count, bytes);
  if (!name || !strcmp(name, "JSON")) return;
  *error = (json_error_t){.line = 1};
  snprintf(error->text, sizeof error->text - 1, "it is %s, not JSON", name);
  not_loaded(error, json_error_invalid_format);
}

json_t *json_file_load(const char *path, size_t flags, json_error_t *error) {
  enum { MOST_BYTES = 64 << 20 };
  json_error_t ignored;
  struct stat info;
  const char *why;
  if (!error) error = &ignored;
  FILE *file = file_try(path, &why);
  if (!file) return not_opened(error, path, why);
  json_t *json = NULL;
  if (fstat(fileno(file), &info) != 0 || info.st_size > MOST_BYTES) too_large(error);
  else if (!(json = json_loadf(file, flags, error)))
    name_format(file, (uint64_t)info.st_size, error);
  fclose(file);
  return json;
}
