/* How byte-level vocabularies cut a text before words are looked up: llama.cpp knows the ways by
 * names (tokenizer.ggml.pre), a tokenizer.json has them as steps. */
#ifndef AC_TEXT_PRE_TOKENIZERS_H
#define AC_TEXT_PRE_TOKENIZERS_H

#include <jansson.h>
#include <stdbool.h>

typedef struct ac_pre_tokenizer {
  const char *name;  /* of tokenizer.ggml.pre */
  const char *steps; /* the steps before the bytes: a regex each, or "D": each digit by itself */
  bool words;        /* after the steps, GPT-2's pattern */
  bool whole_words;  /* a word that is a token stays one, whatever the merges say */
  bool begins;       /* a text begins with the begin token unless the file says otherwise */
  bool composed;     /* texts are in NFC: in tokenizer.json alone, llama.cpp leaves that out */
} ac_pre_tokenizer;

/* NULL: this library does not know it. */
const ac_pre_tokenizer *ac_pre_tokenizer_named(const char *name);
/* The one that the `pre_tokenizer` of a tokenizer.json is; NULL: it is none of them. */
const ac_pre_tokenizer *ac_pre_tokenizer_of(const json_t *steps, bool whole_words);
/* As the `pre_tokenizer` of a tokenizer.json; NULL: no memory. */
json_t *ac_pre_tokenizer_json(const ac_pre_tokenizer *pre);

#endif
