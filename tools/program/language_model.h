/* Language models at a path: a folder of Hugging Face's form, a configuration alone, a GGUF file,
 * or an adapter on one of these, as `accrue train llm` and PEFT write it. */
#ifndef TOOLS_PROGRAM_LANGUAGE_MODEL_H
#define TOOLS_PROGRAM_LANGUAGE_MODEL_H

#include "program/model_path.h"

#include <accrue/tokenizer.h>
#include <accrue/tokenizer.h>
#include <stdbool.h>
#include <stddef.h>
#include <stddef.h>

typedef struct language_model_path {
  char base[MODEL_PATH_BYTES];    /* what ac_model_open takes */
  char adapter[MODEL_PATH_BYTES]; /* the folder of an adapter; "": none */
} language_model_path;

/* Whether the path is of a language model, by what there is: a GGUF file, a .json file, or a folder
 * with config.json or adapter_config.json and without a model of another kind. */
bool language_model_is(const char *path);

/* Finds base and adapter. The base of an adapter is what its adapter_config.json names, absolute,
 * from the working folder on, or from the adapter's folder on. A status of message.h. */
int language_model_find(const char *flag, const char *path, language_model_path *found);

/* A hash of what a base consists of: names, sizes, and evenly spaced parts of the files with its
 * configuration and weights. 16 hexadecimal digits. A status of message.h. */
int language_model_fingerprint(const char *base, char text[17]);

/* Says so if an adapter that Accrue has written was trained on other weights than the base's: in
 * another form they are still of use, but those of another model give other texts. */
void language_model_compare_base(const char *adapter, const char *base);

/* The text of a token, in `text`. NULL: `id` is below 0, or there is no room for the text. */
const char *language_model_token(const ac_tokenizer *tokenizer, int32_t id, char *text,
                                 size_t size);

#endif
