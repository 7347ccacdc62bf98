/* The tokenizer inside a GGUF file, opened. Of the model "gpt2" it is what it would be as a
 * tokenizer.json; of the model "llama" it is one of SentencePiece's, with the settings that
 * llama.cpp has for it. */
#include "text/gguf_tokenizer.h"

#include "core/quote.h"
#include "text/room.h"
#include "text/tokenizer.h"

#include <inttypes.h>

static const ac_gguf_value *find(const ac_gguf_metadata *metadata, const char *key,
                                 ac_gguf_type type, bool array) {
  const ac_gguf_value *value = ac_gguf_metadata_find(metadata, key);
  return value && value->type == type && value->array == array ? value : NULL;
}

static const char *text_of(const ac_gguf_metadata *metadata, const char *key) {
  const ac_gguf_value *value = find(metadata, key, AC_GGUF_TEXT, false);
  return value ? *(const char *const *)value->data : "";
}

static bool is_set(const ac_gguf_metadata *metadata, const char *key, bool otherwise) {
  const ac_gguf_value *value = find(metadata, key, AC_GGUF_BOOL, false);
  return value ? *(const bool *)value->data : otherwise;
}

/* ---- SentencePiece's ------------------------------------------------------------------------- */

static ac_status take_kinds(ac_sentencepiece *to, const ac_gguf_metadata *metadata) {
  const ac_gguf_value *kinds = find(metadata, "tokenizer.ggml.token_type", AC_GGUF_I32, true);
  if (!kinds) return AC_OK;
  if (kinds->count != (int64_t)to->count)
    return ac_fail(AC_ERROR_FORMAT,
                   "tokenizer.ggml.token_type has %" PRId64 " elements for %zu tokens",
                   kinds->count, to->count);
  const int32_t *data = kinds->data;
  for (size_t i = 0; i < to->count; i++) {
    if (data[i] < AC_TOKEN_NORMAL || data[i] > AC_TOKEN_BYTE)
      return ac_fail(AC_ERROR_UNSUPPORTED, "token %zu is of an unknown kind, %" PRId32, i, data[i]);
    to->tokens[i].kind = (ac_token_kind)data[i];
    if (data[i] == AC_TOKEN_BYTE) to->byte_fallback = true;
  }
  return AC_OK;
}

static ac_status take_tokens(ac_sentencepiece *to, const ac_gguf_metadata *metadata) {
  const ac_gguf_value *texts = find(metadata, "tokenizer.ggml.tokens", AC_GGUF_TEXT, true),
                      *scores = find(metadata, "tokenizer.ggml.scores", AC_GGUF_F32, true);
  if (!texts || !texts->count) return ac_fail(AC_ERROR_FORMAT, "there is no tokenizer.ggml.tokens");
  if (!scores || scores->count != texts->count)
    return ac_fail(AC_ERROR_FORMAT, "tokenizer.ggml.scores has not one element for each token");
  AC_TRY(AC_ROOM(to->tokens, to->capacity, (size_t)texts->count));
  to->count = (size_t)texts->count;
  for (size_t i = 0; i < to->count; i++) {
    const char *text = ((const char *const *)texts->data)[i];
    to->tokens[i] = (ac_sentencepiece_token){.text = text,
                                             .bytes = strlen(text),
                                             .score = ((const float *)scores->data)[i],
                                             .kind = AC_TOKEN_NORMAL};
  }
  return take_kinds(to, metadata);
}

/* The token that begins or ends a text, if the file asks for it. */
static ac_status take_around(ac_tokenizer *t, ac_id_list *list, const ac_gguf_metadata *metadata,
                             const char *key) {
  const int64_t id = ac_gguf_token_id(metadata, key);
  size_t unused;
  if (id < 0 || id >= AC_MAX_VOCABULARY ||
      !ac_vocabulary_token(&t->model.vocabulary, (uint32_t)id, &unused))
    return ac_fail(AC_ERROR_FORMAT, "%s is not the id of a token", key);
  return ac_id_list_add(list, (uint32_t)id);
}

/* Phi-3's control tokens take the spaces after them, but for these. */
static void take_spaces_after(ac_tokenizer *t) {
  static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
  for (size_t i = 0; i < t->added_count; i++) {
    ac_added_token *added = &t->added[i];
    added->rstrip = true;
    for (size_t o = 0; o < sizeof others / sizeof *others; o++)
      if (added->bytes == strlen(others[o]) && !memcmp(added->text, others[o], added->bytes))
        added->rstrip = false;
  }
}

static ac_status make_pieces(ac_tokenizer *t, const ac_gguf_metadata *metadata,
                             ac_sentencepiece *from) {
  AC_TRY(take_tokens(from, metadata));
  AC_TRY(ac_tokenizer_make(t, from));
  if (!strcmp(text_of(metadata, "general.architecture"), "phi3")) take_spaces_after(t);
  AC_TRY(ac_tokenizer_list_added(t));
  if (is_set(metadata, "tokenizer.ggml.add_bos_token", true))
    AC_TRY(take_around(t, &t->before, metadata, "tokenizer.ggml.bos_token_id"));
  if (is_set(metadata, "tokenizer.ggml.add_eos_token", false))
    AC_TRY(take_around(t, &t->after, metadata, "tokenizer.ggml.eos_token_id"));
  return AC_OK;
}

static ac_status read_pieces(ac_tokenizer *t, const ac_gguf_metadata *metadata, const char *path) {
  ac_sentencepiece from = {.bpe = true,
                           .escape = true,
                           .prefix = is_set(metadata, "tokenizer.ggml.add_space_prefix", true),
                           .squeeze =
                               is_set(metadata, "tokenizer.ggml.remove_extra_whitespaces", false)};
  const ac_status status = make_pieces(t, metadata, &from);
  free(from.tokens);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

/* ---- any ------------------------------------------------------------------------------------- */

static ac_status read_as_json(ac_tokenizer *t, const ac_gguf_metadata *metadata, const char *path) {
  json_t *json;
  AC_TRY(ac_gguf_tokenizer_json(&json, metadata, path));
  const ac_status status = ac_tokenizer_read_json(t, json);
  json_decref(json);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

ac_status ac_tokenizer_read_gguf(ac_tokenizer *t, const char *path) {
  ac_gguf_metadata *metadata;
  AC_TRY(ac_gguf_metadata_open(&metadata, path));
  const bool pieces = !strcmp(text_of(metadata, "tokenizer.ggml.model"), "llama");
  const ac_status status =
      pieces ? read_pieces(t, metadata, path) : read_as_json(t, metadata, path);
  ac_gguf_metadata_close(metadata);
  return status;
}
