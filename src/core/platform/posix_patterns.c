/* POSIX. */
#include "core/platform/patterns.h"

#include <fnmatch.h>
#include <string.h>

bool ac_pattern_next(const char **text, char pattern[AC_PATTERN_BYTES]) {
  if (!*text) return false;
  const size_t length = strcspn(*text, ","), kept = length < AC_PATTERN_BYTES ? length : 0;
  memcpy(pattern, *text, kept);
  pattern[kept] = 0;
  *text = (*text)[length] ? *text + length + 1 : NULL;
  return true;
}

bool ac_pattern_matches(const char *pattern, const char *name) {
  return fnmatch(pattern, name, 0) == 0;
}

bool ac_patterns_match(const char *patterns, const char *name) {
  char pattern[AC_PATTERN_BYTES];
  bool matches = false;
  while (!matches && ac_pattern_next(&patterns, pattern))
    matches = ac_pattern_matches(pattern, name);
  return matches;
}
