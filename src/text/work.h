/* A text on its way to tokens: its bytes, for each the part of the given text that it comes from,
 * and the pieces that it has been cut into. */
#ifndef AC_TEXT_WORK_H
#define AC_TEXT_WORK_H

#include "core/error.h"

#include <stdint.h>

typedef struct ac_origin {
  uint32_t begin, end; /* in the given text */
} ac_origin;

typedef struct ac_text {
  char *bytes;
  ac_origin *origins; /* NULL: byte i comes from byte base + i */
  size_t count, capacity, origin_capacity;
  uint32_t base;
} ac_text;

typedef struct ac_piece {
  uint32_t begin, end; /* bytes of the text */
} ac_piece;

typedef struct ac_pieces {
  ac_piece *list;
  size_t count, capacity;
} ac_pieces;

/* Steps read the first text and its pieces, and may write the second ones. */
typedef struct ac_work {
  ac_text text, other;
  ac_pieces pieces, others;
} ac_work;

static inline ac_origin ac_text_origin(const ac_text *text, size_t byte) {
  if (text->origins) return text->origins[byte];
  return (ac_origin){text->base + (uint32_t)byte, text->base + (uint32_t)byte + 1};
}

/* The text becomes a copy of these bytes, from `base` on of the given text. */
ac_status ac_text_begin(ac_text *text, const char *bytes, size_t count, uint32_t base);
/* The text becomes empty, with origins to be appended. */
ac_status ac_text_clear(ac_text *text);
/* Appends bytes that are all from one part of the given text. */
ac_status ac_text_append(ac_text *text, const char *bytes, size_t count, ac_origin origin);
/* Appends bytes [begin, end) of another text as they are. */
ac_status ac_text_append_from(ac_text *text, const ac_text *from, size_t begin, size_t end);

ac_status ac_pieces_add(ac_pieces *pieces, size_t begin, size_t end); /* an empty one: nothing */

/* The second text, or pieces, become the first. */
void ac_work_swap_texts(ac_work *work);
void ac_work_swap_pieces(ac_work *work);
void ac_work_free(ac_work *work);

#endif
