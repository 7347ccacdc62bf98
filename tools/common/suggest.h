/* What the user may have meant by an unknown word: names of other programs for the same thing, and
 * typing errors. */
#ifndef TOOLS_COMMON_SUGGEST_H
#define TOOLS_COMMON_SUGGEST_H

#include <stddef.h>

/* How many letters must be inserted, removed or replaced to turn the first `a_length` characters of
 * `a` into `b` (Levenshtein's distance). 64 if `b` is not a short word. */
int suggest_distance(const char *a, size_t a_length, const char *b);

/* The flag that other programs call by these characters: "lr" for "learning-rate". NULL: none is
 * known. */
const char *suggest_flag(const char *name, size_t length);

/* The same for a value: "adamw" for "adam". */
const char *suggest_value(const char *value);

/* The same for a command: "sample" for "generate". */
const char *suggest_command(const char *name);

/* Likewise a model, in letters of any case: "gpt" for "GPT2". */
const char *suggest_model(const char *name);

#endif
