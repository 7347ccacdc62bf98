/* Files of bytes, plain or gzip (zlib reads both alike), into memory that grows with the bytes that
 * a file really yields, not with what its header announces: a hostile header costs nothing. */
#ifndef AC_DATA_BYTE_FILE_H
#define AC_DATA_BYTE_FILE_H

#include <accrue/base.h>

typedef struct ac_bytes {
  uint8_t *data; /* free() */
  size_t count, capacity;
} ac_bytes;

/* Makes room for more than `count` bytes, doubling up to `limit`; `path` is for the sentence. */
ac_status ac_bytes_grow(ac_bytes *bytes, uint64_t limit, const char *path);
/* Gives back what was not used. */
void ac_bytes_shrink(ac_bytes *bytes);

typedef struct ac_byte_file {
  void *stream;
  const char *path;
} ac_byte_file;

ac_status ac_byte_file_open(ac_byte_file *file, const char *path);
void ac_byte_file_close(ac_byte_file *file);

/* As many of `wanted` bytes as there are, into *got. Coming to the end of gzip data also verifies
 * its checksum. */
ac_status ac_byte_file_read(ac_byte_file *file, void *data, size_t wanted, size_t *got);

/* Appends until `bytes` holds `limit` of them or the file ends. */
ac_status ac_byte_file_append(ac_byte_file *file, ac_bytes *bytes, uint64_t limit);

typedef char ac_file_path[4096];

/* The path of folder/name or, where only that is there, folder/name.gz. *found is set if either is,
 * and left alone otherwise. */
ac_status ac_find_file(ac_file_path path, const char *folder, const char *name, bool *found);

#endif
