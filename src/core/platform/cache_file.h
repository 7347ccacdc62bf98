/* Files that keep results that took long to find, each under a key: the hash of all that its
 * contents depend on. They are in the cache folder (folders.h). If a file cannot be read or
 * written, that only costs time. So no function here reports why, and the last error does not
 * change.
 *
 * A cache folder may be shared, and a compiled program is code that runs. So a file is read only if
 * it is a regular file of this user's or of root's, to which nobody else can write. Code that reads
 * a file also checks that its contents make sense. */
#ifndef AC_CORE_PLATFORM_CACHE_FILE_H
#define AC_CORE_PLATFORM_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ac_cache_file {
  char path[4096]; /* "": none, which reads as missing and is not written */
} ac_cache_file;

/* FOLDER/PREFIX<16 hexadecimal digits of the key>SUFFIX, or none where no folder can be written to.
 */
ac_cache_file ac_cache_file_of(const char *folder, const char *prefix, uint64_t key,
                               const char *suffix);

size_t ac_cache_file_bytes(const ac_cache_file *file); /* 0: missing or empty */

/* Whether the file has just so many bytes, which are then in `data`. */
bool ac_cache_file_read(const ac_cache_file *file, void *data, size_t bytes);

/* Writes head and body, one after the other; the file appears whole or not at all. */
void ac_cache_file_write(const ac_cache_file *file, const void *head, size_t head_bytes,
                         const void *body, size_t body_bytes);

#endif
