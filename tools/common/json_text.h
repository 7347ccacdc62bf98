/* JSON as text, complete or not at all. Jansson's own functions do not notice if a key could not be
 * written or memory was missing. */
#ifndef TOOLS_COMMON_JSON_TEXT_H
#define TOOLS_COMMON_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Free it; NULL: there was no memory. `flags` are those of json_dumps. */
char *json_text(const json_t *json, size_t flags);

/* The same with as few digits as identify each number, for files that people read. */
char *json_text_short(const json_t *json, size_t flags);

/* The same to a stream, with a line break. False if that fails, with the reason in errno, or if
 * there is no memory. */
bool json_text_put(const json_t *json, size_t flags, FILE *stream);

/* A path or another text that may not be UTF-8, as a JSON string: each byte that is not UTF-8
 * becomes U+FFFD. NULL: there was no memory. */
json_t *json_text_name(const char *text);

/* Writes the file `path`. It replaces an old one when it is complete. `json` NULL: there was no
 * memory for it. Returns a status of message.h. */
int json_text_replace(const json_t *json, size_t flags, const char *path);

#endif
