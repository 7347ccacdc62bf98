/* Files that appear whole or not at all: they are written next to their path, synced and renamed
 * over it. At the path there may be nothing, a regular file, or a symbolic link to either, which
 * stays and is followed. Anything else (a folder, a pipe, a socket, a device) is refused and left
 * as it is. */
#ifndef AC_CORE_PLATFORM_ATOMIC_FILE_H
#define AC_CORE_PLATFORM_ATOMIC_FILE_H

#include <accrue/base.h>

#include <stdbool.h>
#include <stddef.h>

#include "core/platform/replacement.h"

typedef struct ac_atomic_file {
  int descriptor; /* below 0: there is no file, not yet or not any more */
  bool failed;    /* a write has */
  bool direct;    /* blocks go to the disk past the system's cache */
  unsigned char *block;
  size_t used;                                                    /* of the block's bytes */
  int64_t written;                                                /* before the block */
  char path[AC_REPLACEMENT_PATH], temporary[AC_REPLACEMENT_PATH]; /* links are followed */
} ac_atomic_file;

/* All of these leave one sentence when they fail. Whatever was opened has to be ended by
 * ac_atomic_commit, or by ac_atomic_abandon, which leaves the last sentence as it is. Commit fails
 * where a write has failed. */
ac_status ac_atomic_open(ac_atomic_file *file, const char *path);
/* Nobody but the user can write to what this becomes, whatever the umask says. */
void ac_atomic_keep_to_user(ac_atomic_file *file);
ac_status ac_atomic_write(ac_atomic_file *file, const void *data, size_t bytes);
/* Over what was written at this offset; only this and commit may follow. */
ac_status ac_atomic_write_again(ac_atomic_file *file, int64_t at, const void *data, size_t bytes);
/* After a failure the temporary file is gone and `path` untouched. */
ac_status ac_atomic_commit(ac_atomic_file *file);
void ac_atomic_abandon(ac_atomic_file *file);

#endif
