#include "data/byte_file.h"

#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- memory ---------------------------------------------------------------------------------- */

ac_status ac_bytes_grow(ac_bytes *bytes, uint64_t limit, const char *path) {
  size_t capacity = bytes->capacity ? 2 * bytes->capacity : (size_t)1 << 16;
  if (capacity > limit) capacity = (size_t)limit;
  uint8_t *grown = capacity > bytes->capacity ? realloc(bytes->data, capacity) : NULL;
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for %zu bytes", path, capacity);
  bytes->data = grown;
  bytes->capacity = capacity;
  return AC_OK;
}

void ac_bytes_shrink(ac_bytes *bytes) {
  uint8_t *smaller = bytes->count ? realloc(bytes->data, bytes->count) : NULL;
  if (!smaller) return;
  bytes->data = smaller;
  bytes->capacity = bytes->count;
}

/* ---- files ----------------------------------------------------------------------------------- */

ac_status ac_byte_file_open(ac_byte_file *file, const char *path) {
  errno = 0;
  *file = (ac_byte_file){.stream = gzopen(path, "rb"), .path = path};
  if (!file->stream)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path,
                   errno ? strerror(errno) : "out of memory");
  gzbuffer(file->stream, 1u << 17);
  return AC_OK;
}

void ac_byte_file_close(ac_byte_file *file) {
  gzclose(file->stream);
  file->stream = NULL;
}

ac_status ac_byte_file_read(ac_byte_file *file, void *data, size_t wanted, size_t *got) {
  *got = 0;
  while (*got < wanted) {
    size_t left = wanted - *got;
    unsigned piece = left < (1u << 30) ? (unsigned)left : 1u << 30;
    int count = gzread(file->stream, (char *)data + *got, piece);
    int error = Z_OK;
    if (count <= 0) gzerror(file->stream, &error);
    if (error == Z_ERRNO)
      return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
    if (count < 0) return ac_fail(AC_ERROR_FORMAT, "%s: its gzip data is corrupt", file->path);
    if (error == Z_BUF_ERROR)
      return ac_fail(AC_ERROR_FORMAT, "%s: its gzip data is truncated", file->path);
    if (count == 0) break;
    *got += (size_t)count;
  }
  return AC_OK;
}

ac_status ac_byte_file_append(ac_byte_file *file, ac_bytes *bytes, uint64_t limit) {
  while (bytes->count < limit) {
    if (bytes->count == bytes->capacity) AC_TRY(ac_bytes_grow(bytes, limit, file->path));
    size_t wanted = bytes->capacity - bytes->count, got;
    if (wanted > limit - bytes->count) wanted = (size_t)(limit - bytes->count);
    AC_TRY(ac_byte_file_read(file, bytes->data + bytes->count, wanted, &got));
    bytes->count += got;
    if (got < wanted) break;
  }
  return AC_OK;
}

/* ---- folders --------------------------------------------------------------------------------- */

/* A file that exists but cannot be opened counts as there: reading it then says why it cannot. */
static bool is_there(const char *path) {
  FILE *stream = fopen(path, "rb");
  if (stream) fclose(stream);
  return stream || errno != ENOENT;
}

ac_status ac_find_file(ac_file_path path, const char *folder, const char *name, bool *found) {
  for (int gzip = 1; gzip >= 0; gzip--) {
    ac_file_path candidate;
    int length = snprintf(candidate, sizeof candidate, "%s/%s%s", folder, name, gzip ? ".gz" : "");
    if (length < 0 || (size_t)length >= sizeof candidate)
      return ac_fail(AC_ERROR_ARGUMENT, "the folder's path is longer than a path may be");
    bool there = is_there(candidate);
    if (there || (!gzip && !*found)) memcpy(path, candidate, sizeof candidate);
    *found = *found || there;
  }
  return AC_OK;
}
