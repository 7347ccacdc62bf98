/* The model of a tokenizer: a piece of text to ids. One kind a file: bpe.c, unigram.c, wordpiece.c
 * (with WordLevel). The tokens of a piece cover it from its beginning to its end, but for
 * characters that a model without an unknown token leaves out. */
#ifndef AC_TEXT_MODEL_H
#define AC_TEXT_MODEL_H

#include "text/trie.h"
#include "text/vocabulary.h"

#include <jansson.h>

typedef struct ac_token {
  uint32_t id, length; /* bytes of the piece */
} ac_token;

typedef struct ac_token_list {
  ac_token *list;
  size_t count, capacity;
} ac_token_list;

/* id AC_NO_TOKEN: bytes that no token is for. */
ac_status ac_token_list_add(ac_token_list *list, uint32_t id, size_t length);

typedef struct ac_text_model ac_text_model;

/* A kind of model. */
typedef struct ac_text_model_kind {
  const char *type; /* in tokenizer.json */
  /* Fills model->vocabulary and makes what the kind keeps. The sentence does not name the file. */
  ac_status (*read)(ac_text_model *model, const json_t *json);
  ac_status (*encode)(ac_text_model *model, const char *piece, size_t count, ac_token_list *tokens);
  void (*free)(void *own);
} ac_text_model_kind;

struct ac_text_model {
  const ac_text_model_kind *kind;
  ac_vocabulary vocabulary;
  bool bytes;             /* tokens are written as characters for bytes (ByteLevel) */
  uint32_t unknown;       /* AC_NO_TOKEN: none */
  uint32_t byte_ids[256]; /* of tokens <0x00> to <0xFF>; AC_NO_TOKEN: none */
  bool byte_fallback;
  bool plain;        /* special tokens are not found in a text */
  bool word_by_word; /* the words of a piece have the same tokens alone (ac_text_word_end) */
  void *own;         /* the kind's */
};

/* Models without pre-tokenizers get whole texts, with this mark, U+2581, for spaces. If no token
 * has it after another character, then no merge crosses the place before it, and each word can be
 * encoded alone, which is faster. */
#define AC_WORD_MARK "\xe2\x96\x81"
/* Where the first word of the text ends: before a mark that follows something else. */
size_t ac_text_word_end(const char *text, size_t count);

extern const ac_text_model_kind ac_text_bpe, ac_text_unigram, ac_text_wordpiece, ac_text_wordlevel;

ac_status ac_text_model_read(ac_text_model *model, const json_t *json, bool bytes);
void ac_text_model_free(ac_text_model *model);

/* A token as the file writes it to the bytes that it is for, where *bytes is set; one with
 * characters that are for none stays as it is, and *bytes becomes false. `to` has room for the
 * text. */
size_t ac_text_bytes_of(char *to, const char *text, size_t count, bool *bytes);

/* The id of the token that the file writes so; AC_NO_TOKEN: there is none. `room` has room for it.
 */
uint32_t ac_text_find_written(const ac_text_model *model, const char *text, size_t count,
                              char *room);
/* The id of the token with these bytes, if it may be found in a text. */
uint32_t ac_text_find(const ac_text_model *model, const char *bytes, size_t count);

static inline bool ac_text_is_hidden(const ac_text_model *model, uint32_t id) {
  return model->plain && ac_vocabulary_is_special(&model->vocabulary, id);
}

/* What all models read: {TOKEN: ID, ...}. */
ac_status ac_text_read_vocabulary(ac_text_model *model, const json_t *vocab);
/* The id of a member that names a token; AC_NO_TOKEN where it is null or absent. */
ac_status ac_text_read_unknown(ac_text_model *model, const json_t *json, const char *key);
/* Appends a character of the piece that no token is for: as bytes, or as unknown. */
ac_status ac_text_add_unknown(const ac_text_model *model, ac_token_list *tokens, const char *at,
                              size_t length);
/* Whether each byte of it has a token. */
bool ac_text_has_bytes(const ac_text_model *model, const char *at, size_t length);

#endif
