/* Files. */
#ifndef AC_CORE_PLATFORM_FILES_H
#define AC_CORE_PLATFORM_FILES_H

#include <accrue/base.h>
#include <stdbool.h>
#include <stdio.h>

bool ac_is_folder(const char *path);
/* What exists but cannot be looked at counts as there: reading it then says why it cannot. */
bool ac_is_there(const char *path);

/* Opens a file for reading, or leaves a sentence that names it. A pipe or a device in the place of
 * a file is refused at once, never waited for, unless `streams_too`: data may come from there. */
ac_status ac_file_open(FILE **stream, const char *path, bool streams_too);
uint64_t ac_file_bytes(FILE *stream); /* 0: unknown, as of a pipe */

/* Opens a regular file to read, if it belongs to this user or to root and nobody else can write to
 * it; else NULL. Never waits. */
FILE *ac_open_trusted(const char *path);

/* 64-bit file positions. */
int ac_seek(FILE *stream, int64_t offset, int whence);
int64_t ac_tell(FILE *stream);

#endif
