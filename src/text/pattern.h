/* Regular expressions of tokenizers, by PCRE2. They are written for Oniguruma, in which \s, \w and
 * \d mean Unicode's sets, and ^ and $ a line's ends; these mean the same here. What Oniguruma reads
 * in another way, or what splits a text where it matches nothing, is refused. */
#ifndef AC_TEXT_PATTERN_H
#define AC_TEXT_PATTERN_H

#include "core/error.h"

typedef struct ac_pattern ac_pattern;

/* `literal`: the text itself, not a regular expression. */
ac_status ac_pattern_make(ac_pattern **pattern, const char *text, bool literal);
void ac_pattern_free(ac_pattern *pattern);

/* The next match at `from` or later; matches are never empty. *begin and *end are `count` if there
 * is none.
 */
ac_status ac_pattern_find(ac_pattern *pattern, const char *text, size_t count, size_t from,
                          size_t *begin, size_t *end);

#endif
