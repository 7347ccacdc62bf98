/* What a SentencePiece model says: a file tokenizer.model, or a GGUF file of kind `llama`. */
#ifndef AC_TEXT_SENTENCEPIECE_H
#define AC_TEXT_SENTENCEPIECE_H

#include "text/charsmap.h"
#include "text/model.h"
#include "text/steps.h"

/* As both formats number them. */
typedef enum ac_token_kind {
  AC_TOKEN_NORMAL = 1,
  AC_TOKEN_UNKNOWN,
  AC_TOKEN_CONTROL,
  AC_TOKEN_USER_DEFINED, /* found before all others */
  AC_TOKEN_UNUSED,
  AC_TOKEN_BYTE
} ac_token_kind;

enum { AC_MOST_OF_TOKEN = 8000 };

typedef struct ac_sentencepiece_token {
  const char *text; /* without a 0 at its end */
  size_t bytes;
  float score;
  ac_token_kind kind;
} ac_sentencepiece_token;

typedef struct ac_sentencepiece {
  ac_sentencepiece_token *tokens; /* by id; their texts belong to the file's bytes */
  size_t count, capacity;
  bool bpe; /* else Unigram */
  bool byte_fallback;
  const unsigned char *charsmap; /* NULL: there is none */
  size_t charsmap_bytes;
  bool prefix;  /* a space before a text; with `after`, after it */
  bool squeeze; /* spaces at the ends go, and of those in a row all but one */
  bool escape;  /* spaces become AC_WORD_MARK */
  bool after;
  bool first; /* the space comes only where the given text begins, not after special tokens */
  const char *begin, *end; /* names of control tokens; NULL: "<s>" and "</s>" */
  size_t begin_bytes, end_bytes;
} ac_sentencepiece;

/* Whether tokens of this kind are found in a text. */
static inline bool ac_sentencepiece_is_text(ac_token_kind kind) {
  return kind == AC_TOKEN_NORMAL || kind == AC_TOKEN_USER_DEFINED || kind == AC_TOKEN_UNUSED;
}

/* Reads a tokenizer.model, which stays in memory as long as `to` is used; free(to->tokens) frees
 * what is made, also if it fails. The sentence of a failure does not name the file. */
ac_status ac_sentencepiece_read(ac_sentencepiece *to, const void *data, size_t bytes);

/* User-defined tokens, with their ids. */
ac_status ac_sentencepiece_user_trie(const ac_sentencepiece *from, ac_trie *trie);

/* The one step of the normalizer. */
ac_status ac_steps_add_sentences(ac_steps *steps, const ac_sentencepiece *from);

/* Models of tokens with scores; the vocabulary is there. */
ac_status ac_text_bpe_by_scores(ac_text_model *model, const ac_sentencepiece *from);
ac_status ac_text_unigram_by_scores(ac_text_model *model, const ac_sentencepiece *from);

/* All of the model, the vocabulary included. */
ac_status ac_text_model_make(ac_text_model *model, const ac_sentencepiece *from);

#endif
