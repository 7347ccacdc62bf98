/* What happens to a text before its words are looked up: normalizers change it, pre-tokenizers cut
 * it into pieces and may also change it. */
#ifndef AC_TEXT_STEPS_H
#define AC_TEXT_STEPS_H

#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/unicode.h"
#include "text/work.h"

#include <jansson.h>

typedef enum ac_step_kind {
  AC_STEP_NORMAL_FORM, /* NFC and the like */
  AC_STEP_LOWERCASE,
  AC_STEP_NO_MARKS,  /* removes accents and the like */
  AC_STEP_STRIP,     /* spaces at the ends */
  AC_STEP_REPLACE,   /* what matches the pattern, by `text` */
  AC_STEP_PREPEND,   /* `text`, to every piece; see `first` and `unless_there` */
  AC_STEP_CLEAN,     /* controls go, spaces become ' ' */
  AC_STEP_APART,     /* spaces around ideographs */
  AC_STEP_CHARSMAP,  /* SentencePiece's table */
  AC_STEP_SENTENCES, /* all of SentencePiece's normalizer (sentencepiece.h) */
  AC_STEP_SPLIT      /* by the pattern */
} ac_step_kind;

typedef struct ac_sentences ac_sentences;

/* What becomes of a match of the pattern that a piece is split by. */
typedef enum ac_split_behaviour {
  AC_SPLIT_REMOVED,
  AC_SPLIT_ISOLATED,
  AC_SPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
  AC_SPLIT_WITH_PREVIOUS,
  AC_SPLIT_WITH_NEXT
} ac_split_behaviour;

typedef struct ac_step {
  ac_step_kind kind;
  ac_normal_form form;
  bool left, right;    /* STRIP */
  bool spacing_too;    /* NO_MARKS: also marks that take space */
  char *text;          /* REPLACE, PREPEND */
  ac_pattern *pattern; /* REPLACE, SPLIT */
  ac_split_behaviour behaviour;
  bool invert;       /* what does not match counts as a match */
  bool first;        /* PREPEND: only to what the given text begins with */
  bool unless_there; /* PREPEND: not to what begins with it */
  ac_charsmap charsmap;
  ac_sentences *sentences;
} ac_step;

typedef struct ac_steps {
  ac_step *list;
  size_t count, capacity;
  bool bytes; /* the last one is ByteLevel: tokens are written as characters for bytes */
} ac_steps;

/* "normalizer" and "pre_tokenizer" of a tokenizer.json; NULL or null: none. The sentence of a
 * failure does not name the file. */
ac_status ac_steps_read(ac_steps *steps, const json_t *json);
void ac_steps_free(ac_steps *steps);

ac_status ac_sentences_run(const ac_sentences *sentences, ac_text *to, const ac_text *from,
                           ac_piece piece);
void ac_sentences_free(ac_sentences *sentences);

/* All of them, one after the other. */
ac_status ac_steps_run(const ac_steps *steps, ac_work *work);

/* The text of a member of an object; NULL: it is not there, or no text, or has a 0 in it. */
const char *ac_json_text(const json_t *object, const char *key);
bool ac_json_bool(const json_t *object, const char *key, bool otherwise);

#endif
