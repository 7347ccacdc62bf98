#include "common/file.h"

#include "common/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: it is a file. */
static const char *what_else(int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return strerror(errno);
  if (S_ISREG(info.st_mode)) return NULL;
  if (S_ISDIR(info.st_mode)) return "it is a folder, not a file";
  if (S_ISFIFO(info.st_mode)) return "it is a pipe, not a file";
  return "it is a device, not a file";
}

FILE *file_try(const char *path, const char **why) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  *why = descriptor < 0 ? strerror(errno) : what_else(descriptor);
  FILE *stream = *why ? NULL : fdopen(descriptor, "r");
  if (!stream && descriptor >= 0) close(descriptor);
  if (!stream && !*why) *why = "out of memory";
  return stream;
}

int file_open(FILE **stream, const char *path) {
  const char *why;
  *stream = file_try(path, &why);
  return *stream ? STATUS_CONTINUE : fail("cannot read %s: %s", path, why);
}

bool file_fits(FILE *stream) {
  struct stat info;
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages <= 0 || size <= 0 || fstat(fileno(stream), &info) != 0 ||
         info.st_size / size <= pages / 2;
}

/* Room for another piece of the line. */
static bool grow(file_lines *lines) {
  enum { MOST_BYTES = 64 << 20 };
  const size_t room = lines->room ? 2 * lines->room : 1 << 12;
  char *grown = room > MOST_BYTES ? NULL : realloc(lines->text, room);
  if (!grown) {
    lines->error = room > MOST_BYTES ? EFBIG : ENOMEM;
    return false;
  }
  lines->text = grown;
  lines->room = room;
  return true;
}

bool file_next_line(file_lines *lines) {
  int c = 0;
  lines->length = 0;
  while (c != '\n' && (errno = 0, c = getc_unlocked(lines->stream)) != EOF) {
    if (lines->length == lines->room && !grow(lines)) return false;
    lines->text[lines->length++] = (char)c;
  }
  if (ferror(lines->stream)) lines->error = errno ? errno : EIO;
  return lines->length > 0 && !lines->error;
}

const char *file_end_lines(file_lines *lines) {
  free(lines->text);
  lines->text = NULL;
  if (lines->error == EFBIG) return "it has a line of more than 64 MiB";
  return lines->error ? strerror(lines->error) : NULL;
}
