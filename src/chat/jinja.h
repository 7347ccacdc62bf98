/* The text of a Jinja template without what never changes its result. */
#ifndef AC_CHAT_JINJA_H
#define AC_CHAT_JINJA_H

#include <accrue/base.h>

/* A hash of the template, the same for two that differ only in
 *
 * - blanks and new lines that Jinja removes, with trim_blocks and lstrip_blocks as Hugging Face
 *   sets them, and the marks `-` that ask for it;
 * - blanks within tags, outside of texts;
 * - comments;
 * - the kind of quotes of a text, and new lines in it that are written as \n;
 * - a['b'] and a.b, but for names of methods of a mapping. */
ac_status ac_chat_jinja_hash(uint64_t *hash, const char *jinja);

#endif
