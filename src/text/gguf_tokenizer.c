/* A GGUF file has a vocabulary as arrays: tokens, their kinds, merges or scores. Of the model
 * "gpt2" the tokens are of bytes, shown as characters, with merges, and `pre` names the pattern. Of
 * the model "llama" they are pieces of SentencePiece's BPE: it joins the two neighbours that make
 * the piece with the best score. Written as merges: for each piece, all ways to make it of two
 * pieces, in the order of the scores. */
#include "text/gguf_tokenizer.h"

#include "core/error.h"
#include "core/quote.h"
#include "core/utf8.h"
#include "text/pre_tokenizers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct vocabulary {
  const ac_gguf_metadata *metadata;
  const char *source;
  const char *const *tokens; /* [count] */
  const int32_t *kinds;      /* [count]; NULL: all are normal */
  const float *scores;       /* [count]; NULL: there are none */
  int64_t count;
  json_t *ids;   /* {TOKEN: id} */
  json_t *added; /* the list of added tokens */
} vocabulary;

static ac_status refuse_memory(const vocabulary *v) {
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tokenizer", v->source);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *text_value(const vocabulary *v, const char *key) {
  const ac_gguf_value *value = ac_gguf_metadata_find(v->metadata, key);
  return value && value->type == AC_GGUF_TEXT && !value->array ? *(const char *const *)value->data
                                                               : NULL;
}

static bool bool_value(const vocabulary *v, const char *key, bool otherwise) {
  const ac_gguf_value *value = ac_gguf_metadata_find(v->metadata, key);
  return value && value->type == AC_GGUF_BOOL && !value->array ? *(const bool *)value->data
                                                               : otherwise;
}

int64_t ac_gguf_token_id(const ac_gguf_metadata *metadata, const char *key) {
  const ac_gguf_value *value = ac_gguf_metadata_find(metadata, key);
  if (!value || value->array) return -1;
  if (value->type == AC_GGUF_U32) return *(const uint32_t *)value->data;
  if (value->type == AC_GGUF_I32) return *(const int32_t *)value->data;
  return -1;
}

/* An array of this type with an element for each token; NULL: there is none. */
static ac_status array_value(const vocabulary *v, const char *key, ac_gguf_type type,
                             const void **data) {
  const ac_gguf_value *value = ac_gguf_metadata_find(v->metadata, key);
  *data = NULL;
  if (!value) return AC_OK;
  if (!value->array || value->type != type)
    return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is of another type than llama.cpp writes",
                   v->source, ac_quote(key).text);
  if (v->count && value->count != v->count)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: metadata %s has %" PRId64 " elements for %" PRId64 " tokens", v->source,
                   ac_quote(key).text, value->count, v->count);
  *data = value->data;
  return AC_OK;
}

static ac_status take_arrays(vocabulary *v) {
  const void *data;
  const ac_gguf_value *tokens = ac_gguf_metadata_find(v->metadata, "tokenizer.ggml.tokens");
  if (!tokens || !tokens->count)
    return ac_fail(AC_ERROR_FORMAT, "%s: it has no tokenizer.ggml.tokens", v->source);
  AC_TRY(array_value(v, "tokenizer.ggml.tokens", AC_GGUF_TEXT, &data));
  v->tokens = data;
  v->count = tokens->count;
  AC_TRY(array_value(v, "tokenizer.ggml.token_type", AC_GGUF_I32, &data));
  v->kinds = data;
  AC_TRY(array_value(v, "tokenizer.ggml.scores", AC_GGUF_F32, &data));
  v->scores = data;
  return AC_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int kind_of(const vocabulary *v, int64_t id) {
  return v->kinds ? v->kinds[id] : AC_GGUF_TOKEN_NORMAL;
}

static json_t *added_token(int64_t id, const char *text, bool special) {
  return json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text,
                   "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", special);
}

/* Those that are padding up to the rows of the embedding stay out. */
static ac_status take_token(vocabulary *v, int64_t id) {
  const char *text = v->tokens[id];
  const int kind = kind_of(v, id);
  if (kind == AC_GGUF_TOKEN_UNUSED) return AC_OK;
  if (!ac_is_utf8(text))
    return ac_fail(AC_ERROR_FORMAT, "%s: token %" PRId64 " is not UTF-8", v->source, id);
  if (json_object_get(v->ids, text))
    return ac_fail(AC_ERROR_FORMAT, "%s: token %s comes twice", v->source, ac_quote(text).text);
  if (json_object_set_new_nocheck(v->ids, text, json_integer(id)) != 0) return refuse_memory(v);
  const bool special = kind == AC_GGUF_TOKEN_CONTROL || kind == AC_GGUF_TOKEN_UNKNOWN;
  if ((special || kind == AC_GGUF_TOKEN_USER_DEFINED) && *text &&
      json_array_append_new(v->added, added_token(id, text, special)) != 0)
    return refuse_memory(v);
  return AC_OK;
}

static ac_status take_tokens(vocabulary *v) {
  v->ids = json_object();
  v->added = json_array();
  if (!v->ids || !v->added) return refuse_memory(v);
  for (int64_t id = 0; id < v->count; id++) AC_TRY(take_token(v, id));
  return AC_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

static ac_status written_merges(const vocabulary *v, json_t *merges) {
  const ac_gguf_value *value = ac_gguf_metadata_find(v->metadata, "tokenizer.ggml.merges");
  if (!value || !value->array || value->type != AC_GGUF_TEXT)
    return ac_fail(AC_ERROR_FORMAT, "%s: it has no tokenizer.ggml.merges", v->source);
  const char *const *texts = value->data;
  for (int64_t i = 0; i < value->count; i++) {
    const char *blank = strchr(*texts[i] ? texts[i] + 1 : texts[i], ' ');
    if (!blank || !blank[1] || !ac_is_utf8(texts[i]))
      return ac_fail(AC_ERROR_FORMAT, "%s: merge %" PRId64 ", %s, is not two tokens", v->source, i,
                     ac_quote(texts[i]).text);
    if (json_array_append_new(
            merges, json_pack("[s%, s]", texts[i], (size_t)(blank - texts[i]), blank + 1)) != 0)
      return refuse_memory(v);
  }
  return AC_OK;
}

typedef struct merge {
  int64_t whole, left, right; /* ids */
  float score;
} merge;

typedef struct merge_list {
  merge *list;
  size_t count, capacity;
} merge_list;

static bool add_merge(merge_list *to, merge one) {
  if (to->count == to->capacity) {
    const size_t capacity = to->capacity ? 2 * to->capacity : 1024;
    merge *list = realloc(to->list, capacity * sizeof *list);
    if (!list) return false;
    to->list = list;
    to->capacity = capacity;
  }
  to->list[to->count++] = one;
  return true;
}

/* Better scores first, then the order of the file. */
static int by_score(const void *a, const void *b) {
  const merge *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
  if (x->left != y->left) return x->left < y->left ? -1 : 1;
  return (x->right > y->right) - (x->right < y->right);
}

static int64_t find_piece(const vocabulary *v, const char *text, size_t length) {
  const json_t *id = json_object_getn(v->ids, text, length);
  return id ? json_integer_value(id) : -1;
}

static bool is_piece(const vocabulary *v, int64_t id) {
  return kind_of(v, id) == AC_GGUF_TOKEN_NORMAL;
}

/* All ways to make a piece of two others, at each place between characters. */
static bool add_ways(const vocabulary *v, int64_t whole, merge_list *to) {
  const char *text = v->tokens[whole];
  const size_t length = strlen(text);
  enum { MOST_PIECE = 1024 };
  for (size_t cut = 1; length <= MOST_PIECE && cut < length; cut++) {
    if (((unsigned char)text[cut] & 0xc0) == 0x80) continue;
    const int64_t left = find_piece(v, text, cut),
                  right = left < 0 ? -1 : find_piece(v, text + cut, length - cut);
    if (right < 0 || !is_piece(v, left) || !is_piece(v, right)) continue;
    if (!add_merge(to, (merge){whole, left, right, v->scores[whole]})) return false;
  }
  return true;
}

static ac_status merges_of_scores(const vocabulary *v, json_t *merges) {
  merge_list all = {.count = 0};
  if (!v->scores) return ac_fail(AC_ERROR_FORMAT, "%s: it has no tokenizer.ggml.scores", v->source);
  bool whole = true;
  for (int64_t id = 0; whole && id < v->count; id++)
    if (is_piece(v, id)) whole = add_ways(v, id, &all);
  if (all.count) qsort(all.list, all.count, sizeof *all.list, by_score);
  for (size_t i = 0; whole && i < all.count; i++)
    whole = json_array_append_new(merges, json_pack("[s, s]", v->tokens[all.list[i].left],
                                                    v->tokens[all.list[i].right])) == 0;
  free(all.list);
  return whole ? AC_OK : refuse_memory(v);
}

/* ---- around a text --------------------------------------------------------------------------- */

/* The token of a key, if the flag asks for it. */
static const char *around(const vocabulary *v, const char *flag, bool otherwise, const char *key,
                          int64_t *id) {
  *id = ac_gguf_token_id(v->metadata, key);
  if (*id < 0 || *id >= v->count || kind_of(v, *id) == AC_GGUF_TOKEN_UNUSED) return NULL;
  return bool_value(v, flag, otherwise) ? v->tokens[*id] : NULL;
}

static bool append_special(json_t *single, json_t *pair, int second, json_t *tokens,
                           const char *token, int64_t id) {
  if (!token) return true;
  return json_array_append_new(
             single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", 0)) == 0 &&
         json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token,
                                               "type_id", second)) == 0 &&
         json_object_set_new(tokens, token,
                             json_pack("{s:s, s:[I], s:[s]}", "id", token, "ids", (json_int_t)id,
                                       "tokens", token)) == 0;
}

static bool append_text(json_t *list, const char *which, int second) {
  return json_array_append_new(
             list, json_pack("{s:{s:s, s:i}}", "Sequence", "id", which, "type_id", second)) == 0;
}

/* A template with the begin and the end token that the file asks for; null if there are none. */
static json_t *template_of(const vocabulary *v, bool begins) {
  int64_t begin, end;
  const char *first = around(v, "tokenizer.ggml.add_bos_token", begins,
                             "tokenizer.ggml.bos_token_id", &begin),
             *last = around(v, "tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id",
                            &end);
  if (!first && !last) return json_null();
  json_t *single = json_array(), *pair = json_array(), *tokens = json_object(), *made = NULL;
  if (single && pair && tokens && append_special(single, pair, 0, tokens, first, begin) &&
      append_text(single, "A", 0) && append_text(pair, "A", 0) &&
      append_special(single, pair, 0, tokens, last, end) &&
      (!first || json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id",
                                                       first, "type_id", 1)) == 0) &&
      append_text(pair, "B", 1) &&
      (!last || json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", last,
                                                      "type_id", 1)) == 0))
    made = json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single", single, "pair",
                     pair, "special_tokens", tokens);
  json_decref(single);
  json_decref(pair);
  json_decref(tokens);
  return made;
}

/* ---- both models ----------------------------------------------------------------------------- */

/* Takes all that it is given. */
static ac_status assemble(const vocabulary *v, json_t *normalizer, json_t *pre, json_t *post,
                          json_t *decoder, json_t *model, json_t **json) {
  json_t *made = NULL;
  if (normalizer && pre && post && decoder && model)
    made =
        json_pack("{s:s, s:n, s:n, s:O, s:O, s:O, s:O, s:O, s:O}", "version", "1.0", "truncation",
                  "padding", "added_tokens", v->added, "normalizer", normalizer, "pre_tokenizer",
                  pre, "post_processor", post, "decoder", decoder, "model", model);
  json_decref(normalizer);
  json_decref(pre);
  json_decref(post);
  json_decref(decoder);
  json_decref(model);
  *json = made;
  return made ? AC_OK : refuse_memory(v);
}

static json_t *model_json(const vocabulary *v, json_t *merges, const char *unknown, bool fallback,
                          bool whole_words) {
  return json_pack("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
                   "unk_token", unknown, "continuing_subword_prefix", "end_of_word_suffix",
                   "fuse_unk", fallback, "byte_fallback", fallback, "ignore_merges", whole_words,
                   "vocab", v->ids, "merges", merges);
}

static json_t *byte_level(void) {
  return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                   "trim_offsets", 1, "use_regex", 1);
}

static ac_status make_bytes(const vocabulary *v, json_t *merges, json_t **json) {
  const char *name = text_value(v, "tokenizer.ggml.pre");
  const ac_pre_tokenizer *pre = name ? ac_pre_tokenizer_named(name) : NULL;
  if (!pre)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: this library does not know the tokenizer.ggml.pre %s, which says how texts "
                   "are cut",
                   v->source, name ? ac_quote(name).text : "that is missing");
  AC_TRY(written_merges(v, merges));
  json_t *normalizer = pre->composed ? json_pack("{s:s}", "type", "NFC") : json_null();
  return assemble(v, normalizer, ac_pre_tokenizer_json(pre), template_of(v, pre->begins),
                  byte_level(), model_json(v, merges, NULL, false, pre->whole_words), json);
}

#define MARK "\xe2\x96\x81" /* a space, as SentencePiece writes it */

static json_t *replace(const char *from, const char *to) {
  return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from, "content",
                   to);
}

static ac_status make_pieces(const vocabulary *v, json_t *merges, json_t **json) {
  const bool first = bool_value(v, "tokenizer.ggml.add_space_prefix", true);
  const int64_t unknown = ac_gguf_token_id(v->metadata, "tokenizer.ggml.unknown_token_id");
  AC_TRY(merges_of_scores(v, merges));
  json_t *normalizer =
      first ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type",
                        "Prepend", "prepend", MARK, replace(" ", MARK))
            : replace(" ", MARK);
  json_t *decoder =
      first ? json_pack("{s:s, s:[o, {s:s}, {s:s}, {s:s, s:s, s:i, s:i}]}", "type", "Sequence",
                        "decoders", replace(MARK, " "), "type", "ByteFallback", "type", "Fuse",
                        "type", "Strip", "content", " ", "start", 1, "stop", 0)
            : json_pack("{s:s, s:[o, {s:s}, {s:s}]}", "type", "Sequence", "decoders",
                        replace(MARK, " "), "type", "ByteFallback", "type", "Fuse");
  return assemble(v, normalizer, json_null(), template_of(v, true), decoder,
                  model_json(v, merges,
                             unknown >= 0 && unknown < v->count ? v->tokens[unknown] : NULL, true,
                             false),
                  json);
}

static ac_status make_json(vocabulary *v, json_t **json) {
  const char *model = text_value(v, "tokenizer.ggml.model");
  const bool bytes = model && !strcmp(model, "gpt2");
  if (!bytes && (!model || strcmp(model, "llama") != 0))
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: this library does not know the tokenizer.ggml.model %s", v->source,
                   model ? ac_quote(model).text : "that is missing");
  AC_TRY(take_arrays(v));
  AC_TRY(take_tokens(v));
  json_t *merges = json_array();
  if (!merges) return refuse_memory(v);
  const ac_status status = bytes ? make_bytes(v, merges, json) : make_pieces(v, merges, json);
  json_decref(merges);
  return status;
}

ac_status ac_gguf_tokenizer_json(json_t **json, const ac_gguf_metadata *metadata,
                                 const char *source) {
  vocabulary v = {.metadata = metadata, .source = source};
  *json = NULL;
  const ac_status status = make_json(&v, json);
  json_decref(v.ids);
  json_decref(v.added);
  return status;
}
