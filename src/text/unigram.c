/* Unigram (Kudo, arXiv 1804.10959): of all ways to cut a piece into tokens, the one with the
 * largest sum of log-probabilities, by Viterbi's algorithm over the ends of tokens. A character
 * that no token begins and ends with counts as unknown, at 10 less than the least probable token.
 * Of equal sums the one found first counts, from the left. n bytes take O(n L) for tokens of at
 * most L bytes. Sums are doubles as those of `tokenizers`; those of a tokenizer.model are rounded
 * to floats as SentencePiece's are, which decides between ways that are nearly equal. */
#include "text/model.h"

#include "text/room.h"
#include "text/sentencepiece.h"
#include "text/unicode.h"

#include <float.h>
#include <math.h>

typedef struct ending {
  double score;        /* of the best way to here */
  uint32_t id, length; /* of its last token; length 0: no way has been found */
} ending;

typedef struct unigram {
  double *scores; /* by id */
  double unknown_score;
  bool single; /* sums are floats */
  ac_trie trie;
  ending *endings;
  size_t capacity;
} unigram;

static void free_unigram(void *own) {
  unigram *u = own;
  free(u->scores);
  ac_trie_free(&u->trie);
  free(u->endings);
  free(u);
}

/* [TOKEN, SCORE] */
static ac_status read_entry(ac_text_model *model, unigram *u, const json_t *entry, size_t id,
                            double *least) {
  const char *text = json_string_value(json_array_get(entry, 0));
  const json_t *score = json_array_get(entry, 1);
  if (!text || !json_is_number(score))
    return ac_fail(AC_ERROR_FORMAT, "token %zu is not a text and a number", id);
  u->scores[id] = json_number_value(score);
  if (u->scores[id] < *least) *least = u->scores[id];
  return ac_vocabulary_put(&model->vocabulary, (uint32_t)id, text,
                           json_string_length(json_array_get(entry, 0)), false);
}

/* Of the tokens of the vocabulary that may be found in a text, less those that are unused. */
static ac_status make_trie(const ac_text_model *model, unigram *u, const ac_sentencepiece *from) {
  const ac_vocabulary *v = &model->vocabulary;
  ac_trie_string *strings = calloc(v->entry_count + 1, sizeof *strings);
  size_t count = 0;
  if (!strings)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", v->entry_count);
  for (size_t i = 0; i < v->entry_count; i++) {
    const ac_vocabulary_entry *entry = &v->entries[i];
    if (entry->apart || (from && from->tokens[entry->id].kind == AC_TOKEN_UNUSED)) continue;
    strings[count++] = (ac_trie_string){v->bytes + entry->at, entry->length, entry->id};
  }
  const ac_status status = ac_trie_build(&u->trie, strings, count);
  free(strings);
  return status;
}

static ac_status read_unigram(ac_text_model *model, const json_t *json) {
  const json_t *vocab = json_object_get(json, "vocab"), *unknown = json_object_get(json, "unk_id");
  const size_t count = json_array_size(vocab);
  double least = INFINITY;
  unigram *u = model->own = calloc(1, sizeof *u);
  if (u) u->scores = calloc(count + 1, sizeof *u->scores);
  if (!u || !u->scores) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  if (!count) return ac_fail(AC_ERROR_FORMAT, "the model has no vocab");
  for (size_t id = 0; id < count; id++)
    AC_TRY(read_entry(model, u, json_array_get(vocab, id), id, &least));
  u->unknown_score = least - 10;
  if (json_is_integer(unknown)) {
    if (json_integer_value(unknown) < 0 || (size_t)json_integer_value(unknown) >= count)
      return ac_fail(AC_ERROR_FORMAT, "unk_id is not the id of a token");
    model->unknown = (uint32_t)json_integer_value(unknown);
  }
  return make_trie(model, u, NULL);
}

/* A user-defined token beats all others, by a bonus as of SentencePiece. */
ac_status ac_text_unigram_by_scores(ac_text_model *model, const ac_sentencepiece *from) {
  float least = FLT_MAX, most = FLT_MIN;
  unigram *u = model->own = calloc(1, sizeof *u);
  if (u) u->scores = calloc(from->count + 1, sizeof *u->scores);
  if (!u || !u->scores) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  for (size_t i = 0; i < from->count; i++) {
    if (from->tokens[i].kind != AC_TOKEN_NORMAL) continue;
    if (from->tokens[i].score < least) least = from->tokens[i].score;
    if (from->tokens[i].score > most) most = from->tokens[i].score;
  }
  for (size_t i = 0; i < from->count; i++) {
    const ac_sentencepiece_token *token = &from->tokens[i];
    const bool user = token->kind == AC_TOKEN_USER_DEFINED;
    u->scores[i] = user ? (double)((float)token->bytes * most) - 0.1 : (double)token->score;
  }
  u->unknown_score = (double)(least - 10);
  u->single = true;
  return make_trie(model, u, from);
}

static void offer(const unigram *u, ending *to, double score, uint32_t id, size_t length) {
  if (to->length && !(score > to->score)) return;
  *to = (ending){u->single ? (double)(float)score : score, id, (uint32_t)length};
}

/* All tokens that begin at `at`. */
static void extend(const ac_text_model *model, unigram *u, const char *piece, size_t count,
                   size_t at) {
  const size_t whole = ac_utf8_length(piece[at]);
  const size_t character = whole < count - at ? whole : count - at;
  const double score = u->endings[at].score;
  bool covered = false;
  uint32_t node = 0;
  for (size_t end = at; end < count;) {
    node = ac_trie_child(&u->trie, node, (uint8_t)piece[end++]);
    if (!node) break;
    const uint32_t id = u->trie.nodes[node].value;
    if (id == AC_NO_TOKEN || ac_text_is_hidden(model, id)) continue;
    offer(u, &u->endings[end], score + u->scores[id], id, end - at);
    if (end - at == character) covered = true;
  }
  if (covered) return;
  const double unknown = score + u->unknown_score;
  offer(u, &u->endings[at + character], u->single ? (double)(float)unknown : unknown,
        model->unknown, character);
}

/* Characters in a row that are unknown are one token, or as many as they have bytes. */
static ac_status add_tokens(const ac_text_model *model, const unigram *u, size_t count,
                            ac_token_list *tokens) {
  const size_t first = tokens->count;
  for (size_t end = count; end;) { /* from the last token to the first */
    ending last = u->endings[end];
    size_t begin = end - last.length;
    while (last.id == model->unknown && begin && u->endings[begin].id == model->unknown)
      begin -= u->endings[begin].length;
    AC_TRY(ac_token_list_add(tokens, last.id, end - begin));
    end = begin;
  }
  for (size_t i = first, j = tokens->count; i + 1 < j; i++) {
    const ac_token token = tokens->list[i];
    tokens->list[i] = tokens->list[--j];
    tokens->list[j] = token;
  }
  return AC_OK;
}

/* Where unknown tokens are, their bytes do. */
static ac_status spell_unknown(const ac_text_model *model, const char *piece, size_t first,
                               ac_token_list *tokens) {
  ac_token_list spelled = {0};
  ac_status status = AC_OK;
  size_t at = 0;
  for (size_t i = first; i < tokens->count && status == AC_OK; i++) {
    const ac_token token = tokens->list[i];
    status = token.id == model->unknown
                 ? ac_text_add_unknown(model, &spelled, piece + at, token.length)
                 : ac_token_list_add(&spelled, token.id, token.length);
    at += token.length;
  }
  tokens->count = first;
  for (size_t i = 0; i < spelled.count && status == AC_OK; i++)
    status = ac_token_list_add(tokens, spelled.list[i].id, spelled.list[i].length);
  free(spelled.list);
  return status;
}

static ac_status encode_unigram(ac_text_model *model, const char *piece, size_t count,
                                ac_token_list *tokens) {
  unigram *u = model->own;
  const size_t first = tokens->count;
  AC_TRY(AC_ROOM(u->endings, u->capacity, count + 1));
  memset(u->endings, 0, (count + 1) * sizeof *u->endings);
  for (size_t at = 0; at < count; at += ac_utf8_length(piece[at]))
    extend(model, u, piece, count, at);
  AC_TRY(add_tokens(model, u, count, tokens));
  return model->byte_fallback ? spell_unknown(model, piece, first, tokens) : AC_OK;
}

const ac_text_model_kind ac_text_unigram = {"Unigram", read_unigram, encode_unigram, free_unigram};
