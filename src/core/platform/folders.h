/* Folders: all files in one, and the one for caches. */
#ifndef AC_CORE_PLATFORM_FOLDERS_H
#define AC_CORE_PLATFORM_FOLDERS_H

#include <accrue/base.h>
#include <stdbool.h>

/* Every regular file below a folder, sorted by path (bytes), or the path itself if it is a file.
 * Free with ac_paths_free. */
typedef struct ac_paths {
  char **path;
  size_t count;
} ac_paths;
/* Chooses paths below a folder: those that `takes` (may be NULL: all) says yes to. If it refuses a
 * folder, nothing in that is chosen. */
typedef struct ac_path_choice {
  bool (*takes)(void *user, const char *path, bool is_folder);
  void *user;
  bool links; /* to folders are followed, but none below another one */
} ac_path_choice;
ac_status ac_paths_list(ac_paths *paths, const char *path, const ac_path_choice *choice);
void ac_paths_free(ac_paths *paths);

/* Makes a folder, in one that is there, unless it is there already. */
ac_status ac_folder_make(const char *path);

/* The cache folder for `name` ("programs"), created if missing: $ACCRUE_CACHE_DIR, else
 * $XDG_CACHE_HOME/accrue, else ~/.cache/accrue. False if there is none that can be written to. */
bool ac_cache_folder(char *path, size_t size, const char *name);

#endif
