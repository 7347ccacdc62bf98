/* JSON as text, whole or not at all. Jansson's own functions do not notice it where a key could not
 * be written or had no memory. */
#ifndef TOOLS_COMMON_JSON_TEXT_H
#define TOOLS_COMMON_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Free it; NULL for want of memory. `flags` are those of json_dumps. */
char *json_text(const json_t *json, size_t flags);

/* The same with numbers in as few digits as tell them, for files that people read. */
char *json_text_short(const json_t *json, size_t flags);

/* And a line break. False where that fails, with the reason in errno, or for want of memory. */
bool json_text_put(const json_t *json, size_t flags, FILE *stream);

/* A path or another text that need not be UTF-8, as a string: each byte that is not part of any
 * becomes U+FFFD. NULL for want of memory. */
json_t *json_text_name(const char *text);

/* Writes the file `path`. It replaces an old one when it is complete. `json` NULL: there was no
 * memory for it. Returns a status of message.h. */
int json_text_replace(const json_t *json, size_t flags, const char *path);

#endif
