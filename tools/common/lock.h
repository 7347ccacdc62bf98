/* Locks that keep a second run out of a folder or a file. A lock ends with the process. */
#ifndef TOOLS_COMMON_LOCK_H
#define TOOLS_COMMON_LOCK_H

#include <stdbool.h>

/* Locks the file of the descriptor. False: another process holds the lock. If no lock is possible
 * (some network file systems; a folder that may not be read: then the descriptor is below 0 and
 * errno says why), it prints once that `path` is not protected, and returns true. *held (may be
 * NULL): whether this process has the lock now. */
bool lock_take(int descriptor, const char *path, bool *held);

#endif
