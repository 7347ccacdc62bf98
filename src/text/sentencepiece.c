/* SentencePiece's normalizer, and its vocabulary.
 *
 * The normalizer goes through a text once. A user-defined token stays as it is; else the longest
 * string of the table becomes what the table says; else a character stays. Where spaces are
 * squeezed, those at the beginning of a part go if a space is before it, and so do those at the
 * ends. Bytes that are not UTF-8 are U+FFFD by now, each, and the table does not see them. */
#include "text/sentencepiece.h"

#include "core/quote.h"
#include "text/room.h"

#include <math.h>
#include <stdio.h>

struct ac_sentences {
  ac_charsmap charsmap;
  ac_trie user;
  bool prefix, squeeze, escape, after, first;
  bool plain[256]; /* a character that begins with this byte stays as it is, and is not a space */
};

/* ---- reading --------------------------------------------------------------------------------- */

ac_status ac_sentencepiece_user_trie(const ac_sentencepiece *from, ac_trie *trie) {
  size_t count = 0;
  for (size_t i = 0; i < from->count; i++) count += from->tokens[i].kind == AC_TOKEN_USER_DEFINED;
  *trie = (ac_trie){0};
  if (!count) return AC_OK;
  ac_trie_string *strings = calloc(count, sizeof *strings);
  if (!strings) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", count);
  count = 0;
  for (size_t i = 0; i < from->count; i++) {
    const ac_sentencepiece_token *token = &from->tokens[i];
    if (token->kind == AC_TOKEN_USER_DEFINED)
      strings[count++] = (ac_trie_string){token->text, token->bytes, (uint32_t)i};
  }
  const ac_status status = ac_trie_build(trie, strings, count);
  free(strings);
  return status;
}

ac_status ac_steps_add_sentences(ac_steps *steps, const ac_sentencepiece *from) {
  AC_TRY(AC_ROOM(steps->list, steps->capacity, steps->count + 1));
  ac_sentences *s = calloc(1, sizeof *s);
  if (!s) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a step");
  steps->list[steps->count++] = (ac_step){.kind = AC_STEP_SENTENCES, .sentences = s};
  s->prefix = from->prefix;
  s->squeeze = from->squeeze;
  s->escape = from->escape;
  s->after = from->after;
  s->first = from->first;
  if (from->charsmap)
    AC_TRY(ac_charsmap_read_bytes(&s->charsmap, from->charsmap, from->charsmap_bytes));
  AC_TRY(ac_sentencepiece_user_trie(from, &s->user));
  for (int byte = 1; byte < 256; byte++) {
    const bool replaced = byte == 0xef; /* U+FFFD may begin with it */
    s->plain[byte] = byte != ' ' && !replaced && !(s->user.nodes && s->user.root[byte]) &&
                     !(s->charsmap.units && ac_charsmap_begins(&s->charsmap, (unsigned char)byte));
  }
  return AC_OK;
}

void ac_sentences_free(ac_sentences *sentences) {
  if (!sentences) return;
  ac_charsmap_free(&sentences->charsmap);
  ac_trie_free(&sentences->user);
  free(sentences);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* A part of the text, and what it becomes. */
typedef struct part {
  const char *text;
  size_t length;
  size_t end; /* of the part */
} part;

/* U+FFFD in the place of a byte that is not UTF-8: all three bytes are from that byte. */
static bool is_replaced(const ac_text *from, size_t at, size_t stop) {
  if (!from->origins || stop - at < 3 || memcmp(from->bytes + at, AC_REPLACEMENT, 3)) return false;
  return from->origins[at].begin == from->origins[at + 2].begin;
}

static part part_at(const ac_sentences *s, const ac_text *from, size_t at, size_t stop) {
  const char *bytes = from->bytes + at;
  size_t length = 0;
  if (s->user.nodes && ac_trie_longest(&s->user, bytes, stop - at, &length) != AC_NO_TOKEN)
    return (part){bytes, length, at + length};
  if (s->charsmap.units && !is_replaced(from, at, stop)) {
    const char *by = ac_charsmap_longest(&s->charsmap, bytes, stop - at, &length);
    if (by) return (part){by, strlen(by), at + length};
  }
  length = ac_utf8_length(*bytes);
  if (length > stop - at) length = stop - at;
  return (part){bytes, length, at + length};
}

static ac_status put_space(const ac_sentences *s, ac_text *to, ac_origin origin) {
  return s->escape ? ac_text_append(to, AC_WORD_MARK, strlen(AC_WORD_MARK), origin)
                   : ac_text_append(to, " ", 1, origin);
}

/* Spaces become marks. */
static ac_status put_part(const ac_sentences *s, ac_text *to, const char *text, size_t length,
                          ac_origin origin) {
  for (size_t at = 0, run; at < length; at += run) {
    const char *space = s->escape ? memchr(text + at, ' ', length - at) : NULL;
    run = space ? (size_t)(space - (text + at)) : length - at;
    AC_TRY(ac_text_append(to, text + at, run, origin));
    if (!space) return AC_OK;
    AC_TRY(put_space(s, to, origin));
    run++;
  }
  return AC_OK;
}

static ac_origin origin_of(const ac_text *text, size_t begin, size_t end) {
  return (ac_origin){ac_text_origin(text, begin).begin, ac_text_origin(text, end - 1).end};
}

/* The body of a text; `space`: one is before it. */
static ac_status put_all(const ac_sentences *s, ac_text *to, const ac_text *from, ac_piece piece) {
  bool space = s->squeeze;
  for (size_t at = piece.begin, end; at < piece.end; at = end) {
    for (end = at; end < piece.end && s->plain[(unsigned char)from->bytes[end]];)
      end += ac_utf8_length(from->bytes[end]);
    if (end > piece.end) end = piece.end;
    if (end > at) {
      AC_TRY(ac_text_append_from(to, from, at, end));
      space = false;
      continue;
    }
    part p = part_at(s, from, at, piece.end);
    end = p.end;
    for (; space && p.length && *p.text == ' '; p.length--) p.text++;
    if (!p.length) continue;
    AC_TRY(put_part(s, to, p.text, p.length, origin_of(from, at, end)));
    space = s->squeeze && p.text[p.length - 1] == ' ';
  }
  return AC_OK;
}

static void drop_spaces(const ac_sentences *s, ac_text *to, size_t first) {
  const char *space = s->escape ? AC_WORD_MARK : " ";
  const size_t length = strlen(space);
  while (to->count - first >= length && !memcmp(to->bytes + to->count - length, space, length))
    to->count -= length;
}

ac_status ac_sentences_run(const ac_sentences *s, ac_text *to, const ac_text *from,
                           ac_piece piece) {
  const size_t first = to->count;
  const ac_origin begin = {ac_text_origin(from, piece.begin).begin,
                           ac_text_origin(from, piece.begin).begin};
  const ac_origin end = {ac_text_origin(from, piece.end - 1).end,
                         ac_text_origin(from, piece.end - 1).end};
  while (s->squeeze && piece.begin < piece.end) {
    const part p = part_at(s, from, piece.begin, piece.end);
    if (p.length != 1 || *p.text != ' ') break;
    piece.begin = (uint32_t)p.end;
  }
  if (piece.begin == piece.end) return AC_OK;
  const bool padded = s->prefix && (!s->first || !begin.begin);
  if (padded && !s->after) AC_TRY(put_space(s, to, begin));
  AC_TRY(put_all(s, to, from, piece));
  if (s->squeeze) drop_spaces(s, to, first);
  return padded && s->after ? put_space(s, to, end) : AC_OK;
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

static ac_status check_token(const ac_sentencepiece_token *token, size_t id) {
  if (!token->bytes) return ac_fail(AC_ERROR_FORMAT, "token %zu has no text", id);
  if (token->bytes > AC_MOST_OF_TOKEN)
    return ac_fail(AC_ERROR_FORMAT, "token %zu has more than %d bytes", id, AC_MOST_OF_TOKEN);
  if (isnan(token->score))
    return ac_fail(AC_ERROR_FORMAT, "the score of token %zu is not a number", id);
  return AC_OK;
}

static ac_status put_tokens(ac_text_model *model, const ac_sentencepiece *from) {
  ac_vocabulary *v = &model->vocabulary;
  for (size_t i = 0; i < from->count; i++) {
    const ac_sentencepiece_token *token = &from->tokens[i];
    const uint32_t id = (uint32_t)i;
    AC_TRY(check_token(token, i));
    const bool apart = !ac_sentencepiece_is_text(token->kind);
    if (ac_vocabulary_find(v, token->text, token->bytes, apart) != AC_NO_TOKEN)
      return ac_fail(AC_ERROR_FORMAT, "token %zu is there twice", i);
    AC_TRY(ac_vocabulary_put(v, id, token->text, token->bytes, apart));
    if (token->kind == AC_TOKEN_CONTROL || token->kind == AC_TOKEN_UNKNOWN)
      ac_vocabulary_entry_of(v, id)->special = true;
    if (token->kind != AC_TOKEN_UNKNOWN) continue;
    if (model->unknown != AC_NO_TOKEN)
      return ac_fail(AC_ERROR_FORMAT, "tokens %lu and %zu are both for what is unknown",
                     (unsigned long)model->unknown, i);
    model->unknown = id;
  }
  return AC_OK;
}

static ac_status find_bytes(ac_text_model *model) {
  model->byte_fallback = true;
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    model->byte_ids[byte] = ac_vocabulary_find(&model->vocabulary, name, strlen(name), true);
    if (model->byte_ids[byte] == AC_NO_TOKEN)
      return ac_fail(AC_ERROR_FORMAT, "there is no token %s", name);
  }
  return AC_OK;
}

ac_status ac_text_model_make(ac_text_model *model, const ac_sentencepiece *from) {
  model->kind = from->bpe ? &ac_text_bpe : &ac_text_unigram;
  model->unknown = AC_NO_TOKEN;
  if (!from->count) return ac_fail(AC_ERROR_FORMAT, "there are no tokens");
  if (from->count > AC_MAX_VOCABULARY)
    return ac_fail(AC_ERROR_FORMAT, "there are more than %d tokens", AC_MAX_VOCABULARY);
  AC_TRY(put_tokens(model, from));
  if (model->unknown == AC_NO_TOKEN && !from->byte_fallback)
    return ac_fail(AC_ERROR_FORMAT, "no token is for what is unknown");
  for (int byte = 0; byte < 256; byte++) model->byte_ids[byte] = AC_NO_TOKEN;
  if (from->byte_fallback) AC_TRY(find_bytes(model));
  return from->bpe ? ac_text_bpe_by_scores(model, from) : ac_text_unigram_by_scores(model, from);
}
