/** @file
 * Tokenizers: text to ids of tokens, and back, as the tokenizer of a published model does it.
 *
 * The file is a tokenizer.json, as Hugging Face's `tokenizers` writes it, a tokenizer.model of
 * SentencePiece, or a GGUF file with a tokenizer in it. The model may be BPE (of bytes, or of
 * characters with bytes for the rest), Unigram, WordPiece or WordLevel. What the file asks for and
 * this library does not have is refused by its name, never left out. */
#ifndef ACCRUE_TOKENIZER_H
#define ACCRUE_TOKENIZER_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A tokenizer. One thread at a time may use it, since it remembers words that it has seen. */
typedef struct ac_tokenizer ac_tokenizer;

/** Reads a tokenizer. `path` is a tokenizer.json, a tokenizer.model, a GGUF file, or a folder that
 * has a tokenizer.json or, without it, a tokenizer.model.
 *
 * The ids are those of `tokenizers`. Those of a tokenizer.model are SentencePiece's for plain text
 * (see ac_encode_desc); its control tokens are special tokens. Files next to a tokenizer.model may
 * add tokens and say what comes around a text: tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json. Without them a text begins with the model's token for a beginning, or, if it
 * has none, ends with that for an end.
 *
 * Fails with AC_ERROR_IO if the file cannot be read, with AC_ERROR_FORMAT if it is malformed, and
 * with AC_ERROR_UNSUPPORTED, and names it, if it asks for a step that the library does not have. */
AC_API ac_status ac_tokenizer_open(ac_tokenizer **tokenizer, const char *path);

/** Frees a tokenizer. */
AC_API void ac_tokenizer_free(ac_tokenizer *tokenizer);

/** The largest id + 1, added tokens included. A model's embedding has at least as many rows. */
AC_API uint32_t ac_tokenizer_vocabulary(const ac_tokenizer *tokenizer);

/** *id gets the id of the token with this text, such as "<|im_end|>". False, and *id stays as it
 * is, if there is no such token. */
AC_API bool ac_tokenizer_find(const ac_tokenizer *tokenizer, const char *text, uint32_t *id);

/** The bytes of a text that a token is for, of a special token its name; they may be a part of
 * a character. They belong to the tokenizer. NULL, and *bytes is 0, if no token has this id. */
AC_API const char *ac_tokenizer_token(const ac_tokenizer *tokenizer, uint32_t id, size_t *bytes);

/** Whether a token is special: it marks something, such as the end of a turn, and is not text. */
AC_API bool ac_tokenizer_is_special(const ac_tokenizer *tokenizer, uint32_t id);

/** How to encode. */
typedef struct ac_encode_desc {
  /** Adds the special tokens that the file puts around a text, such as a begin of text. */
  bool add_special;
  /** Names of special tokens in the text stay text. Set it for text from people who are not
   * trusted: else "<|im_end|>" in it ends a turn. */
  bool plain;
} ac_encode_desc;

/** The tokens of a text. */
typedef struct ac_encoding {
  size_t count;    /**< How many tokens there are. */
  uint32_t *ids;   /**< [count]. */
  uint32_t *begin; /**< [count]: where each token's text begins, in bytes of the text. */
  uint32_t *end;   /**< [count]: where it ends. For tokens that were added, begin and end are
                      equal. A token that is a part of a character has the bounds of the whole
                      character, unless it is a byte of the text itself. */
  size_t replaced; /**< Bytes of the text that are not UTF-8: each longest part of a character, or
                      else each byte, was read as U+FFFD. With a tokenizer.model, each byte was. */
} ac_encoding;

/** Encodes `bytes` bytes of UTF-8, at most 2^31 - 1. The same text always gives the same tokens.
 * The time grows with the length of the text, whatever is in it. ac_encoding_free frees the result,
 * which is all zeros if this fails. */
AC_API ac_status ac_tokenizer_encode(ac_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const ac_encode_desc *desc, ac_encoding *encoding);

/** Frees what an encoding holds, and sets it to zeros. */
AC_API void ac_encoding_free(ac_encoding *encoding);

/** The text of `count` tokens, as UTF-8 with a 0 after it; free() frees it. What is not UTF-8 gives
 * U+FFFD. Special tokens are left out if `skip_special`. *bytes, which may be NULL, gets the
 * length. Fails with AC_ERROR_ARGUMENT if no token has an id. */
AC_API ac_status ac_tokenizer_decode(char **text, size_t *bytes, const ac_tokenizer *tokenizer,
                                     const uint32_t *ids, size_t count, bool skip_special);

#ifdef __cplusplus
}
#endif
#endif
