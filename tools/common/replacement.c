#include "common/replacement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool replacement_open(replacement *r, const char *path) {
  int length = snprintf(r->path, sizeof r->path, "%s", path);
  int longer = snprintf(r->temporary, sizeof r->temporary, "%s.partial-%08lx-XXXXXX", path,
                        (unsigned long)getpid());
  if (length < 0 || longer < 0 || (size_t)longer >= sizeof r->temporary) {
    errno = ENAMETOOLONG;
    return false;
  }
  int descriptor = mkstemp(r->temporary);
  if (descriptor < 0) return false;
  /* mkstemp makes files private; this one is to have the permissions of any other. */
  mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor, 0666 & ~mask);
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

bool replacement_commit(replacement *r) {
  if (rename(r->temporary, r->path) == 0) return true;
  replacement_abandon(r);
  return false;
}

void replacement_abandon(replacement *r) {
  int error = errno;
  unlink(r->temporary);
  errno = error;
}
