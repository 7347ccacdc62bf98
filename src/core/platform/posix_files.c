/* POSIX. */
#include "core/platform/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

bool ac_is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 || errno != ENOENT;
}

bool ac_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* What kind of thing a path leads to, if that is not a regular file; NULL: it is one. */
static const char *special_name(mode_t mode) {
  if (S_ISREG(mode)) return NULL;
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/* NULL with errno, or with what is there that is not a file. */
static FILE *open_file(const char *path, bool streams_too, const char **special) {
  struct stat info;
  *special = NULL;
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (streams_too ? 0 : O_NONBLOCK);
  const int descriptor = open(path, flags);
  if (descriptor < 0) return NULL;
  FILE *stream = NULL;
  if (fstat(descriptor, &info) == 0) {
    if (!streams_too) *special = special_name(info.st_mode);
    if (S_ISDIR(info.st_mode)) errno = EISDIR, *special = NULL;
    else if (!*special) stream = fdopen(descriptor, "rb");
  }
  if (stream) return stream;
  const int error = errno;
  close(descriptor);
  errno = error;
  return NULL;
}

ac_status ac_file_open(FILE **stream, const char *path, bool streams_too) {
  const char *special;
  if ((*stream = open_file(path, streams_too, &special))) return AC_OK;
  if (special) return ac_fail(AC_ERROR_IO, "cannot read %s: it is %s, not a file", path, special);
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
}

uint64_t ac_file_bytes(FILE *stream) {
  struct stat info;
  return fstat(fileno(stream), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0
             ? (uint64_t)info.st_size
             : 0;
}

FILE *ac_open_trusted(const char *path) {
  struct stat info;
  const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return NULL;
  const bool trusted = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                       (info.st_uid == geteuid() || info.st_uid == 0) &&
                       !(info.st_mode & (S_IWGRP | S_IWOTH));
  FILE *stream = trusted ? fdopen(descriptor, "rb") : NULL;
  if (!stream) close(descriptor);
  return stream;
}

int ac_seek(FILE *stream, int64_t offset, int whence) {
  return fseeko(stream, (off_t)offset, whence);
}

int64_t ac_tell(FILE *stream) {
  return (int64_t)ftello(stream);
}
