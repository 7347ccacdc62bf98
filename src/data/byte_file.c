/* gzip data is a row of members, each with a header and a checksum; zlib inflates one after the
 * other. zlib's own gzread stops without a word at bytes that begin no member, so that half of a
 * damaged file would be taken for all of it. Zeros at the end are padding, as for gzip itself. */
#include "data/byte_file.h"

#include "core/error.h"
#include "core/format.h"
#include "core/platform/files.h"
#include "core/platform/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 1 << 17, START = 4096, GZIP_WINDOW = 15 + 16 };

/* The place in gzip data: within a member, or where the next one may begin. */
typedef enum place { PLAIN, MEMBER, BETWEEN } place;

struct ac_byte_file {
  FILE *stream;
  char *path;
  z_stream inflater;
  place place;
  uint64_t file_bytes;
  uint8_t *next; /* in the block: what was not taken yet */
  size_t left;
  size_t started; /* bytes in `start` */
  uint8_t start[START], block[BLOCK];
};

/* ---- memory ---------------------------------------------------------------------------------- */

static ac_status too_large(const char *path, uint64_t left) {
  char text[32];
  return ac_fail(AC_ERROR_MEMORY, "%s is too large: this machine has %s of memory left for data",
                 path, ac_format_bytes(text, sizeof text, left));
}

/* Makes room for more bytes, doubling up to `limit`. */
static ac_status grow(ac_bytes *bytes, uint64_t limit, const char *path) {
  const uint64_t left = ac_memory_left(), more = bytes->capacity ? bytes->capacity : 1u << 16;
  uint64_t capacity = bytes->capacity + (more < left ? more : left);
  if (capacity > limit) capacity = limit;
  if (capacity <= bytes->capacity) return too_large(path, left);
  uint8_t *grown = capacity < SIZE_MAX ? realloc(bytes->data, (size_t)capacity) : NULL;
  if (!grown)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for %llu bytes", path,
                   (unsigned long long)capacity);
  bytes->data = grown;
  bytes->capacity = (size_t)capacity;
  return AC_OK;
}

void ac_bytes_shrink(ac_bytes *bytes) {
  uint8_t *smaller = bytes->count ? realloc(bytes->data, bytes->count) : NULL;
  if (!smaller) return;
  bytes->data = smaller;
  bytes->capacity = bytes->count;
}

/* ---- opening --------------------------------------------------------------------------------- */

static ac_status fill(ac_byte_file *file) {
  file->next = file->block;
  file->left = fread(file->block, 1, BLOCK, file->stream);
  if (file->left || !ferror(file->stream)) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
}

static ac_status begin(ac_byte_file *file, const char *path, ac_unzip unzip) {
  file->path = malloc(strlen(path) + 1);
  if (!file->path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", path);
  strcpy(file->path, path);
  AC_TRY(ac_file_open(&file->stream, path, true));
  file->file_bytes = ac_file_bytes(file->stream);
  AC_TRY(fill(file));
  if (unzip == AC_AS_IT_IS ||
      ac_format_by_magic(file->next, file->left, file->file_bytes, NULL) != AC_FORMAT_GZIP)
    return AC_OK;
  if (inflateInit2(&file->inflater, GZIP_WINDOW) != Z_OK)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory to unzip it", path);
  file->place = MEMBER;
  return AC_OK;
}

ac_status ac_byte_file_open(ac_byte_file **file, const char *path, ac_unzip unzip) {
  *file = NULL;
  ac_byte_file *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", path);
  memset(made, 0, offsetof(ac_byte_file, start));
  const ac_status status = begin(made, path, unzip);
  if (status == AC_OK) *file = made;
  else ac_byte_file_close(made);
  return status;
}

void ac_byte_file_close(ac_byte_file *file) {
  if (!file) return;
  if (file->place != PLAIN) inflateEnd(&file->inflater);
  if (file->stream) fclose(file->stream);
  free(file->path);
  free(file);
}

const char *ac_byte_file_path(const ac_byte_file *file) {
  return file->path;
}

/* ---- reading --------------------------------------------------------------------------------- */

static ac_status corrupt(const ac_byte_file *file, const char *how) {
  return ac_fail(AC_ERROR_FORMAT, "%s: its gzip data is %s", file->path, how);
}

/* After a member: *ended, or the next one begins. */
static ac_status next_member(ac_byte_file *file, bool *ended) {
  do {
    if (!file->left) AC_TRY(fill(file));
    for (; file->left && !*file->next; file->left--) file->next++;
    *ended = !file->left && feof(file->stream);
  } while (!file->left && !*ended);
  if (*ended) return AC_OK;
  if (*file->next != 0x1f) return corrupt(file, "followed by bytes that are not gzip data");
  inflateReset(&file->inflater);
  file->place = MEMBER;
  return AC_OK;
}

static ac_status inflate_some(ac_byte_file *file, uint8_t *data, size_t wanted, size_t *got) {
  z_stream *z = &file->inflater;
  if (!file->left) AC_TRY(fill(file));
  if (!file->left) return corrupt(file, "truncated");
  const uInt piece = wanted < (1u << 30) ? (uInt)wanted : 1u << 30;
  z->next_in = file->next;
  z->avail_in = (uInt)file->left;
  z->next_out = data;
  z->avail_out = piece;
  const int result = inflate(z, Z_NO_FLUSH);
  file->next = z->next_in;
  file->left = z->avail_in;
  *got = piece - z->avail_out;
  if (result == Z_STREAM_END) file->place = BETWEEN;
  else if (result == Z_MEM_ERROR)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory to unzip it", file->path);
  else if (result != Z_OK && result != Z_BUF_ERROR) return corrupt(file, "corrupt");
  return AC_OK;
}

static ac_status copy_some(ac_byte_file *file, uint8_t *data, size_t wanted, size_t *got,
                           bool *ended) {
  if (!file->left && wanted >= BLOCK) { /* not by way of the block */
    *got = fread(data, 1, wanted, file->stream);
    *ended = !*got;
    if (*got || !ferror(file->stream)) return AC_OK;
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  }
  if (!file->left) AC_TRY(fill(file));
  *ended = !file->left;
  *got = wanted < file->left ? wanted : file->left;
  memcpy(data, file->next, *got);
  file->next += *got;
  file->left -= *got;
  return AC_OK;
}

ac_status ac_byte_file_read(ac_byte_file *file, void *data, size_t wanted, size_t *got) {
  bool ended = false;
  *got = 0;
  while (*got < wanted && !ended) {
    uint8_t *to = (uint8_t *)data + *got;
    size_t some = 0;
    if (file->place == PLAIN) AC_TRY(copy_some(file, to, wanted - *got, &some, &ended));
    else if (file->place == BETWEEN) AC_TRY(next_member(file, &ended));
    else AC_TRY(inflate_some(file, to, wanted - *got, &some));
    *got += some;
  }
  if (file->started < START && *got) {
    const size_t kept = *got < START - file->started ? *got : START - file->started;
    memcpy(file->start + file->started, data, kept);
    file->started += kept;
  }
  return AC_OK;
}

/* A plain file says its size beforehand, so that it is refused before much of it was read. */
static ac_status check_size(const ac_byte_file *file, const ac_bytes *bytes, uint64_t limit) {
  const uint64_t left = ac_memory_left();
  if (file->place != PLAIN || file->file_bytes <= left || limit - bytes->count <= left)
    return AC_OK;
  return too_large(file->path, left);
}

ac_status ac_byte_file_append(ac_byte_file *file, ac_bytes *bytes, uint64_t limit) {
  if (bytes->count < limit) AC_TRY(check_size(file, bytes, limit));
  while (bytes->count < limit) {
    if (bytes->count == bytes->capacity) AC_TRY(grow(bytes, limit, file->path));
    size_t wanted = bytes->capacity - bytes->count, got;
    if (wanted > limit - bytes->count) wanted = (size_t)(limit - bytes->count);
    AC_TRY(ac_byte_file_read(file, bytes->data + bytes->count, wanted, &got));
    bytes->count += got;
    if (got < wanted) break;
  }
  return AC_OK;
}

const char *ac_byte_file_format(ac_byte_file *file) {
  const char *name = NULL;
  uint8_t more[START];
  size_t got;
  (void)ac_byte_file_read(file, more, sizeof more, &got);
  ac_format_of(file->start, file->started, file->place == PLAIN ? file->file_bytes : 0, &name);
  return name;
}

/* ---- folders --------------------------------------------------------------------------------- */

ac_status ac_find_file(ac_file_path path, const char *folder, const char *name, bool *found) {
  for (int gzip = 1; gzip >= 0; gzip--) {
    ac_file_path candidate;
    int length = snprintf(candidate, sizeof candidate, "%s/%s%s", folder, name, gzip ? ".gz" : "");
    if (length < 0 || (size_t)length >= sizeof candidate)
      return ac_fail(AC_ERROR_ARGUMENT, "the folder's path is longer than a path may be");
    bool there = ac_is_there(candidate);
    if (there || (!gzip && !*found)) memcpy(path, candidate, sizeof candidate);
    *found = *found || there;
  }
  return AC_OK;
}
