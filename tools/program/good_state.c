#include "program/good_state.h"

#include "common/replacement.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Where a file system has no second names, a copy. */
static bool copy(const char *from, const char *to) {
  replacement file;
  if (!replacement_open(&file, to)) return false;
  if (replacement_copy(&file, from)) return replacement_commit(&file);
  replacement_abandon(&file);
  return false;
}

/* Renaming does nothing where both are the same file already. */
static bool name_also(const char *from, const char *to) {
  char temporary[RUN_PATH_BYTES + 16];
  if (access(from, F_OK) != 0) return errno == ENOENT;
  snprintf(temporary, sizeof temporary, "%s.partial-name", to);
  unlink(temporary);
  if (link(from, temporary) != 0) return copy(from, to);
  const bool good = rename(temporary, to) == 0;
  const int error = errno;
  unlink(temporary);
  errno = error;
  return good;
}

bool good_state_keep(const run_folder *folder, int64_t step) {
  char now[RUN_PATH_BYTES], kept[RUN_PATH_BYTES];
  run_folder_path(folder, GOOD_STATE, now);
  run_folder_good_state(folder, step, kept);
  return name_also(now, kept);
}

bool good_state_restore(const run_folder *folder, int64_t step) {
  char now[RUN_PATH_BYTES], kept[RUN_PATH_BYTES];
  run_folder_path(folder, GOOD_STATE, now);
  run_folder_good_state(folder, step, kept);
  return name_also(kept, now);
}
