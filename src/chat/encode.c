/* A rendered text as tokens. */
#include "chat/encode.h"

#include "core/error.h"
#include "text/tokenizer.h"

#include <stdlib.h>

/* Spans of messages, which are in order, as the tokenizer takes them. free() frees them. */
static ac_status plain_ranges(const ac_chat_text *text, ac_plain_range **ranges, size_t *count) {
  *count = 0;
  *ranges = malloc((text->span_count + 1) * sizeof **ranges);
  if (!*ranges) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu spans", text->span_count);
  for (size_t i = 0; i < text->span_count; i++) {
    const ac_chat_span *span = &text->spans[i];
    if (span->content) (*ranges)[(*count)++] = (ac_plain_range){span->begin, span->end};
  }
  return AC_OK;
}

/* A token is learned if some of its bytes are. Tokens are in the order of the text, but a character
 * that is several tokens gives each its own bounds. */
static ac_status mark_learned(const ac_chat_text *text, const ac_encoding *encoding,
                              bool **learned) {
  bool *marks = calloc(encoding->count + 1, sizeof *marks);
  if (!marks) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu tokens", encoding->count);
  size_t span = 0;
  for (size_t i = 0; i < encoding->count; i++) {
    const size_t begin = encoding->begin[i], end = encoding->end[i];
    while (span < text->span_count && text->spans[span].end <= begin) span++;
    for (size_t s = span; s < text->span_count && text->spans[s].begin < end; s++)
      marks[i] = marks[i] || text->spans[s].learned;
  }
  *learned = marks;
  return AC_OK;
}

static ac_status check_spans(const ac_chat_text *text) {
  size_t at = 0;
  for (size_t i = 0; i < text->span_count; i++) {
    const ac_chat_span *span = &text->spans[i];
    if (span->begin != at || span->end < at || span->end > text->bytes) break;
    at = span->end;
  }
  if (at == text->bytes) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "chat: the spans do not cover the text, one after the other");
}

ac_status ac_chat_encode_text(ac_tokenizer *tokenizer, const ac_chat_text *text, bool add_special,
                              ac_encoding *encoding, bool **learned, size_t *named) {
  ac_ranges ranges = {.add_special = add_special};
  ac_plain_range *list;
  *encoding = (ac_encoding){0};
  AC_TRY(plain_ranges(text, &list, &ranges.count));
  ranges.list = list;
  ac_status status =
      ac_tokenizer_encode_ranges(tokenizer, text->text, text->bytes, &ranges, encoding, named);
  free(list);
  if (status == AC_OK && learned) status = mark_learned(text, encoding, learned);
  if (status != AC_OK) ac_encoding_free(encoding);
  return status;
}

ac_status ac_chat_encode(ac_tokenizer *tokenizer, const ac_chat_text *text, ac_encoding *encoding,
                         bool **learned) {
  size_t named;
  if (learned) *learned = NULL;
  AC_REQUIRE(encoding);
  *encoding = (ac_encoding){0};
  AC_REQUIRE(tokenizer, text);
  if (text->bytes) AC_REQUIRE(text->text);
  if (text->span_count) AC_REQUIRE(text->spans);
  AC_TRY(check_spans(text));
  return ac_chat_encode_text(tokenizer, text, false, encoding, learned, &named);
}
