/* POSIX. Whole blocks are written past the system's cache, where the file system
 * has that (O_DIRECT): this is twice as fast on a machine that has other work, and the cache keeps
 * what it holds. The end of a file, which is less than a block, goes through the cache. */
#define _GNU_SOURCE /* O_DIRECT */
#include "core/platform/atomic_file.h"

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_DIRECT
#define O_DIRECT 0 /* there is none */
#endif

/* Together with a piece of a tensor (io/model_file_write.c) this is 1 MiB. */
enum { BLOCK_BYTES = 768 << 10 };

/* ---- what is at the path --------------------------------------------------------------------- */

static const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

/* A new file may replace a regular file only: renaming it over a pipe or a device would destroy
 * that. If stat fails for another reason, creating the file next to the path fails and says why. */
static ac_status check_kind(const char *path, const struct stat *info) {
  if (S_ISREG(info->st_mode) || S_ISLNK(info->st_mode)) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot write %s: it is %s; give the name of a file", path,
                 kind_of(info->st_mode));
}

/* Puts what a link leads to in its place. */
static ac_status read_link(char path[AC_ATOMIC_PATH]) {
  char target[AC_ATOMIC_PATH];
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return ac_fail(AC_ERROR_IO, "cannot read the link %s: %s", path, strerror(errno));
  target[length] = 0;
  char *name = *target == '/' || !strrchr(path, '/') ? path : strrchr(path, '/') + 1;
  if ((size_t)(name - path) + (size_t)length >= AC_ATOMIC_PATH)
    return ac_fail(AC_ERROR_IO, "the link %s leads to too long a path", path);
  memcpy(name, target, (size_t)length + 1);
  return AC_OK;
}

/* Symbolic links are followed: a link stays, and the file that it leads to is replaced, or made
 * where it is missing. */
static ac_status follow_links(char path[AC_ATOMIC_PATH]) {
  enum { MOST_LINKS = 40 };
  struct stat there, info;
  const bool exists = stat(path, &there) == 0;
  if (exists) AC_TRY(check_kind(path, &there));
  for (int links = 0; lstat(path, &info) == 0; links++) {
    if (!S_ISLNK(info.st_mode)) {
      const bool same = exists && info.st_dev == there.st_dev && info.st_ino == there.st_ino;
      if (same || !exists) return check_kind(path, &info);
      break;
    }
    if (links == MOST_LINKS)
      return ac_fail(AC_ERROR_IO, "cannot write %s: %s", path, strerror(ELOOP));
    AC_TRY(read_link(path));
  }
  if (!exists) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot write %s: the file it leads to has no name any more", path);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Not mkstemp: its files are private, and a model needs the permissions of any other file. */
static int create_temporary(ac_atomic_file *file) {
  for (int attempt = 0; attempt < 100; attempt++) {
    const unsigned long long unique = (unsigned long long)(ac_clock() * 1e9) + (unsigned)attempt;
    const int length = snprintf(file->temporary, sizeof file->temporary, "%s.partial-%08x-%x",
                                file->path, (unsigned)(unique * 2654435761u), (unsigned)getpid());
    if (length < 0 || (size_t)length >= sizeof file->temporary) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

static void set_direct(ac_atomic_file *file, bool direct) {
  const int flags = fcntl(file->descriptor, F_GETFL);
  file->direct =
      O_DIRECT && flags >= 0 &&
      fcntl(file->descriptor, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 &&
      direct;
}

ac_status ac_atomic_open(ac_atomic_file *file, const char *path) {
  memset(file, 0, sizeof *file);
  file->descriptor = -1;
  const int length = snprintf(file->path, sizeof file->path, "%s", path);
  if (length < 0 || (size_t)length + 32 > sizeof file->path)
    return ac_fail(AC_ERROR_ARGUMENT, "the path is longer than %zu bytes", sizeof file->path - 32);
  AC_TRY(follow_links(file->path));
  file->block = ac_pages_allocate(BLOCK_BYTES);
  if (!file->block) return ac_fail(AC_ERROR_MEMORY, "no memory to write %s", path);
  file->descriptor = create_temporary(file);
  if (file->descriptor < 0) {
    const int error = errno;
    ac_pages_release(file->block, BLOCK_BYTES);
    file->block = NULL;
    return ac_fail(AC_ERROR_IO, "cannot create a file next to %s: %s", path, strerror(error));
  }
  set_direct(file, true);
  return AC_OK;
}

void ac_atomic_keep_to_user(ac_atomic_file *file) {
  struct stat info;
  if (fstat(file->descriptor, &info) == 0)
    (void)fchmod(file->descriptor, info.st_mode & 0777 & ~(mode_t)(S_IWGRP | S_IWOTH));
}

/* ---- writing --------------------------------------------------------------------------------- */

static ac_status refuse(const ac_atomic_file *file, int error) {
  return ac_fail(AC_ERROR_IO, "cannot write %s: %s", file->path, strerror(error));
}

/* A file system may take O_DIRECT and then refuse what is written so: EINVAL. */
static ac_status write_at(ac_atomic_file *file, const unsigned char *data, size_t bytes,
                          int64_t at) {
  while (bytes) {
    const ssize_t done = pwrite(file->descriptor, data, bytes, (off_t)at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EINVAL && file->direct) {
      set_direct(file, false);
      continue;
    }
    if (done <= 0) {
      file->failed = true;
      return refuse(file, done ? errno : ENOSPC);
    }
    data += done;
    at += done;
    bytes -= (size_t)done;
  }
  return AC_OK;
}

static ac_status write_block(ac_atomic_file *file) {
  if (file->used < BLOCK_BYTES && file->direct) set_direct(file, false);
  AC_TRY(write_at(file, file->block, file->used, file->written));
  file->written += (int64_t)file->used;
  file->used = 0;
  return AC_OK;
}

ac_status ac_atomic_write(ac_atomic_file *file, const void *data, size_t bytes) {
  for (const unsigned char *from = data; bytes;) {
    const size_t room = BLOCK_BYTES - file->used, part = bytes < room ? bytes : room;
    memcpy(file->block + file->used, from, part);
    file->used += part;
    from += part;
    bytes -= part;
    if (file->used == BLOCK_BYTES) AC_TRY(write_block(file));
  }
  return AC_OK;
}

ac_status ac_atomic_write_again(ac_atomic_file *file, int64_t at, const void *data, size_t bytes) {
  AC_TRY(write_block(file));
  return write_at(file, data, bytes, at);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void sync_folder(const char *path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int descriptor = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
}

/* Returns 0 or what went wrong. */
static int close_file(ac_atomic_file *file) {
  const int error = close(file->descriptor) == 0 ? 0 : errno;
  file->descriptor = -1;
  ac_pages_release(file->block, BLOCK_BYTES);
  file->block = NULL;
  return error;
}

ac_status ac_atomic_commit(ac_atomic_file *file) {
  ac_status status = file->failed ? AC_ERROR_IO : write_block(file);
  if (status == AC_OK && fsync(file->descriptor) != 0) status = refuse(file, errno);
  const int error = close_file(file);
  if (status == AC_OK && error) status = refuse(file, error);
  struct stat info; /* may have changed while the file was written */
  if (status == AC_OK && lstat(file->path, &info) == 0) status = check_kind(file->path, &info);
  if (status == AC_OK && rename(file->temporary, file->path) != 0) status = refuse(file, errno);
  if (status == AC_OK) sync_folder(file->path);
  else unlink(file->temporary);
  return status;
}

void ac_atomic_abandon(ac_atomic_file *file) {
  if (file->descriptor < 0) return;
  close_file(file);
  unlink(file->temporary);
}
