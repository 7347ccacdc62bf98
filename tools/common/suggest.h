/* What somebody may have meant by a word that is not known: names that other programs have for the
 * same thing, and slips of the keyboard. */
#ifndef TOOLS_COMMON_SUGGEST_H
#define TOOLS_COMMON_SUGGEST_H

#include <stddef.h>

/* How many letters have to be put in, taken out or exchanged to make `b` of the first `a_length`
 * characters of `a` (Levenshtein's distance). 64 where `b` is not a short word. */
int suggest_distance(const char *a, size_t a_length, const char *b);

/* The flag that other programs call by these characters: "lr" for "learning-rate". NULL: none is
 * known. */
const char *suggest_flag(const char *name, size_t length);

/* Likewise a value: "adamw" for "adam". */
const char *suggest_value(const char *value);

/* Likewise a command: "sample" for "generate". */
const char *suggest_command(const char *name);

/* Likewise a model, in letters of any case: "gpt" for "GPT2". */
const char *suggest_model(const char *name);

#endif
