/* POSIX. */
#include "core/platform/folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

static int compare_paths(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static ac_status add_path(ac_paths *paths, const char *path) {
  if ((paths->count & (paths->count - 1)) == 0) {
    size_t capacity = paths->count ? 2 * paths->count : 1;
    char **grown = realloc(paths->path, capacity * sizeof *grown);
    if (!grown) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of files");
    paths->path = grown;
  }
  if (!(paths->path[paths->count] = strdup(path)))
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of files");
  paths->count++;
  return AC_OK;
}

static ac_status list_folder(ac_paths *paths, const char *folder, const ac_path_choice *choice,
                             int depth, bool linked);

static bool is_taken(const ac_path_choice *choice, const char *path, bool is_folder) {
  return !choice->takes || choice->takes(choice->user, path, is_folder);
}

/* Symbolic links to files are followed. Links to folders may form circles: they are followed if the
 * choice says so and no other such link led there. What is gone by now, and links to nothing, are
 * not there. Whatever else cannot be read is an error, as data would be missing without a word. */
static ac_status list_entry(ac_paths *paths, const char *path, const ac_path_choice *choice,
                            int depth, bool linked) {
  struct stat link, target;
  if (lstat(path, &link) != 0)
    return errno == ENOENT ? AC_OK
                           : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  if (S_ISDIR(link.st_mode))
    return is_taken(choice, path, true) ? list_folder(paths, path, choice, depth + 1, linked)
                                        : AC_OK;
  if (stat(path, &target) != 0)
    return errno == ENOENT ? AC_OK
                           : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  if (S_ISDIR(target.st_mode))
    return choice->links && !linked && is_taken(choice, path, true)
               ? list_folder(paths, path, choice, depth + 1, true)
               : AC_OK;
  return S_ISREG(target.st_mode) && is_taken(choice, path, false) ? add_path(paths, path) : AC_OK;
}

static ac_status list_folder(ac_paths *paths, const char *folder, const ac_path_choice *choice,
                             int depth, bool linked) {
  enum { MOST_DEPTH = 64 };
  if (depth > MOST_DEPTH)
    return ac_fail(AC_ERROR_IO, "cannot read folder %s: it is more than %d folders deep", folder,
                   (int)MOST_DEPTH);
  DIR *directory = opendir(folder);
  if (!directory) return ac_fail(AC_ERROR_IO, "cannot read folder %s: %s", folder, strerror(errno));
  ac_status status = AC_OK;
  struct dirent *entry;
  while (status == AC_OK && (errno = 0, entry = readdir(directory))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= sizeof path)
      status =
          ac_fail(AC_ERROR_IO, "cannot read a file in folder %s: its path is too long", folder);
    else status = list_entry(paths, path, choice, depth, linked);
  }
  if (status == AC_OK && errno)
    status = ac_fail(AC_ERROR_IO, "cannot read folder %s: %s", folder, strerror(errno));
  closedir(directory);
  return status;
}

ac_status ac_paths_list(ac_paths *paths, const char *path, const ac_path_choice *choice) {
  memset(paths, 0, sizeof *paths);
  struct stat info;
  if (stat(path, &info) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  ac_status status =
      S_ISDIR(info.st_mode) ? list_folder(paths, path, choice, 0, false) : add_path(paths, path);
  if (status != AC_OK) {
    ac_paths_free(paths);
    return status;
  }
  if (paths->count) qsort(paths->path, paths->count, sizeof *paths->path, compare_paths);
  return AC_OK;
}

void ac_paths_free(ac_paths *paths) {
  for (size_t i = 0; i < paths->count; i++) free(paths->path[i]);
  free(paths->path);
  memset(paths, 0, sizeof *paths);
}

static bool make_folders(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
    *slash = '/';
    if (failed) return false;
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

bool ac_cache_folder(char *path, size_t size, const char *name) {
  const char *own = getenv("ACCRUE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int length;
  if (own && *own) length = snprintf(path, size, "%s/%s", own, name);
  else if (xdg && *xdg) length = snprintf(path, size, "%s/accrue/%s", xdg, name);
  else if (home && *home) length = snprintf(path, size, "%s/.cache/accrue/%s", home, name);
  else return false;
  return length > 0 && (size_t)length < size && make_folders(path) && access(path, W_OK) == 0;
}

ac_status ac_folder_make(const char *path) {
  struct stat info;
  if (mkdir(path, 0777) == 0) return AC_OK;
  const int error = errno;
  if (error == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot make the folder %s: %s", path, strerror(error));
}
