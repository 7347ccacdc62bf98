/* How a file takes the place of another: for files that appear whole (atomic_file.h), and for those
 * of the program, which compiles posix_replacement.c itself (tools/common/replacement.c). What
 * fails leaves its reason in errno. */
#ifndef AC_CORE_PLATFORM_REPLACEMENT_H
#define AC_CORE_PLATFORM_REPLACEMENT_H

#include <stdbool.h>

enum { AC_REPLACEMENT_PATH = 4096 };

/* Replaces the path of a symbolic link by its target, which need not exist. ENAMETOOLONG: `path` is
 * the link with too long a target; ESTALE: what the link leads to has no name any more. */
bool ac_replacement_follow(char path[AC_REPLACEMENT_PATH]);

/* Opens a new file next to `path` to write, with the permissions of any other new file, and puts
 * its name into `temporary`. Returns the descriptor, or -1. */
int ac_replacement_create(const char *path, char temporary[AC_REPLACEMENT_PATH]);

/* Renames it to `path`, and waits until the folder has that. */
bool ac_replacement_commit(const char *temporary, const char *path);

#endif
