#include "text/tokenizer.h"

#include "text/room.h"

#include <utf8proc.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t ac_tokenizer_vocabulary(const ac_tokenizer *tokenizer) {
  return AC_GIVEN(tokenizer) ? (uint32_t)tokenizer->model.vocabulary.count : 0;
}

bool ac_tokenizer_find(const ac_tokenizer *tokenizer, const char *text, uint32_t *id) {
  if (!AC_GIVEN(tokenizer, text, id)) return false;
  const ac_vocabulary *vocabulary = &tokenizer->model.vocabulary;
  uint32_t found = ac_vocabulary_find(vocabulary, text, strlen(text), true);
  if (found == AC_NO_TOKEN) found = ac_vocabulary_find(vocabulary, text, strlen(text), false);
  if (found == AC_NO_TOKEN) return false;
  *id = found;
  return true;
}

const char *ac_tokenizer_token(const ac_tokenizer *tokenizer, uint32_t id, size_t *bytes) {
  if (!AC_GIVEN(tokenizer, bytes)) return NULL;
  return ac_vocabulary_token(&tokenizer->model.vocabulary, id, bytes);
}

bool ac_tokenizer_is_special(const ac_tokenizer *tokenizer, uint32_t id) {
  if (!AC_GIVEN(tokenizer)) return false;
  return ac_vocabulary_is_special(&tokenizer->model.vocabulary, id);
}

/* ---- the encoding ---------------------------------------------------------------------------- */

/* An encoding that is being made. */
typedef struct maker {
  ac_tokenizer *t;
  ac_encoding *to;
  size_t capacity;
  bool plain;              /* names of special tokens stay text: */
  const ac_ranges *ranges; /* in these ranges; NULL: everywhere */
  size_t named;            /* how many did */
} maker;

static ac_status grow(maker *m, size_t needed) {
  size_t capacity[3] = {m->capacity, m->capacity, m->capacity};
  if (needed <= m->capacity) return AC_OK;
  AC_TRY(AC_ROOM(m->to->ids, capacity[0], needed));
  AC_TRY(AC_ROOM(m->to->begin, capacity[1], needed));
  AC_TRY(AC_ROOM(m->to->end, capacity[2], needed));
  m->capacity = capacity[0];
  return AC_OK;
}

static ac_status emit(maker *m, uint32_t id, uint32_t begin, uint32_t end) {
  ac_encoding *to = m->to;
  AC_TRY(grow(m, to->count + 1));
  to->ids[to->count] = id;
  to->begin[to->count] = begin;
  to->end[to->count++] = end;
  return AC_OK;
}

void ac_encoding_free(ac_encoding *encoding) {
  if (!encoding) return;
  free(encoding->ids);
  free(encoding->begin);
  free(encoding->end);
  *encoding = (ac_encoding){0};
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static ac_cached_piece *cached(ac_tokenizer *t, const char *piece, size_t count) {
  if (count > AC_CACHED_BYTES) return NULL;
  if (!t->cache) t->cache = calloc(AC_CACHE_ENTRIES, sizeof *t->cache);
  return t->cache ? &t->cache[XXH3_64bits(piece, count) % AC_CACHE_ENTRIES] : NULL;
}

static void remember(ac_cached_piece *entry, bool plain, const char *piece, size_t count,
                     const ac_token_list *tokens) {
  if (!entry || tokens->count > AC_CACHED_TOKENS) return;
  entry->plain = plain;
  entry->bytes = (uint8_t)count;
  entry->tokens = (uint8_t)tokens->count;
  memcpy(entry->text, piece, count);
  for (size_t i = 0; i < AC_CACHED_TOKENS && i < tokens->count; i++) {
    entry->ids[i] = tokens->list[i].id;
    entry->lengths[i] = (uint8_t)tokens->list[i].length;
  }
}

static ac_status emit_token(maker *m, const ac_text *text, size_t at, uint32_t id, size_t length) {
  if (id == AC_NO_TOKEN || !length) return AC_OK;
  return emit(m, id, ac_text_origin(text, at).begin, ac_text_origin(text, at + length - 1).end);
}

static ac_status encode_word(maker *m, const ac_text *text, ac_piece piece) {
  ac_tokenizer *t = m->t;
  const char *bytes = text->bytes + piece.begin;
  const size_t count = piece.end - piece.begin;
  size_t at = piece.begin;
  ac_cached_piece *entry = cached(t, bytes, count);
  if (entry && entry->bytes == count && entry->plain == m->plain &&
      !memcmp(entry->text, bytes, count)) {
    for (int i = 0; i < entry->tokens; at += entry->lengths[i++])
      AC_TRY(emit_token(m, text, at, entry->ids[i], entry->lengths[i]));
    return AC_OK;
  }
  t->tokens.count = 0;
  AC_TRY(t->model.kind->encode(&t->model, bytes, count, &t->tokens));
  remember(entry, m->plain, bytes, count, &t->tokens);
  for (size_t i = 0; i < t->tokens.count; at += t->tokens.list[i++].length)
    AC_TRY(emit_token(m, text, at, t->tokens.list[i].id, t->tokens.list[i].length));
  return AC_OK;
}

static ac_status encode_piece(maker *m, const ac_text *text, ac_piece piece) {
  while (m->t->model.word_by_word && piece.begin < piece.end) {
    const size_t length = ac_text_word_end(text->bytes + piece.begin, piece.end - piece.begin);
    const ac_piece word = {piece.begin, piece.begin + (uint32_t)length};
    AC_TRY(encode_word(m, text, word));
    piece.begin = word.end;
  }
  return piece.begin < piece.end ? encode_word(m, text, piece) : AC_OK;
}

/* Bytes [begin, end) of normalized text, without added tokens. */
static ac_status encode_part(maker *m, const ac_text *from, size_t begin, size_t end) {
  ac_work *work = &m->t->work;
  if (begin == end) return AC_OK;
  if (from->origins) {
    AC_TRY(ac_text_clear(&work->text));
    AC_TRY(ac_text_append_from(&work->text, from, begin, end));
  } else {
    AC_TRY(
        ac_text_begin(&work->text, from->bytes + begin, end - begin, from->base + (uint32_t)begin));
  }
  work->pieces.count = 0;
  AC_TRY(ac_pieces_add(&work->pieces, 0, end - begin));
  AC_TRY(ac_steps_run(&m->t->pieces, work));
  for (size_t i = 0; i < work->pieces.count; i++)
    AC_TRY(encode_piece(m, &work->text, work->pieces.list[i]));
  return AC_OK;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static bool in_word(uint32_t c) {
  switch (utf8proc_category((utf8proc_int32_t)c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    return false;
  }
}

/* The character that ends before `at`, which is not 0; *begin: where it begins. */
static uint32_t character_before(const char *bytes, size_t at, size_t *begin) {
  size_t length;
  *begin = at - 1;
  while (*begin && ((unsigned char)bytes[*begin] & 0xc0) == 0x80) --*begin;
  return ac_utf8_get(bytes + *begin, &length);
}

static bool is_apart(const char *bytes, size_t count, size_t begin, size_t end) {
  size_t unused;
  if (begin && in_word(character_before(bytes, begin, &unused))) return false;
  return end == count || !in_word(ac_utf8_get(bytes + end, &unused));
}

/* A token that was found, and the spaces that belong to it. */
static void take_spaces(const ac_added_token *added, const char *bytes, size_t count, size_t least,
                        size_t *begin, size_t *end) {
  size_t next;
  while (added->lstrip && *begin > least && ac_is_space(character_before(bytes, *begin, &next)))
    *begin = next;
  while (added->rstrip && *end < count && ac_is_space(ac_utf8_get(bytes + *end, &next)))
    *end += next;
}

/* Whether special tokens may not be at bytes [begin, end) of this text. */
static bool is_plain(const maker *m, const ac_text *text, size_t begin, size_t end) {
  if (!m->plain || !m->ranges) return m->plain;
  const size_t from = ac_text_origin(text, begin).begin, to = ac_text_origin(text, end - 1).end;
  const ac_plain_range *list = m->ranges->list;
  size_t low = 0, high = m->ranges->count; /* the first range that ends after `from` */
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (list[middle].end <= from) low = middle + 1;
    else high = middle;
  }
  return low < m->ranges->count && list[low].begin < to;
}

/* The next added token at `from` or later; NULL: there is none, and *begin and *end are at the
 * text's end. */
static const ac_added_token *find_added(maker *m, const ac_trie *trie, const ac_text *text,
                                        size_t from, size_t *begin, size_t *end) {
  const char *bytes = text->bytes;
  const size_t count = text->count;
  for (size_t at = from, length = 1; trie->nodes && at < count; at += length) {
    const uint32_t found = trie->root[(unsigned char)bytes[at]]
                               ? ac_trie_longest(trie, bytes + at, count - at, &length)
                               : AC_NO_TOKEN;
    if (found == AC_NO_TOKEN) {
      length = 1;
      continue;
    }
    const ac_added_token *added = &m->t->added[found];
    if (added->special && is_plain(m, text, at, at + length)) {
      m->named++;
      continue;
    }
    if (added->single_word && !is_apart(bytes, count, at, at + length)) continue;
    *begin = at;
    *end = at + length;
    return added;
  }
  *begin = *end = count;
  return NULL;
}

typedef ac_status encode_between(maker *m, const ac_text *text, size_t begin, size_t end);

/* Emits the added tokens of the trie, and calls `between` for what is between them. */
static ac_status cut_out(maker *m, const ac_trie *trie, const ac_text *text,
                         encode_between *between) {
  size_t done = 0, from = 0;
  while (done < text->count) {
    size_t begin, end;
    const ac_added_token *added = find_added(m, trie, text, from, &begin, &end);
    from = end;
    if (added) take_spaces(added, text->bytes, text->count, done, &begin, &end);
    if (begin > done) AC_TRY(between(m, text, done, begin));
    if (!added) break;
    AC_TRY(
        emit(m, added->id, ac_text_origin(text, begin).begin, ac_text_origin(text, end - 1).end));
    done = end;
    if (from < done) from = done;
  }
  return AC_OK;
}

static ac_status normalize(maker *m, const ac_text *text, size_t begin, size_t end) {
  ac_work *work = &m->t->normalized;
  if (text->origins) {
    AC_TRY(ac_text_clear(&work->text));
    AC_TRY(ac_text_append_from(&work->text, text, begin, end));
  } else {
    AC_TRY(
        ac_text_begin(&work->text, text->bytes + begin, end - begin, text->base + (uint32_t)begin));
  }
  work->pieces.count = 0;
  AC_TRY(ac_pieces_add(&work->pieces, 0, end - begin));
  AC_TRY(ac_steps_run(&m->t->normalizer, work));
  return cut_out(m, &m->t->normal, &work->text, encode_part);
}

/* ---- encode ---------------------------------------------------------------------------------- */

/* The given text as UTF-8. */
static ac_status read_text(maker *m, ac_text *text, const char *bytes, size_t count) {
  size_t wrong, valid = ac_utf8_valid(bytes, count, &wrong);
  if (valid == count) return ac_text_begin(text, bytes, count, 0);
  ac_text given = {.bytes = (char *)bytes, .count = count};
  AC_TRY(ac_text_clear(text));
  for (size_t at = 0; at < count; at += valid + wrong) {
    valid = ac_utf8_valid(bytes + at, count - at, &wrong);
    AC_TRY(ac_text_append_from(text, &given, at, at + valid));
    if (!wrong) break;
    if (m->t->single_bytes) wrong = 1;
    const ac_origin origin = {(uint32_t)(at + valid), (uint32_t)(at + valid + wrong)};
    AC_TRY(ac_text_append(text, AC_REPLACEMENT, 3, origin));
    m->to->replaced += wrong;
  }
  return AC_OK;
}

static ac_status emit_all(maker *m, const ac_id_list *ids, size_t at) {
  for (size_t i = 0; i < ids->count; i++) AC_TRY(emit(m, ids->ids[i], (uint32_t)at, (uint32_t)at));
  return AC_OK;
}

static ac_status encode(maker *m, ac_text *text, const char *bytes, size_t count,
                        bool add_special) {
  AC_TRY(read_text(m, text, bytes, count));
  if (add_special) AC_TRY(emit_all(m, &m->t->before, 0));
  AC_TRY(cut_out(m, &m->t->raw, text, normalize));
  return add_special ? emit_all(m, &m->t->after, count) : AC_OK;
}

/* With what the maker says of special tokens. */
static ac_status make_encoding(maker *m, const char *text, size_t bytes, bool add_special) {
  ac_text given = {0};
  if (bytes > INT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "tokenizer: a text has more than 2^31 - 1 bytes");
  m->t->model.plain = m->plain;
  const ac_status status = encode(m, &given, text, bytes, add_special);
  free(given.bytes);
  free(given.origins);
  if (status != AC_OK) ac_encoding_free(m->to);
  return status;
}

ac_status ac_tokenizer_encode(ac_tokenizer *tokenizer, const char *text, size_t bytes,
                              const ac_encode_desc *desc, ac_encoding *encoding) {
  AC_REQUIRE(encoding);
  *encoding = (ac_encoding){0};
  AC_REQUIRE(tokenizer);
  if (bytes) AC_REQUIRE(text);
  const ac_encode_desc described = AC_DESCRIBED(ac_encode_desc, desc);
  maker m = {.t = tokenizer, .to = encoding, .plain = described.plain};
  return make_encoding(&m, text, bytes, described.add_special);
}

ac_status ac_tokenizer_encode_ranges(ac_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const ac_ranges *ranges, ac_encoding *encoding,
                                     size_t *named) {
  maker m = {.t = tokenizer, .to = encoding, .plain = true, .ranges = ranges};
  *encoding = (ac_encoding){0};
  const ac_status status = make_encoding(&m, text, bytes, ranges->add_special);
  *named = m.named;
  return status;
}
