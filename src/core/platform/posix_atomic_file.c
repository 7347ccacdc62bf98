/* POSIX. Whole blocks are written past the system's cache, where the file system has that
 * (O_DIRECT): this is twice as fast on a machine that has other work, and the cache keeps what it
 * holds. The end of a file, which is less than a block, goes through the cache. */
#define _GNU_SOURCE /* O_DIRECT */
#include "core/platform/atomic_file.h"

#include "core/error.h"
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

static ac_status refuse_link(const char *path, int error) {
  const char *why = strerror(error);
  if (error == ELOOP) return ac_fail(AC_ERROR_IO, "cannot write %s: %s", path, why);
  if (error == ENAMETOOLONG)
    return ac_fail(AC_ERROR_IO, "the link %s leads to too long a path", path);
  if (error == ESTALE)
    return ac_fail(AC_ERROR_IO, "cannot write %s: the file it leads to has no name any more", path);
  return ac_fail(AC_ERROR_IO, "cannot read the link %s: %s", path, why);
}

/* Symbolic links are followed: a link stays, and the file that it leads to is replaced, or made
 * where it is missing. */
static ac_status follow_links(char path[AC_REPLACEMENT_PATH]) {
  struct stat info;
  if (stat(path, &info) == 0) AC_TRY(check_kind(path, &info));
  if (!ac_replacement_follow(path)) return refuse_link(path, errno);
  return lstat(path, &info) == 0 ? check_kind(path, &info) : AC_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

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
  file->descriptor = ac_replacement_create(file->path, file->temporary);
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
  if (status == AC_OK && !ac_replacement_commit(file->temporary, file->path))
    status = refuse(file, errno);
  if (status != AC_OK) unlink(file->temporary);
  return status;
}

void ac_atomic_abandon(ac_atomic_file *file) {
  if (file->descriptor < 0) return;
  close_file(file);
  unlink(file->temporary);
}
