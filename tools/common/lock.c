#include "common/lock.h"

#include "common/message.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>

bool lock_take(int descriptor, const char *path, bool *held) {
  static bool said;
  int result;
  do result = descriptor < 0 ? -1 : flock(descriptor, LOCK_EX | LOCK_NB);
  while (descriptor >= 0 && result != 0 && errno == EINTR);
  if (held) *held = result == 0;
  if (result == 0) return true;
  if (descriptor >= 0 && errno == EWOULDBLOCK) return false;
  if (!said)
    say("%s cannot be locked (%s): a second run could write there at the same time", path,
        strerror(errno));
  said = true;
  return true;
}
