/* The tokenizer that is in the metadata of a GGUF file, as a tokenizer.json. */
#ifndef AC_TEXT_GGUF_TOKENIZER_H
#define AC_TEXT_GGUF_TOKENIZER_H

#include <accrue/gguf.h>

#include <jansson.h>

/* llama.cpp's kinds of tokens. */
typedef enum ac_gguf_token {
  AC_GGUF_TOKEN_NORMAL = 1,
  AC_GGUF_TOKEN_UNKNOWN = 2,
  AC_GGUF_TOKEN_CONTROL = 3,
  AC_GGUF_TOKEN_USER_DEFINED = 4,
  AC_GGUF_TOKEN_UNUSED = 5,
  AC_GGUF_TOKEN_BYTE = 6
} ac_gguf_token;

/* What the file says about a token's place around a text; -1: nothing. */
int64_t ac_gguf_token_id(const ac_gguf_metadata *metadata, const char *key);

/* *json is a whole tokenizer.json, and json_decref frees it. `source` names the file in sentences.
 * Fails with AC_ERROR_UNSUPPORTED, and names it, if the vocabulary is of a kind that this library
 * does not know; with AC_ERROR_FORMAT if it is malformed. */
ac_status ac_gguf_tokenizer_json(json_t **json, const ac_gguf_metadata *metadata,
                                 const char *source);

#endif
