/* What a tokenizer is made of, in the order in which a text goes through it: added tokens are cut
 * out of the given text; what is between them is normalized, and added tokens that are to be found
 * in normalized text are cut out of that; the rest becomes pieces, and the model has the tokens of
 * each piece. At the end come the special tokens around a text. */
#ifndef AC_TEXT_TOKENIZER_H
#define AC_TEXT_TOKENIZER_H

#include <accrue/tokenizer.h>

#include "text/model.h"
#include "text/steps.h"

/* A token that is found before a text is cut into pieces. */
typedef struct ac_added_token {
  char *text;
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
  bool flag;       /* METASPACE: the marks of the first token go; WORDPIECE: tidies spaces */
} ac_decode_step;

typedef struct ac_decoder {
  ac_decode_step *list;
  size_t count, capacity;
  bool spaces; /* there is none: spaces between tokens */
} ac_decoder;

ac_status ac_decoder_read(ac_decoder *decoder, const json_t *json);
void ac_decoder_free(ac_decoder *decoder);

/* Tokens of a short piece, remembered. */
enum { AC_CACHED_BYTES = 21, AC_CACHED_TOKENS = 8, AC_CACHE_ENTRIES = 1 << 14 };
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
  ac_work normalized, work;
  ac_token_list tokens;
  ac_cached_piece *cache; /* NULL until it is used */
};

/* Bytes of a text in which names of special tokens stay text. */
typedef struct ac_plain_range {
  size_t begin, end;
} ac_plain_range;

/* How to encode a text of which parts are from people: names of special tokens are found but in
 * these ranges, which are in order and do not overlap. The tokens are those of the whole text. */
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

#endif
