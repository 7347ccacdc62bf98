#include "common/replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/platform/replacement.h"

/* ---- what is at the path --------------------------------------------------------------------- */

static bool fail_by(int error) {
  errno = error;
  return false;
}

bool replacement_follow(char path[REPLACEMENT_PATH]) {
  _Static_assert((int)REPLACEMENT_PATH == AC_REPLACEMENT_PATH, "the library's follows the links");
  return ac_replacement_follow(path);
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Written through its own descriptor, as its position counts there; -1: neither. */
static int standard_stream(const struct stat *info) {
  struct stat stream;
  for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++)
    if (fstat(descriptor, &stream) == 0 && is_same(info, &stream)) return descriptor;
  return -1;
}

static bool find_target(replacement *r) {
  struct stat info;
  r->descriptor = -1;
  snprintf(r->target, sizeof r->target, "%s", r->path);
  if (stat(r->path, &info) != 0) return replacement_follow(r->target);
  if (S_ISDIR(info.st_mode)) return fail_by(EISDIR);
  r->descriptor = standard_stream(&info);
  r->copied = r->descriptor >= 0 || !S_ISREG(info.st_mode);
  if (!r->copied) return replacement_follow(r->target);
  return r->descriptor >= 0 || access(r->path, W_OK) == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What is copied to its target later is in the folder for temporary files until then. */
static int create_aside(char temporary[REPLACEMENT_PATH]) {
  const char *folder = getenv("TMPDIR");
  const int length = snprintf(temporary, REPLACEMENT_PATH, "%s/accrue-XXXXXX",
                              folder && *folder ? folder : "/tmp");
  if (length >= 0 && length < REPLACEMENT_PATH) return mkstemp(temporary);
  errno = ENAMETOOLONG;
  return -1;
}

bool replacement_open(replacement *r, const char *path) {
  *r = (replacement){.descriptor = -1};
  if ((size_t)snprintf(r->path, sizeof r->path, "%s", path) >= sizeof r->path)
    return fail_by(ENAMETOOLONG);
  if (!find_target(r)) return false;
  const int descriptor =
      r->copied ? create_aside(r->temporary) : ac_replacement_create(r->target, r->temporary);
  if (descriptor < 0) return false;
  close(descriptor);
  return true;
}

bool replacement_write(const replacement *r, const char *line) {
  FILE *file = fopen(r->temporary, "w");
  if (!file) return false;
  bool good = fputs(line, file) >= 0 && fputc('\n', file) != EOF && fflush(file) == 0 &&
              fsync(fileno(file)) == 0;
  int error = errno;
  bool closed = fclose(file) == 0;
  if (!good) errno = error;
  return good && closed;
}

static bool copy(FILE *to, FILE *from) {
  char piece[1 << 15];
  size_t bytes;
  while ((bytes = fread(piece, 1, sizeof piece, from)) > 0)
    if (fwrite(piece, 1, bytes, to) != bytes) return false;
  return !ferror(from) && fflush(to) == 0 && fsync(fileno(to)) == 0;
}

bool replacement_copy(const replacement *r, const char *from) {
  FILE *source = fopen(from, "rb"), *file = source ? fopen(r->temporary, "wb") : NULL;
  bool good = file && copy(file, source);
  const int error = errno;
  if (source) fclose(source);
  if (file && fclose(file) != 0 && good) return false;
  if (!good) errno = error;
  return good;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static bool write_all(int descriptor, const char *data, size_t bytes) {
  while (bytes) {
    const ssize_t done = write(descriptor, data, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    bytes -= (size_t)done;
  }
  return true;
}

static bool copy_to(int descriptor, FILE *from) {
  char piece[1 << 15];
  size_t bytes;
  while ((bytes = fread(piece, 1, sizeof piece, from)) > 0)
    if (!write_all(descriptor, piece, bytes)) return false;
  return !ferror(from);
}

/* If nobody reads a pipe yet, this waits, as a shell does. */
static bool copy_to_target(const replacement *r) {
  FILE *from = fopen(r->temporary, "rb");
  if (!from) return false;
  fflush(r->descriptor == STDERR_FILENO ? stderr : stdout);
  const int to = r->descriptor >= 0 ? dup(r->descriptor) : open(r->path, O_WRONLY | O_NOCTTY);
  bool good = to >= 0 && copy_to(to, from);
  const int error = errno;
  fclose(from);
  if (to >= 0 && close(to) != 0 && good) return false;
  return good || fail_by(error);
}

bool replacement_commit(replacement *r) {
  struct stat info; /* may have changed while the file was written */
  bool good;
  if (r->copied) good = copy_to_target(r);
  else if (lstat(r->target, &info) == 0 && !S_ISREG(info.st_mode))
    good = fail_by(S_ISDIR(info.st_mode) ? EISDIR : EEXIST);
  else if (ac_replacement_commit(r->temporary, r->target)) return true;
  else good = false;
  replacement_abandon(r);
  return good;
}

void replacement_abandon(replacement *r) {
  int error = errno;
  unlink(r->temporary);
  errno = error;
}

bool replacement_of_file(const char *from, const char *to) {
  replacement file;
  if (!replacement_open(&file, to)) return false;
  if (replacement_copy(&file, from)) return replacement_commit(&file);
  const int error = errno;
  replacement_abandon(&file);
  errno = error;
  return false;
}
