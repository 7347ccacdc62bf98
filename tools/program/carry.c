#include "program/carry.h"

#include "common/message.h"
#include "common/replacement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_same(const struct stat *a, const char *path) {
  struct stat b;
  return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_equal(const char *a, const char *b) {
  FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
  bool equal = one && other;
  for (int c = 0; equal && c != EOF;) equal = (c = getc(one)) == getc(other);
  if (one) fclose(one);
  if (other) fclose(other);
  return equal;
}

/* A file that is there may be someone else's, unless the run replaces another. */
static void carry(const char *from, const char *to, bool replace) {
  const bool there = access(to, F_OK) == 0 || errno != ENOENT;
  if (there && !replace) {
    if (!is_equal(from, to)) say("%s stays as it is; %s is different", to, from);
  } else if (!replacement_of_file(from, to))
    say("%s could not be copied to %s: %s", from, to, strerror(errno));
}

void carry_files(const char *const *names, const char *init, const run_folder *folder,
                 bool replace) {
  const char *slash = strrchr(init, '/');
  for (; *names; names++) {
    char from[RUN_PATH_BYTES], to[RUN_PATH_BYTES];
    struct stat info;
    const int length =
        snprintf(from, sizeof from, "%.*s%s", slash ? (int)(slash - init + 1) : 0, init, *names);
    if (length >= (int)sizeof from || stat(from, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    run_folder_path(folder, *names, to);
    if (!is_same(&info, to)) carry(from, to, replace);
  }
}
