/* Byte-pair encoding (Sennrich et al., arXiv 1508.07909). A piece begins as symbols: its bytes, or
 * its characters. Of all neighbours that have a merge, those of the lowest rank become one symbol,
 * the leftmost first, until none has a merge. A tokenizer.json lists the merges. In SentencePiece's
 * models any two neighbours have one if their bytes together are a token, and its rank is that of
 * the token's score among all scores, from the highest.
 *
 * Short pieces look for the lowest rank anew each time; long ones keep a heap of (rank, place), so
 * that n symbols take O(n log n). Symbols form a list by the indices of their neighbours. An entry
 * of the heap is out of date if its symbol is gone or its right neighbour is another one: then the
 * rank of the two is not that of the entry. */
#include "text/model.h"

#include "text/room.h"
#include "text/sentencepiece.h"
#include "text/steps.h"
#include "text/unicode.h"

enum { SHORT = 24, NOTHING = -1 };

typedef struct symbol {
  uint32_t id, at, length; /* bytes of the piece */
  int32_t before, after;   /* NOTHING at the ends */
  uint32_t rank, merged;   /* of this one and the one after; rank AC_NO_TOKEN: there is no merge */
  bool frozen;             /* never merged */
} symbol;

typedef struct merge {
  uint64_t pair; /* left id << 32 | right id, + 1; 0: a free slot */
  uint32_t rank, id;
} merge;

/* What two tokens become by their bytes, remembered. */
enum { PAIRS = 1 << 13 };
typedef struct known_pair {
  uint64_t pair; /* as of a merge; 0: nothing is here */
  uint32_t id;   /* AC_NO_TOKEN: they become nothing */
} known_pair;

typedef struct heap_entry {
  uint32_t rank;
  int32_t place;
} heap_entry;

typedef struct bpe {
  const ac_text_model *model; /* that has this one */
  merge *merges;              /* a hash table, open addressing */
  size_t slots;
  uint32_t first_ids[256]; /* of single bytes, where tokens are bytes */
  bool whole_first;        /* a piece that is a token is not merged: ignore_merges */
  bool fuse_unknown;
  char *prefix, *suffix; /* of tokens that do not begin a piece, and of those that end one; NULL */
  uint32_t *ranks;       /* of tokens by their scores, by id; NULL: there are merges */
  uint32_t *splits;  /* by id, for unused tokens: bytes of the left one of the two that became it,
                        for others AC_NO_TOKEN; NULL: no token is unused */
  known_pair *pairs; /* [PAIRS], where there are ranks */
  ac_trie user;      /* tokens that are found first, and never merged */
  const char *text;  /* the piece */
  symbol *symbols;
  size_t count, capacity;
  heap_entry *heap;
  size_t heap_count, heap_capacity;
} bpe;

/* ---- merges ---------------------------------------------------------------------------------- */

static size_t slot_of(const bpe *b, uint64_t pair) {
  uint64_t mixed = pair * 0x9e3779b97f4a7c15u;
  size_t slot = (size_t)(mixed >> 32) & (b->slots - 1);
  while (b->merges[slot].pair && b->merges[slot].pair != pair) slot = (slot + 1) & (b->slots - 1);
  return slot;
}

static uint64_t pair_of(uint32_t left, uint32_t right) {
  return ((uint64_t)left << 32 | right) + 1;
}

static uint32_t find_pair(const bpe *b, const symbol *left, const symbol *right) {
  const bool known = left->id != AC_NO_TOKEN && right->id != AC_NO_TOKEN;
  const uint64_t pair = pair_of(left->id, right->id);
  known_pair *entry = &b->pairs[pair * 0x9e3779b97f4a7c15u >> 51];
  if (known && entry->pair == pair) return entry->id;
  const uint32_t id = ac_vocabulary_find(&b->model->vocabulary, b->text + left->at,
                                         left->length + right->length, false);
  if (known) *entry = (known_pair){pair, id};
  return id;
}

/* By the bytes of both. */
static void find_joined(const bpe *b, symbol *left, const symbol *right) {
  if (left->frozen || right->frozen) return;
  const uint32_t id = find_pair(b, left, right);
  if (id == AC_NO_TOKEN) return;
  left->rank = b->ranks[id];
  left->merged = id;
  if (b->splits && b->splits[id] != AC_NO_TOKEN) b->splits[id] = left->length;
}

static void find_merge(const bpe *b, symbol *left, const symbol *right) {
  left->rank = AC_NO_TOKEN;
  if (b->ranks) {
    find_joined(b, left, right);
    return;
  }
  if (left->id == AC_NO_TOKEN || right->id == AC_NO_TOKEN) return;
  const merge *m = &b->merges[slot_of(b, pair_of(left->id, right->id))];
  if (!m->pair || ac_text_is_hidden(b->model, m->id)) return;
  left->rank = m->rank;
  left->merged = m->id;
}

/* The two tokens of a merge: "LEFT RIGHT", or [LEFT, RIGHT]. */
static bool parts_of(const json_t *json, const char *part[2], size_t length[2]) {
  if (json_is_string(json)) {
    part[0] = json_string_value(json);
    const char *space = memchr(part[0], ' ', json_string_length(json));
    if (!space) return false;
    part[1] = space + 1;
    length[0] = (size_t)(space - part[0]);
    length[1] = json_string_length(json) - length[0] - 1;
    return true;
  }
  for (size_t i = 0; i < 2; i++) {
    part[i] = json_string_value(json_array_get(json, i));
    length[i] = json_string_length(json_array_get(json, i));
  }
  return part[0] && part[1];
}

/* Room for the two tokens of a merge as bytes, side by side. */
typedef struct pair_room {
  char *bytes;
  size_t capacity;
} pair_room;

static ac_status add_merge(ac_text_model *model, bpe *b, pair_room *room, const json_t *json,
                           uint32_t rank) {
  const char *part[2];
  size_t length[2];
  if (!parts_of(json, part, length))
    return ac_fail(AC_ERROR_FORMAT, "merge %lu is not a pair of tokens", (unsigned long)rank);
  const ac_vocabulary *v = &model->vocabulary;
  const size_t prefix = b->prefix ? strlen(b->prefix) : 0;
  AC_TRY(AC_ROOM(room->bytes, room->capacity, length[0] + length[1] + 1));
  char *left = room->bytes;
  bool all[2] = {model->bytes, model->bytes};
  const size_t lefts = ac_text_bytes_of(left, part[0], length[0], &all[0]);
  char *right = left + lefts;
  const size_t rights = ac_text_bytes_of(right, part[1], length[1], &all[1]);
  const uint32_t left_id = ac_vocabulary_find(v, left, lefts, all[0] != model->bytes),
                 right_id = ac_vocabulary_find(v, right, rights, all[1] != model->bytes);
  const bool prefixed = prefix && rights >= prefix && !memcmp(right, b->prefix, prefix);
  if (prefixed) memmove(right, right + prefix, rights - prefix);
  const uint32_t id = ac_vocabulary_find(v, left, lefts + rights - (prefixed ? prefix : 0),
                                         (all[0] && all[1]) != model->bytes);
  if (left_id == AC_NO_TOKEN || right_id == AC_NO_TOKEN || id == AC_NO_TOKEN)
    return ac_fail(AC_ERROR_FORMAT, "merge %lu has tokens that the vocab does not have",
                   (unsigned long)rank);
  merge *slot = &b->merges[slot_of(b, pair_of(left_id, right_id))];
  *slot = (merge){pair_of(left_id, right_id), rank, id}; /* of two, the later one counts */
  return AC_OK;
}

static ac_status read_merges(ac_text_model *model, bpe *b, const json_t *list) {
  const size_t count = json_array_size(list);
  if (!json_is_array(list)) return ac_fail(AC_ERROR_FORMAT, "the model has no merges");
  for (b->slots = 16; b->slots < 2 * count + 2;) b->slots *= 2;
  b->merges = calloc(b->slots, sizeof *b->merges);
  if (!b->merges) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu merges", count);
  pair_room room = {0};
  ac_status status = AC_OK;
  for (size_t i = 0; i < count && status == AC_OK; i++)
    status = add_merge(model, b, &room, json_array_get(list, i), (uint32_t)i);
  free(room.bytes);
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Whether no token goes on after the end of a word. */
static bool has_words(const ac_text_model *model, const bpe *b) {
  const ac_vocabulary *v = &model->vocabulary;
  if (model->bytes || b->whole_first || b->prefix || b->suffix) return false;
  if (ac_vocabulary_find(v, AC_WORD_MARK, strlen(AC_WORD_MARK), false) == AC_NO_TOKEN) return false;
  for (size_t i = 0; i < b->slots; i++) {
    if (!b->merges[i].pair) continue;
    size_t count;
    const char *bytes = ac_vocabulary_token(v, b->merges[i].id, &count);
    if (ac_text_word_end(bytes, count) < count) return false;
  }
  return true;
}

static ac_status copy_text(char **to, const json_t *json, const char *key) {
  const char *text = ac_json_text(json, key);
  if (!text || !*text) return AC_OK;
  *to = malloc(strlen(text) + 1);
  if (!*to) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  strcpy(*to, text);
  return AC_OK;
}

static void free_bpe(void *own) {
  bpe *b = own;
  free(b->merges);
  free(b->prefix);
  free(b->suffix);
  free(b->ranks);
  free(b->splits);
  free(b->pairs);
  ac_trie_free(&b->user);
  free(b->symbols);
  free(b->heap);
  free(b);
}

static ac_status read_bpe(ac_text_model *model, const json_t *json) {
  const json_t *dropout = json_object_get(json, "dropout");
  bpe *b = model->own = calloc(1, sizeof *b);
  if (!b) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  b->model = model;
  if (json_number_value(dropout) != 0)
    return ac_fail(AC_ERROR_UNSUPPORTED, "the model drops merges at random (dropout)");
  b->whole_first = json_is_true(json_object_get(json, "ignore_merges"));
  b->fuse_unknown = json_is_true(json_object_get(json, "fuse_unk"));
  AC_TRY(copy_text(&b->prefix, json, "continuing_subword_prefix"));
  AC_TRY(copy_text(&b->suffix, json, "end_of_word_suffix"));
  AC_TRY(ac_text_read_vocabulary(model, json_object_get(json, "vocab")));
  AC_TRY(ac_text_read_unknown(model, json, "unk_token"));
  for (int byte = 0; byte < 256; byte++) {
    const char single = (char)byte;
    b->first_ids[byte] = ac_vocabulary_find(&model->vocabulary, &single, 1, false);
  }
  AC_TRY(read_merges(model, b, json_object_get(json, "merges")));
  model->word_by_word = has_words(model, b);
  return AC_OK;
}

/* ---- reading, by scores ---------------------------------------------------------------------- */

static int from_the_highest(const void *a, const void *b) {
  const float one = *(const float *)a, other = *(const float *)b;
  return (one < other) - (one > other);
}

/* Equal scores have equal ranks. */
static ac_status rank_scores(bpe *b, const ac_sentencepiece *from) {
  float *scores = malloc((from->count + 1) * sizeof *scores);
  if (!scores) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", from->count);
  for (size_t i = 0; i < from->count; i++) scores[i] = from->tokens[i].score;
  qsort(scores, from->count, sizeof *scores, from_the_highest);
  for (size_t i = 0; i < from->count; i++) {
    size_t low = 0, high = from->count; /* the first one that is not higher */
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (scores[middle] > from->tokens[i].score) low = middle + 1;
      else high = middle;
    }
    b->ranks[i] = (uint32_t)low;
  }
  free(scores);
  return AC_OK;
}

static bool may_have_words(const ac_text_model *model, const bpe *b, const ac_sentencepiece *from) {
  if (b->splits || !from->escape) return false;
  if (ac_vocabulary_find(&model->vocabulary, AC_WORD_MARK, strlen(AC_WORD_MARK), false) ==
      AC_NO_TOKEN)
    return false;
  for (size_t i = 0; i < from->count; i++) {
    const ac_sentencepiece_token *token = &from->tokens[i];
    if (ac_sentencepiece_is_text(token->kind) &&
        ac_text_word_end(token->text, token->bytes) < token->bytes)
      return false;
  }
  return true;
}

ac_status ac_text_bpe_by_scores(ac_text_model *model, const ac_sentencepiece *from) {
  bpe *b = model->own = calloc(1, sizeof *b);
  if (!b) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  b->model = model;
  b->ranks = calloc(from->count + 1, sizeof *b->ranks);
  b->pairs = calloc(PAIRS, sizeof *b->pairs);
  for (size_t i = 0; i < from->count && !b->splits; i++)
    if (from->tokens[i].kind == AC_TOKEN_UNUSED)
      b->splits = calloc(from->count + 1, sizeof *b->splits);
  if (!b->ranks || !b->pairs) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  for (size_t i = 0; i < from->count && b->splits; i++)
    b->splits[i] = from->tokens[i].kind == AC_TOKEN_UNUSED ? 0 : AC_NO_TOKEN;
  for (int byte = 0; byte < 256; byte++) {
    const char single = (char)byte;
    b->first_ids[byte] = ac_vocabulary_find(&model->vocabulary, &single, 1, false);
  }
  AC_TRY(rank_scores(b, from));
  AC_TRY(ac_sentencepiece_user_trie(from, &b->user));
  model->word_by_word = may_have_words(model, b, from);
  return AC_OK;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static ac_status add_symbol(bpe *b, uint32_t id, size_t length) {
  AC_TRY(AC_ROOM(b->symbols, b->capacity, b->count + 1));
  const int32_t place = (int32_t)b->count++;
  const symbol *last = place ? &b->symbols[place - 1] : NULL;
  b->symbols[place] = (symbol){.id = id,
                               .at = last ? last->at + last->length : 0,
                               .length = (uint32_t)length,
                               .before = place - 1,
                               .after = place + 1,
                               .rank = AC_NO_TOKEN};
  return AC_OK;
}

/* A character with what the model puts before or after it. */
static uint32_t find_affixed(const ac_text_model *model, const bpe *b, const char *at,
                             size_t length, bool begins, bool ends) {
  char text[128];
  const char *prefix = b->prefix && !begins ? b->prefix : "";
  const char *suffix = b->suffix && ends ? b->suffix : "";
  const size_t before = strlen(prefix), after = strlen(suffix);
  if (before + length + after > sizeof text) return AC_NO_TOKEN;
  memcpy(text, prefix, before);
  memcpy(text + before, at, length);
  memcpy(text + before + length, suffix, after);
  return ac_vocabulary_find(&model->vocabulary, text, before + length + after, false);
}

static ac_status add_character(const ac_text_model *model, bpe *b, const char *at, size_t length,
                               uint32_t id) {
  if (id != AC_NO_TOKEN || b->ranks) return add_symbol(b, id, length);
  if (ac_text_has_bytes(model, at, length)) {
    for (size_t i = 0; i < length; i++)
      AC_TRY(add_symbol(b, model->byte_ids[(unsigned char)at[i]], 1));
    return AC_OK;
  }
  symbol *last = b->count ? &b->symbols[b->count - 1] : NULL;
  if (b->fuse_unknown && last && last->id == model->unknown && model->unknown != AC_NO_TOKEN) {
    last->length += (uint32_t)length;
    return AC_OK;
  }
  if (last && model->unknown == AC_NO_TOKEN) { /* left out: what is around it may be merged */
    last->length += (uint32_t)length;
    return AC_OK;
  }
  return add_symbol(b, model->unknown, length);
}

/* A token that is found before all others. */
static ac_status add_frozen(bpe *b, const char *at, size_t count, size_t *length) {
  *length = 0;
  if (!b->user.nodes || !b->user.root[(unsigned char)*at]) return AC_OK;
  const uint32_t id = ac_trie_longest(&b->user, at, count, length);
  if (id == AC_NO_TOKEN) return AC_OK;
  AC_TRY(add_symbol(b, id, *length));
  b->symbols[b->count - 1].frozen = true;
  return AC_OK;
}

static ac_status make_symbols(const ac_text_model *model, bpe *b, const char *piece, size_t count) {
  const bool affixes = b->prefix || b->suffix;
  b->count = 0;
  b->text = piece;
  for (size_t at = 0, length; at < count; at += length) {
    AC_TRY(add_frozen(b, piece + at, count - at, &length));
    if (length) continue;
    length = model->bytes ? 1 : ac_utf8_length(piece[at]);
    if (length > count - at) length = count - at;
    uint32_t id = affixes ? find_affixed(model, b, piece + at, length, !at, at + length == count)
                  : length == 1 ? b->first_ids[(unsigned char)piece[at]]
                                : ac_vocabulary_find(&model->vocabulary, piece + at, length, false);
    AC_TRY(add_character(model, b, piece + at, length, id));
  }
  if (b->count) b->symbols[b->count - 1].after = NOTHING;
  for (size_t i = 0; i + 1 < b->count; i++) find_merge(b, &b->symbols[i], &b->symbols[i + 1]);
  return AC_OK;
}

/* The symbol and the one after it become one. */
static void join(bpe *b, int32_t place) {
  symbol *s = &b->symbols[place], *next = &b->symbols[s->after];
  s->id = s->merged;
  s->length += next->length;
  s->after = next->after;
  next->length = 0; /* gone */
  next->rank = AC_NO_TOKEN;
  s->rank = AC_NO_TOKEN;
  if (s->before != NOTHING) find_merge(b, &b->symbols[s->before], s);
  if (s->after != NOTHING) {
    b->symbols[s->after].before = place;
    find_merge(b, s, &b->symbols[s->after]);
  }
}

static void merge_short(bpe *b) {
  for (;;) {
    uint32_t lowest = AC_NO_TOKEN;
    int32_t place = NOTHING;
    for (int32_t i = b->count ? 0 : NOTHING; i != NOTHING; i = b->symbols[i].after)
      if (b->symbols[i].rank < lowest) {
        lowest = b->symbols[i].rank;
        place = i;
      }
    if (place == NOTHING) return;
    join(b, place);
  }
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool is_before(heap_entry a, heap_entry b) {
  return a.rank != b.rank ? a.rank < b.rank : a.place < b.place;
}

static ac_status push(bpe *b, int32_t place) {
  const heap_entry entry = {b->symbols[place].rank, place};
  if (entry.rank == AC_NO_TOKEN) return AC_OK;
  AC_TRY(AC_ROOM(b->heap, b->heap_capacity, b->heap_count + 1));
  size_t at = b->heap_count++;
  for (; at && is_before(entry, b->heap[(at - 1) / 2]); at = (at - 1) / 2)
    b->heap[at] = b->heap[(at - 1) / 2];
  b->heap[at] = entry;
  return AC_OK;
}

static heap_entry pop(bpe *b) {
  const heap_entry top = b->heap[0], last = b->heap[--b->heap_count];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < b->heap_count) {
    if (child + 1 < b->heap_count && is_before(b->heap[child + 1], b->heap[child])) child++;
    if (!is_before(b->heap[child], last)) break;
    b->heap[at] = b->heap[child];
    at = child;
  }
  b->heap[at] = last;
  return top;
}

static ac_status merge_long(bpe *b) {
  b->heap_count = 0;
  for (size_t i = 0; i < b->count; i++) AC_TRY(push(b, (int32_t)i));
  while (b->heap_count) {
    const heap_entry top = pop(b);
    const symbol *s = &b->symbols[top.place];
    if (!s->length || s->rank != top.rank) continue; /* out of date */
    join(b, top.place);
    AC_TRY(push(b, top.place));
    if (s->before != NOTHING) AC_TRY(push(b, s->before));
  }
  return AC_OK;
}

/* ---- encode ---------------------------------------------------------------------------------- */

/* Bytes without a token: the model's bytes, or unknown, together with unknown ones before. */
static ac_status add_unknown(const bpe *b, ac_token_list *tokens, size_t first, const symbol *s) {
  const ac_text_model *model = b->model;
  ac_token *last = tokens->count > first ? &tokens->list[tokens->count - 1] : NULL;
  if (!last || last->id != model->unknown || ac_text_has_bytes(model, b->text + s->at, s->length))
    return ac_text_add_unknown(model, tokens, b->text + s->at, s->length);
  last->length += s->length;
  return AC_OK;
}

/* An unused token is the two that became it, and so on. The symbols to come are a stack at the end
 * of those of the piece. */
static ac_status add_symbols(bpe *b, ac_token_list *tokens, size_t first, symbol s) {
  const size_t bottom = b->count;
  for (;;) {
    const uint32_t split = s.id == AC_NO_TOKEN || !b->splits ? AC_NO_TOKEN : b->splits[s.id];
    if (split != AC_NO_TOKEN && split && split < s.length) {
      const char *text = b->text + s.at;
      const ac_vocabulary *v = &b->model->vocabulary;
      AC_TRY(AC_ROOM(b->symbols, b->capacity, b->count + 1));
      b->symbols[b->count++] =
          (symbol){.id = ac_vocabulary_find(v, text + split, s.length - split, false),
                   .at = s.at + split,
                   .length = s.length - split};
      s = (symbol){.id = ac_vocabulary_find(v, text, split, false), .at = s.at, .length = split};
      continue;
    }
    if (s.id == AC_NO_TOKEN) AC_TRY(add_unknown(b, tokens, first, &s));
    else AC_TRY(ac_token_list_add(tokens, s.id, s.length));
    if (b->count == bottom) return AC_OK;
    s = b->symbols[--b->count];
  }
}

static ac_status encode_bpe(ac_text_model *model, const char *piece, size_t count,
                            ac_token_list *tokens) {
  bpe *b = model->own;
  if (b->whole_first) {
    const uint32_t id = ac_text_find(model, piece, count);
    if (id != AC_NO_TOKEN) return ac_token_list_add(tokens, id, count);
  }
  AC_TRY(make_symbols(model, b, piece, count));
  if (b->count <= SHORT) merge_short(b);
  else AC_TRY(merge_long(b));
  const size_t first = tokens->count;
  for (int32_t i = b->count ? 0 : NOTHING; i != NOTHING; i = b->symbols[i].after) {
    if (b->ranks) AC_TRY(add_symbols(b, tokens, first, b->symbols[i]));
    else AC_TRY(ac_token_list_add(tokens, b->symbols[i].id, b->symbols[i].length));
  }
  return AC_OK;
}

const ac_text_model_kind ac_text_bpe = {"BPE", read_bpe, encode_bpe, free_bpe};
