/* The tokenizer of a folder as GGUF metadata: tokenizer.json as tokens, their kinds, and merges or
 * scores. Byte-level BPE becomes llama.cpp's "gpt2", with the name of how it cuts texts; BPE of
 * SentencePiece becomes "llama". There it is scores that say what is joined first: a piece gets
 * that of the first merge that makes it. */
#include "export/export.h"

#include "core/error.h"
#include "core/quote.h"
#include "text/gguf_tokenizer.h"
#include "text/pre_tokenizers.h"

#include "core/platform/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
  ac_model *model;
  ac_values *values;
  const char *path;         /* of tokenizer.json, in sentences */
  const json_t *json, *bpe; /* the file, and its model */
  const json_t *settings;   /* tokenizer_config.json; NULL: there is none */
  int64_t count;            /* tokens: rows of the embedding */
  const char **tokens;      /* [count] */
  int32_t *kinds;           /* [count] */
} source;

static ac_status refuse_memory(const source *s) {
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its vocabulary", s->path);
}

static const char *text_of(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static ac_status take_token(const source *s, const char *text, const json_t *id, int32_t kind) {
  const json_int_t place = json_integer_value(id);
  if (!json_is_integer(id) || place < 0)
    return ac_fail(AC_ERROR_FORMAT, "%s: token %s has no id", s->path, ac_quote(text).text);
  if (place >= s->count)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: token %s has the id %" PRId64 ", but the embedding has %" PRId64 " rows",
                   s->path, ac_quote(text).text, (int64_t)place, s->count);
  s->tokens[place] = text;
  s->kinds[place] = kind;
  return AC_OK;
}

static bool is_byte(const char *text) {
  unsigned byte;
  char end;
  return strlen(text) == 6 && sscanf(text, "<0x%2X%c", &byte, &end) == 2 && end == '>';
}

static ac_status take_vocabulary(const source *s, bool bytes) {
  const char *text;
  json_t *id;
  json_object_foreach((json_t *)json_object_get(s->bpe, "vocab"), text, id) {
    const int32_t kind = !bytes && is_byte(text) ? AC_GGUF_TOKEN_BYTE : AC_GGUF_TOKEN_NORMAL;
    AC_TRY(take_token(s, text, id, kind));
  }
  return AC_OK;
}

static ac_status take_added(const source *s) {
  const json_t *list = json_object_get(s->json, "added_tokens"), *one;
  const char *unknown = text_of(s->bpe, "unk_token");
  size_t i;
  json_array_foreach((json_t *)list, i, one) {
    const char *text = text_of(one, "content");
    if (!text) return ac_fail(AC_ERROR_FORMAT, "%s: an added token has no content", s->path);
    const bool special = json_is_true(json_object_get(one, "special"));
    AC_TRY(take_token(s, text, json_object_get(one, "id"),
                      unknown && !strcmp(text, unknown) ? AC_GGUF_TOKEN_UNKNOWN
                      : special                         ? AC_GGUF_TOKEN_CONTROL
                                                        : AC_GGUF_TOKEN_USER_DEFINED));
  }
  return AC_OK;
}

/* Rows of the embedding without a token get names that no text has. */
static ac_status fill_rest(const source *s) {
  for (int64_t i = 0; i < s->count; i++) {
    char name[32];
    if (s->tokens[i]) continue;
    snprintf(name, sizeof name, "[PAD%" PRId64 "]", i);
    s->tokens[i] = ac_values_text(s->values, name);
    s->kinds[i] = AC_GGUF_TOKEN_UNUSED;
    if (!s->tokens[i]) return refuse_memory(s);
  }
  return AC_OK;
}

static ac_status take_tokens(source *s, bool bytes) {
  const size_t room = (size_t)s->count;
  s->tokens = ac_values_room(s->values, room * sizeof *s->tokens);
  s->kinds = ac_values_room(s->values, room * sizeof *s->kinds);
  if (!s->tokens || !s->kinds) return refuse_memory(s);
  memset(s->tokens, 0, room * sizeof *s->tokens);
  AC_TRY(take_vocabulary(s, bytes));
  AC_TRY(take_added(s));
  AC_TRY(fill_rest(s));
  /* Texts belong to the JSON, which is freed before the file is written. */
  for (int64_t i = 0; i < s->count; i++)
    if (!(s->tokens[i] = ac_values_text(s->values, s->tokens[i]))) return refuse_memory(s);
  ac_values_add(s->values, "tokenizer.ggml.tokens", AC_GGUF_TEXT, true, s->count, s->tokens);
  ac_values_add(s->values, "tokenizer.ggml.token_type", AC_GGUF_I32, true, s->count, s->kinds);
  return AC_OK;
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* A merge is "a b", or in newer files ["a", "b"]. */
static bool parts_of(const json_t *merge, const char **left, size_t *length, const char **right) {
  const char *text = json_string_value(merge);
  if (text) {
    *left = text;
    *length = *text ? 1 + strcspn(text + 1, " ") : 0;
    *right = text + *length + 1;
    return *length && text[*length] == ' ' && **right;
  }
  *left = json_string_value(json_array_get(merge, 0));
  *right = json_string_value(json_array_get(merge, 1));
  *length = *left ? strlen(*left) : 0;
  return *left && *right;
}

static ac_status add_merges(source *s) {
  const json_t *list = json_object_get(s->bpe, "merges"), *merge;
  const size_t count = json_array_size(list);
  const char **texts = ac_values_room(s->values, count * sizeof *texts), *left, *right;
  size_t i, length;
  if (!texts) return refuse_memory(s);
  json_array_foreach((json_t *)list, i, merge) {
    if (!parts_of(merge, &left, &length, &right))
      return ac_fail(AC_ERROR_FORMAT, "%s: merge %zu is not two tokens", s->path, i);
    const size_t room = length + strlen(right) + 2;
    char *text = ac_values_room(s->values, room);
    if (!text) return refuse_memory(s);
    snprintf(text, room, "%.*s %s", (int)length, left, right);
    texts[i] = text;
  }
  ac_values_add(s->values, "tokenizer.ggml.merges", AC_GGUF_TEXT, true, (int64_t)count, texts);
  return AC_OK;
}

/* Pieces that no merge makes are single characters, which nothing joins: their scores are below all
 * others. */
static ac_status add_scores(source *s) {
  const json_t *list = json_object_get(s->bpe, "merges"), *merge,
               *vocabulary = json_object_get(s->bpe, "vocab");
  const size_t count = json_array_size(list);
  float *scores = ac_values_room(s->values, (size_t)s->count * sizeof *scores);
  const char *left, *right;
  size_t i, length;
  if (!scores) return refuse_memory(s);
  for (int64_t k = 0; k < s->count; k++)
    scores[k] = s->kinds[k] == AC_GGUF_TOKEN_NORMAL ? -(float)(count + 1) : 0;
  json_array_foreach((json_t *)list, i, merge) {
    char whole[1024];
    if (!parts_of(merge, &left, &length, &right))
      return ac_fail(AC_ERROR_FORMAT, "%s: merge %zu is not two tokens", s->path, i);
    const int written = snprintf(whole, sizeof whole, "%.*s%s", (int)length, left, right);
    const json_t *id = (size_t)written < sizeof whole ? json_object_get(vocabulary, whole) : NULL;
    const int64_t place = id ? json_integer_value(id) : -1;
    if (place < 0 || place >= s->count) continue;
    if (scores[place] < -(float)count) scores[place] = -(float)i;
  }
  ac_values_add(s->values, "tokenizer.ggml.scores", AC_GGUF_F32, true, s->count, scores);
  return AC_OK;
}

/* ---- both kinds ------------------------------------------------------------------------------ */

static ac_status refuse_step(const source *s, const char *what, const json_t *step) {
  const char *type = text_of(step, "type");
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: llama.cpp has no name for its %s, %s", s->path, what,
                 type ? ac_quote(type).text : "none");
}

static ac_status add_bytes(source *s) {
  const json_t *steps = json_object_get(s->json, "pre_tokenizer"),
               *normalizer = json_object_get(s->json, "normalizer");
  const ac_pre_tokenizer *pre =
      ac_pre_tokenizer_of(steps, json_is_true(json_object_get(s->bpe, "ignore_merges")));
  const char *type = text_of(normalizer, "type");
  if (!pre) return refuse_step(s, "pre_tokenizer", steps);
  if (type && strcmp(type, "NFC") != 0) return refuse_step(s, "normalizer", normalizer);
  ac_values_add_text(s->values, "tokenizer.ggml.model", "gpt2");
  ac_values_add_text(s->values, "tokenizer.ggml.pre", pre->name);
  AC_TRY(take_tokens(s, true));
  return add_merges(s);
}

/* Whether a mark for a space is put before a text: by a step Prepend, or by Metaspace. */
static bool has_first_mark(const json_t *step) {
  const char *type = text_of(step, "type");
  if (type && !strcmp(type, "Prepend")) return true;
  if (type && !strcmp(type, "Metaspace")) {
    const char *scheme = text_of(step, "prepend_scheme");
    return scheme ? strcmp(scheme, "never") != 0
                  : !json_is_false(json_object_get(step, "add_prefix_space"));
  }
  const json_t *list = json_object_get(step, "normalizers");
  if (!list) list = json_object_get(step, "pretokenizers");
  for (size_t i = 0; i < json_array_size(list); i++) {
    type = text_of(json_array_get(list, i), "type");
    if (type && strcmp(type, "Sequence") != 0 && has_first_mark(json_array_get(list, i)))
      return true;
  }
  return false;
}

static ac_status add_pieces(source *s) {
  ac_values_add_text(s->values, "tokenizer.ggml.model", "llama");
  ac_values_add_text(s->values, "tokenizer.ggml.pre", "default");
  ac_values_add_bool(s->values, "tokenizer.ggml.add_space_prefix",
                     has_first_mark(json_object_get(s->json, "normalizer")) ||
                         has_first_mark(json_object_get(s->json, "pre_tokenizer")));
  AC_TRY(take_tokens(s, false));
  return add_scores(s);
}

/* ---- around a text --------------------------------------------------------------------------- */

/* What tokenizer_config.json names, else what the configuration has; -1: none. */
static int64_t named_token(const source *s, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(s->settings, key);
  const char *text = json_is_object(value) ? text_of(value, "content") : json_string_value(value);
  for (int64_t i = 0; text && i < s->count; i++)
    if (!strcmp(s->tokens[i], text)) return i;
  return otherwise;
}

static void add_token(const source *s, const char *key, int64_t id) {
  if (id >= 0 && id < s->count) ac_values_add_u32(s->values, key, id);
}

/* Whether the tokenizer puts these around a text: it is asked. */
static ac_status add_around(const source *s, int64_t begin, int64_t end) {
  ac_tokenizer *tokenizer = NULL;
  ac_encoding encoding = {0};
  AC_TRY(ac_model_tokenizer(s->model, &tokenizer));
  AC_TRY(ac_tokenizer_encode(tokenizer, "a", 1, &(ac_encode_desc){.add_special = true}, &encoding));
  const bool first = encoding.count > 1 && encoding.ids[0] == begin,
             last = encoding.count > 1 && encoding.ids[encoding.count - 1] == end;
  ac_encoding_free(&encoding);
  ac_values_add_bool(s->values, "tokenizer.ggml.add_bos_token", begin >= 0 && first);
  ac_values_add_bool(s->values, "tokenizer.ggml.add_eos_token", end >= 0 && last);
  return AC_OK;
}

static ac_status add_special(const source *s) {
  const ac_model_config *c = &s->model->config;
  const int64_t begin = named_token(s, "bos_token", c->begin),
                end = named_token(s, "eos_token", c->end_count ? c->ends[0] : -1);
  add_token(s, "tokenizer.ggml.bos_token_id", begin);
  add_token(s, "tokenizer.ggml.eos_token_id", end);
  add_token(s, "tokenizer.ggml.unknown_token_id", named_token(s, "unk_token", -1));
  add_token(s, "tokenizer.ggml.padding_token_id", named_token(s, "pad_token", -1));
  /* The first further token that ends what is generated, such as the end of a turn. */
  for (int i = 0; i < c->end_count; i++)
    if (c->ends[i] != end) {
      add_token(s, "tokenizer.ggml.eot_token_id", c->ends[i]);
      break;
    }
  AC_TRY(add_around(s, begin, end));
  const char *chat = ac_model_chat_template(s->model);
  if (chat) ac_values_add_text(s->values, "tokenizer.chat_template", chat);
  return AC_OK;
}

static ac_status add_all(source *s) {
  const char *type = text_of(s->bpe, "type");
  if (!type || strcmp(type, "BPE") != 0)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: the model %s cannot be written into a GGUF file; BPE can", s->path,
                   type ? ac_quote(type).text : "is missing, and none");
  const bool pieces = json_is_true(json_object_get(s->bpe, "byte_fallback"));
  AC_TRY(pieces ? add_pieces(s) : add_bytes(s));
  return add_special(s);
}

ac_status ac_export_tokenizer_values(ac_values *values, ac_model *model) {
  char *path;
  json_t *json = NULL, *settings = NULL;
  AC_TRY(ac_export_path(&path, model->folder, "tokenizer.json"));
  ac_status status = ac_export_read_json(&json, model->folder, "tokenizer.json");
  if (status == AC_OK)
    status = ac_export_read_json(&settings, model->folder, "tokenizer_config.json");
  source s = {.model = model,
              .values = values,
              .path = path,
              .json = json,
              .bpe = json_object_get(json, "model"),
              .settings = settings,
              .count = model->config.vocabulary};
  if (status == AC_OK && !json)
    status = ac_fail(AC_ERROR_UNSUPPORTED,
                     "%s: there is none; a GGUF file needs the vocabulary in it", path);
  if (status == AC_OK) status = add_all(&s);
  json_decref(json);
  json_decref(settings);
  free(path);
  return status;
}
