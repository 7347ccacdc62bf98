#include "program/good_state.h"

#include "common/replacement.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Renaming does nothing where both are the same file already. */
static bool name_also(const char *from, const char *to) {
  char temporary[RUN_PATH_BYTES + 16];
  if (access(from, F_OK) != 0) return errno == ENOENT;
  snprintf(temporary, sizeof temporary, "%s.partial-name", to);
  unlink(temporary);
  /* Where a file system has no second names, a copy. */
  if (link(from, temporary) != 0) return replacement_of_file(from, to);
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
