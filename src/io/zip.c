/* The directory of a zip archive. It is at the end of the file:
 *
 *   entries     each a header of 30 bytes, its name, extra fields, and its bytes
 *   directory   for each entry 46 bytes, its name, extra fields and a comment
 *   its end     22 bytes, with the number of entries and where the directory is, and a comment.
 *               Where these do not fit into 16 or 32 bits they are in an end of 56 bytes, to which
 *               20 bytes before the other one lead (zip64); in the directory, in an extra field.
 *
 * Each length is checked against the file's. */
#include "io/zip.h"

#include "core/error.h"
#include "core/little_endian.h"
#include "core/quote.h"
#include "core/platform/files.h"
#include "core/platform/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  END_BYTES = 22,
  LOCATOR_BYTES = 20,
  WIDE_END_BYTES = 56,
  LISTED_BYTES = 46,
  HEADER_BYTES = 30,
  MOST_COMMENT = 65535,
  MOST_DIRECTORY = 256 << 20
};

static ac_status damaged(const ac_model_file *file, const char *what) {
  return ac_fail(AC_ERROR_FORMAT, "%s is a zip archive, but %s; it is truncated or damaged",
                 file->path, what);
}

static ac_status read_at(const ac_model_file *file, int64_t place, void *data, size_t bytes) {
  if (ac_seek(file->stream, place, SEEK_SET) == 0 && fread(data, 1, bytes, file->stream) == bytes)
    return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path,
                 ferror(file->stream) ? strerror(errno) : "it has become shorter");
}

/* ---- the end --------------------------------------------------------------------------------- */

typedef struct directory {
  uint64_t count, bytes, begin;
} directory;

static ac_status read_wide_end(const ac_model_file *file, int64_t end, directory *d) {
  unsigned char locator[LOCATOR_BYTES], wide[WIDE_END_BYTES];
  if (end < LOCATOR_BYTES) return AC_OK;
  AC_TRY(read_at(file, end - LOCATOR_BYTES, locator, sizeof locator));
  if (ac_little_endian(locator, 4) != 0x07064b50) return AC_OK;
  const uint64_t place = ac_little_endian(locator + 8, 8);
  if (end < WIDE_END_BYTES || place > (uint64_t)(end - WIDE_END_BYTES))
    return damaged(file, "its end is not in the file");
  AC_TRY(read_at(file, (int64_t)place, wide, sizeof wide));
  if (ac_little_endian(wide, 4) != 0x06064b50)
    return damaged(file, "its end is not where it should be");
  *d = (directory){ac_little_endian(wide + 32, 8), ac_little_endian(wide + 40, 8),
                   ac_little_endian(wide + 48, 8)};
  return AC_OK;
}

/* A comment may hold what looks like an end, so the last one counts that has a comment up to the
 * end of the file. */
static ac_status find_end(const ac_model_file *file, int64_t file_bytes, directory *d) {
  const int64_t most = END_BYTES + MOST_COMMENT, bytes = file_bytes < most ? file_bytes : most;
  unsigned char *tail = malloc((size_t)bytes + 1);
  if (!tail) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its directory", file->path);
  ac_status status = read_at(file, file_bytes - bytes, tail, (size_t)bytes);
  int64_t at = bytes - END_BYTES;
  while (status == AC_OK && at >= 0 &&
         (ac_little_endian(tail + at, 4) != 0x06054b50 ||
          at + END_BYTES + (int64_t)ac_little_endian(tail + at + 20, 2) != bytes))
    at--;
  if (status == AC_OK && at < 0) status = damaged(file, "it has no directory");
  if (status == AC_OK) {
    const unsigned char *end = tail + at;
    *d = (directory){ac_little_endian(end + 10, 2), ac_little_endian(end + 12, 4),
                     ac_little_endian(end + 16, 4)};
    status = read_wide_end(file, file_bytes - bytes + at, d);
  }
  free(tail);
  if (status == AC_OK &&
      (d->begin > (uint64_t)file_bytes || d->bytes > (uint64_t)file_bytes - d->begin))
    return damaged(file, "its directory is not in the file");
  return status;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* What did not fit into 32 bits is in the extra field 1, in this order. */
static void read_wide(const unsigned char *extra, size_t length, uint64_t *unpacked,
                      uint64_t *packed, uint64_t *header) {
  uint64_t *const fields[] = {unpacked, packed, header};
  while (length >= 4) {
    const size_t size = (size_t)ac_little_endian(extra + 2, 2);
    if (size > length - 4) return;
    if (ac_little_endian(extra, 2) == 1) {
      size_t used = 0;
      for (int i = 0; i < 3; i++)
        if (*fields[i] == 0xffffffff && used + 8 <= size) {
          *fields[i] = ac_little_endian(extra + 4 + used, 8);
          used += 8;
        }
      return;
    }
    extra += 4 + size;
    length -= 4 + size;
  }
}

/* *used: the bytes that it takes in the directory; its name goes to `name`. */
static ac_status read_entry(const ac_model_file *file, int64_t file_bytes, const unsigned char *at,
                            size_t left, ac_zip_entry *entry, char *name, size_t *used) {
  if (left < LISTED_BYTES || ac_little_endian(at, 4) != 0x02014b50)
    return damaged(file, "its directory has fewer entries than it says");
  const size_t name_bytes = (size_t)ac_little_endian(at + 28, 2),
               extra = (size_t)ac_little_endian(at + 30, 2),
               comment = (size_t)ac_little_endian(at + 32, 2);
  if (name_bytes + extra + comment > left - LISTED_BYTES)
    return damaged(file, "an entry goes beyond the end of its directory");
  uint64_t packed = ac_little_endian(at + 20, 4), unpacked = ac_little_endian(at + 24, 4),
           header = ac_little_endian(at + 42, 4);
  read_wide(at + LISTED_BYTES + name_bytes, extra, &unpacked, &packed, &header);
  memcpy(name, at + LISTED_BYTES, name_bytes);
  name[name_bytes] = 0;
  if (header > (uint64_t)file_bytes || packed > (uint64_t)file_bytes)
    return damaged(file, "an entry goes beyond the end of the file");
  *entry =
      (ac_zip_entry){.name = name,
                     .header = (int64_t)header,
                     .bytes = (int64_t)packed,
                     .plain = !ac_little_endian(at + 10, 2) && !(at[8] & 1) && packed == unpacked};
  *used = LISTED_BYTES + name_bytes + extra + comment;
  return AC_OK;
}

/* Names that are not UTF-8 are not found: PyTorch writes none. */
static ac_status list(ac_zip *zip, const ac_model_file *file, int64_t file_bytes,
                      const unsigned char *at, size_t left, uint64_t count) {
  char *name = zip->names;
  for (uint64_t i = 0; i < count; i++) {
    size_t used = 0;
    AC_TRY(read_entry(file, file_bytes, at, left, &zip->entries[i], name, &used));
    if (json_object_get(zip->by_name, name))
      return ac_fail(AC_ERROR_FORMAT, "%s: two entries of this zip archive are %s", file->path,
                     ac_quote(name).text);
    json_object_set_new(zip->by_name, name, json_integer((json_int_t)i));
    name += strlen(name) + 1;
    at += used;
    left -= used;
    zip->count++;
  }
  return AC_OK;
}

ac_status ac_zip_read(ac_zip *zip, const ac_model_file *file, int64_t file_bytes) {
  directory d = {0};
  AC_TRY(find_end(file, file_bytes, &d));
  if (d.count > d.bytes / LISTED_BYTES)
    return damaged(file, "its directory has fewer entries than it says");
  if (d.bytes > MOST_DIRECTORY || d.bytes > ac_memory_left() / 8)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its directory", file->path);
  unsigned char *bytes = malloc((size_t)d.bytes + 1);
  zip->entries = malloc(((size_t)d.count + 1) * sizeof *zip->entries);
  zip->names = malloc((size_t)d.bytes + 1);
  zip->by_name = json_object();
  ac_status status = bytes && zip->entries && zip->names && zip->by_name
                         ? read_at(file, (int64_t)d.begin, bytes, (size_t)d.bytes)
                         : ac_fail(AC_ERROR_MEMORY, "%s: no memory for its directory", file->path);
  if (status == AC_OK) status = list(zip, file, file_bytes, bytes, (size_t)d.bytes, d.count);
  free(bytes);
  return status;
}

void ac_zip_release(ac_zip *zip) {
  free(zip->entries);
  free(zip->names);
  json_decref(zip->by_name);
}

const ac_zip_entry *ac_zip_find(const ac_zip *zip, const char *name) {
  const json_t *index = json_object_get(zip->by_name, name);
  return index ? &zip->entries[json_integer_value(index)] : NULL;
}

ac_status ac_zip_begin_of(const ac_model_file *file, int64_t file_bytes, const ac_zip_entry *entry,
                          int64_t *begin) {
  unsigned char header[HEADER_BYTES];
  if (!entry->plain)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: %s is compressed or encrypted; PyTorch stores files as they are",
                   file->path, ac_quote(entry->name).text);
  if (entry->header > file_bytes - HEADER_BYTES)
    return damaged(file, "an entry goes beyond the end of the file");
  AC_TRY(read_at(file, entry->header, header, sizeof header));
  if (ac_little_endian(header, 4) != 0x04034b50)
    return damaged(file, "an entry is not where its directory says");
  *begin = entry->header + HEADER_BYTES + (int64_t)ac_little_endian(header + 26, 2) +
           (int64_t)ac_little_endian(header + 28, 2);
  if (*begin > file_bytes || entry->bytes > file_bytes - *begin)
    return damaged(file, "an entry goes beyond the end of the file");
  return AC_OK;
}
