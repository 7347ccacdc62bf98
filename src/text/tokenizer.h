/* What a tokenizer is made of, in the order in which a text goes through it: added tokens are cut
 * out of the given text; what is between them is normalized, and added tokens that are to be found
 * in normalized text are cut out of that; the rest becomes pieces, and the model has the tokens of
 * each piece. At the end come the special tokens around a text. */
#ifndef AC_TEXT_TOKENIZER_H
#define AC_TEXT_TOKENIZER_H

#include <accrue/tokenizer.h>

#include "text/model.h"
#include "text/sentencepiece.h"
#include "text/steps.h"

/* A token that is found before a text is cut into pieces. */
typedef struct ac_added_token {
  char *text;
  size_t bytes;
  uint32_t id;
  bool special, normalized;
  bool single_word;    /* not within a word */
  bool lstrip, rstrip; /* spaces before or after it belong to it */
} ac_added_token;

typedef struct ac_id_list {
  uint32_t *ids;
  size_t count, capacity;
} ac_id_list;

/* How the tokens' texts become one text again. */
typedef enum ac_decode_kind {
  AC_DECODE_REPLACE,
  AC_DECODE_BYTES, /* <0x0A> is a byte */
  AC_DECODE_FUSE,
  AC_DECODE_STRIP,
  AC_DECODE_METASPACE,
  AC_DECODE_WORDPIECE,
  AC_DECODE_SUFFIX
} ac_decode_kind;

typedef struct ac_decode_step {
  ac_decode_kind kind;
  char *from, *to; /* texts */
  int start, stop; /* STRIP: how often, at most */
  bool flag; /* METASPACE: the marks of the first token go; WORDPIECE: tidies spaces; BYTES: those
                in a row that are not UTF-8 become U+FFFD, else all of them do */
} ac_decode_step;

typedef struct ac_decoder {
  ac_decode_step *list;
  size_t count, capacity;
  bool spaces; /* there is none: spaces between tokens */
} ac_decoder;

ac_status ac_decoder_read(ac_decoder *decoder, const json_t *json);
/* Appends a step; texts may be NULL. */
ac_status ac_decoder_add(ac_decoder *decoder, ac_decode_kind kind, const char *from, const char *to,
                         ac_decode_step **step);
void ac_decoder_free(ac_decoder *decoder);

/* Tokens of a short piece, remembered. */
enum { AC_CACHED_BYTES = 44, AC_CACHED_TOKENS = 14, AC_CACHE_ENTRIES = 1 << 14 };
typedef struct ac_cached_piece {
  uint32_t ids[AC_CACHED_TOKENS];
  uint8_t lengths[AC_CACHED_TOKENS];
  uint8_t bytes, tokens; /* bytes 0: nothing is here */
  bool plain;            /* as of the model */
  char text[AC_CACHED_BYTES];
} ac_cached_piece;

struct ac_tokenizer {
  ac_steps normalizer, pieces;
  ac_text_model model;
  ac_added_token *added;
  size_t added_count, added_capacity;
  ac_trie raw, normal;      /* of added tokens; values are indices of `added` */
  ac_id_list before, after; /* special tokens around a text */
  ac_decoder decoder;
  bool single_bytes; /* that are not UTF-8 are U+FFFD each, not the longest part of a character */
  ac_work normalized, work;
  ac_token_list tokens;
  ac_cached_piece *cache; /* NULL until it is used */
};

/* Bytes of a text in which names of special tokens stay text. */
typedef struct ac_plain_range {
  size_t begin, end;
} ac_plain_range;

/* How to encode a text with parts from people: names of special tokens are found but in these
 * ranges, which are in order and do not overlap. The tokens are those of the whole text. */
typedef struct ac_ranges {
  const ac_plain_range *list;
  size_t count;
  bool add_special; /* as in ac_encode_desc */
} ac_ranges;

/* *named: how many names of special tokens stay text. */
ac_status ac_tokenizer_encode_ranges(ac_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const ac_ranges *ranges, ac_encoding *encoding, size_t *named);

/* Adds what the tokenizer.json has; the sentence of a failure does not name the file. */
ac_status ac_tokenizer_read_json(ac_tokenizer *tokenizer, const json_t *json);
/* The same of a tokenizer.model. `settings` is the tokenizer_config.json next to it, `map` the
 * special_tokens_map.json, `added` the added_tokens.json; each may be NULL. */
ac_status ac_tokenizer_read_sentencepiece(ac_tokenizer *tokenizer, const void *data, size_t bytes,
                                          const json_t *settings, const json_t *map,
                                          const json_t *added);
/* The same of a GGUF file; the sentence names it. */
ac_status ac_tokenizer_read_gguf(ac_tokenizer *tokenizer, const char *path);
/* The tokenizer is one of SentencePiece, with control tokens as special ones, but without tokens
 * around a text. */
ac_status ac_tokenizer_make(ac_tokenizer *tokenizer, const ac_sentencepiece *from);

/* Adds a token; its members say how it is found, and its text and id are copied. If the vocabulary
 * has the text, the token is that one. */
ac_status ac_tokenizer_add(ac_tokenizer *tokenizer, const ac_added_token *token);
/* Adds one as a tokenizer.json has it. */
ac_status ac_tokenizer_add_json(ac_tokenizer *tokenizer, const json_t *json);
/* After all have been added: they can be found. */
ac_status ac_tokenizer_list_added(ac_tokenizer *tokenizer);
ac_status ac_id_list_add(ac_id_list *list, uint32_t id);

#endif
