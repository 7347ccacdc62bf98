/* POSIX. */
#include "core/platform/replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool fail_by(int error) {
  errno = error;
  return false;
}

/* Puts what a link leads to in its place. */
static bool read_link(char path[AC_REPLACEMENT_PATH]) {
  char target[AC_REPLACEMENT_PATH];
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return false;
  target[length] = 0;
  char *name = *target == '/' || !strrchr(path, '/') ? path : strrchr(path, '/') + 1;
  if ((size_t)(name - path) + (size_t)length >= AC_REPLACEMENT_PATH) return fail_by(ENAMETOOLONG);
  memcpy(name, target, (size_t)length + 1);
  return true;
}

/* Some links of /proc lead to files that were removed; their text is not a path. */
bool ac_replacement_follow(char path[AC_REPLACEMENT_PATH]) {
  enum { MOST_LINKS = 40 };
  struct stat there, info;
  const bool exists = stat(path, &there) == 0;
  bool found = lstat(path, &info) == 0;
  for (int links = 0; found && S_ISLNK(info.st_mode); links++) {
    if (links == MOST_LINKS) return fail_by(ELOOP);
    if (!read_link(path)) return false;
    found = lstat(path, &info) == 0;
  }
  const bool same = found && info.st_dev == there.st_dev && info.st_ino == there.st_ino;
  return !exists || same || fail_by(ESTALE);
}

/* Not mkstemp: its files are private, and a model needs the permissions of any other file. */
int ac_replacement_create(const char *path, char temporary[AC_REPLACEMENT_PATH]) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (unsigned attempt = 0; attempt < 100; attempt++) {
    const unsigned unique = (unsigned)now.tv_sec * 1000000000u + (unsigned)now.tv_nsec + attempt;
    const int length = snprintf(temporary, AC_REPLACEMENT_PATH, "%s.partial-%08x-%x", path,
                                unique * 2654435761u, (unsigned)getpid());
    if (length < 0 || length >= AC_REPLACEMENT_PATH) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

static void sync_folder(const char *path) {
  char folder[AC_REPLACEMENT_PATH];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int descriptor = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
}

bool ac_replacement_commit(const char *temporary, const char *path) {
  if (rename(temporary, path) != 0) return false;
  sync_folder(path);
  return true;
}
