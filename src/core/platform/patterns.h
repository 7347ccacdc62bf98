/* Names by patterns, as a shell's: `*` any characters, `?` one, `[...]` one of these. A text may
 * hold several, with commas between. */
#ifndef AC_CORE_PLATFORM_PATTERNS_H
#define AC_CORE_PLATFORM_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

/* The longest single pattern. */
enum { AC_PATTERN_BYTES = 256 };

/* Copies the next pattern of *text and moves *text past it; false at the end. A pattern that is
 * empty or too long becomes "". */
bool ac_pattern_next(const char **text, char pattern[AC_PATTERN_BYTES]);

bool ac_pattern_matches(const char *pattern, const char *name);
/* Whether one of the patterns does. */
bool ac_patterns_match(const char *patterns, const char *name);

#endif
