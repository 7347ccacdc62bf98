/* Locks that keep a second run from a folder or a file. A lock goes with the process. */
#ifndef TOOLS_COMMON_LOCK_H
#define TOOLS_COMMON_LOCK_H

#include <stdbool.h>

/* Locks what the descriptor is of. False: another process holds the lock. Where there is none to be
 * had (some network file systems, a folder that may not be read: then the descriptor is below 0 and
 * errno says why), it says once that nothing protects `path`, and is true. *held (may be
 * NULL): whether this process has the lock now. */
bool lock_take(int descriptor, const char *path, bool *held);

#endif
