/* Reads files of bytes, plain or gzip, into memory that grows with the bytes that a file really
 * has, not with what its header announces: a hostile header costs nothing. Pipes are also read. A
 * file that would fill the machine's memory is refused before it does, also if it is endless,
 * sparse or compressed. */
#ifndef AC_DATA_BYTE_FILE_H
#define AC_DATA_BYTE_FILE_H

#include <accrue/base.h>

typedef struct ac_bytes {
  uint8_t *data; /* free() */
  size_t count, capacity;
} ac_bytes;

/* Gives back what was not used. */
void ac_bytes_shrink(ac_bytes *bytes);

typedef struct ac_byte_file ac_byte_file;

typedef enum ac_unzip { AC_UNZIP, AC_AS_IT_IS } ac_unzip;

ac_status ac_byte_file_open(ac_byte_file **file, const char *path, ac_unzip unzip);
void ac_byte_file_close(ac_byte_file *file); /* NULL: nothing */
const char *ac_byte_file_path(const ac_byte_file *file);

/* Reads `wanted` bytes, or as many as there are; *got: how many. At the end of gzip data it
 * verifies the checksums, and that nothing else follows. */
ac_status ac_byte_file_read(ac_byte_file *file, void *data, size_t wanted, size_t *got);

/* Appends until `bytes` holds `limit` of them or the file ends. */
ac_status ac_byte_file_append(ac_byte_file *file, ac_bytes *bytes, uint64_t limit);

/* For a file that is refused: what it seems to be (core/format.h), or NULL. Nothing can be read
 * after that. */
const char *ac_byte_file_format(ac_byte_file *file);

typedef char ac_file_path[4096];

/* The path of folder/name or, where only that is there, folder/name.gz. *found is set if either is,
 * and left alone otherwise. */
ac_status ac_find_file(ac_file_path path, const char *folder, const char *name, bool *found);

#endif
