#include "common/folder.h"

#include "common/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool folder_is_there(const char *path) {
  return access(path, F_OK) == 0;
}

/* False with the reason in errno. If something is there already, the reason is about the path
 * itself: mkdir may then give another one. */
static bool is_made(const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
  const int error = errno;
  if (access(path, F_OK) == 0) return true;
  errno = error;
  return false;
}

/* `part`: the folder on the way to `path` that cannot be made. */
static int fail_to_make(const char *part, const char *path) {
  const char *reason = strerror(errno);
  if (!strcmp(part, path)) return fail("cannot make the folder %s: %s", path, reason);
  return fail("cannot make the folder %s, in which %s would be: %s", part, path, reason);
}

int folder_make(const char *path, const char *flag) {
  char folder[FOLDER_BYTES];
  int length = snprintf(folder, sizeof folder, "%s", path);
  if (length < 1 || (size_t)length > sizeof folder - FOLDER_NAME_BYTES)
    return fail_usage("--%s is %s path", flag, length < 1 ? "an empty" : "too long a");
  for (char *slash = folder + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    if (!is_made(folder)) return fail_to_make(folder, path);
    *slash = '/';
  }
  struct stat info;
  if (!is_made(folder)) return fail_to_make(folder, path);
  if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
    return fail("--%s %s is not a folder", flag, path);
  if (access(folder, W_OK | X_OK) != 0)
    return fail("cannot write to the folder %s: %s", path, strerror(errno));
  return STATUS_CONTINUE;
}
