/* WordPiece: from the beginning of a word on, always the longest token; tokens that do not begin
 * the word have a prefix, usually "##". A word with a part that no token begins with is unknown as
 * a whole, and so is one of too many characters. WordLevel: a word is a token or unknown. */
#include "text/model.h"

#include "text/room.h"
#include "text/unicode.h"

typedef struct wordpiece {
  ac_trie first, later; /* tokens that begin a word, and the others without their prefix */
  size_t most;          /* characters of a word */
} wordpiece;

static void free_wordpiece(void *own) {
  wordpiece *w = own;
  ac_trie_free(&w->first);
  ac_trie_free(&w->later);
  free(w);
}

/* Tokens with the prefix, without it, or all of them for a prefix of none. */
static ac_status make_trie(const ac_vocabulary *v, const char *prefix, bool with, ac_trie *trie) {
  const size_t length = strlen(prefix);
  ac_trie_string *strings = calloc(v->entry_count + 1, sizeof *strings);
  size_t count = 0;
  if (!strings)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", v->entry_count);
  for (size_t i = 0; i < v->entry_count; i++) {
    const size_t bytes = v->entries[i].length, skipped = with ? length : 0;
    const char *token = v->bytes + v->entries[i].at;
    if (with && (bytes < length || memcmp(token, prefix, length))) continue;
    strings[count++] = (ac_trie_string){token + skipped, bytes - skipped, v->entries[i].id};
  }
  const ac_status status = ac_trie_build(trie, strings, count);
  free(strings);
  return status;
}

static ac_status read_wordpiece(ac_text_model *model, const json_t *json) {
  const json_t *most = json_object_get(json, "max_input_chars_per_word");
  const char *prefix = json_string_value(json_object_get(json, "continuing_subword_prefix"));
  wordpiece *w = model->own = calloc(1, sizeof *w);
  if (!w) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a model");
  w->most = json_is_integer(most) && json_integer_value(most) > 0 ? (size_t)json_integer_value(most)
                                                                  : 100;
  AC_TRY(ac_text_read_vocabulary(model, json_object_get(json, "vocab")));
  AC_TRY(ac_text_read_unknown(model, json, "unk_token"));
  AC_TRY(make_trie(&model->vocabulary, "", false, &w->first));
  return make_trie(&model->vocabulary, prefix ? prefix : "##", true, &w->later);
}

static size_t characters_of(const char *piece, size_t count) {
  size_t characters = 0;
  for (size_t i = 0; i < count; i++) characters += ((unsigned char)piece[i] & 0xc0) != 0x80;
  return characters;
}

/* The longest token that the text begins with, and its length; AC_NO_TOKEN: none. */
static uint32_t longest(const ac_text_model *model, const ac_trie *trie, const char *text,
                        size_t count, size_t *length) {
  uint32_t found = AC_NO_TOKEN, node = 0;
  for (size_t i = 0; i < count; i++) {
    node = ac_trie_child(trie, node, (uint8_t)text[i]);
    if (!node) break;
    const uint32_t id = trie->nodes[node].value;
    if (id == AC_NO_TOKEN || ac_text_is_hidden(model, id)) continue;
    found = id;
    *length = i + 1;
  }
  return found;
}

static ac_status encode_wordpiece(ac_text_model *model, const char *piece, size_t count,
                                  ac_token_list *tokens) {
  const wordpiece *w = model->own;
  const size_t first = tokens->count;
  bool whole = characters_of(piece, count) <= w->most;
  for (size_t at = 0, length = 0; at < count && whole; at += length) {
    const ac_trie *trie = at ? &w->later : &w->first;
    const uint32_t id = longest(model, trie, piece + at, count - at, &length);
    whole = id != AC_NO_TOKEN;
    if (whole) AC_TRY(ac_token_list_add(tokens, id, length));
  }
  if (whole) return AC_OK;
  tokens->count = first;
  return ac_token_list_add(tokens, model->unknown, count);
}

const ac_text_model_kind ac_text_wordpiece = {"WordPiece", read_wordpiece, encode_wordpiece,
                                              free_wordpiece};

static ac_status read_wordlevel(ac_text_model *model, const json_t *json) {
  AC_TRY(ac_text_read_vocabulary(model, json_object_get(json, "vocab")));
  return ac_text_read_unknown(model, json, "unk_token");
}

static ac_status encode_wordlevel(ac_text_model *model, const char *piece, size_t count,
                                  ac_token_list *tokens) {
  const uint32_t id = ac_text_find(model, piece, count);
  return ac_token_list_add(tokens, id == AC_NO_TOKEN ? model->unknown : id, count);
}

const ac_text_model_kind ac_text_wordlevel = {"WordLevel", read_wordlevel, encode_wordlevel, NULL};
