#include "text/model.h"

#include "core/quote.h"
#include "text/room.h"
#include "text/unicode.h"

#include <stdio.h>

ac_status ac_token_list_add(ac_token_list *list, uint32_t id, size_t length) {
  AC_TRY(AC_ROOM(list->list, list->capacity, list->count + 1));
  list->list[list->count++] = (ac_token){id, (uint32_t)length};
  return AC_OK;
}

/* GPT-2's characters for bytes: printable ones of Latin-1 are themselves; the others are
 * those from U+0100 on. */
static bool is_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

/* The byte that a character is for, or -1. */
static int byte_of(uint32_t character) {
  if (character < 0x100) return is_itself(character) ? (int)character : -1;
  uint32_t place = character - 0x100;
  for (uint32_t byte = 0; byte < 0x100; byte++)
    if (!is_itself(byte) && !place--) return (int)byte;
  return -1;
}

size_t ac_text_bytes_of(char *to, const char *text, size_t count, bool *bytes) {
  size_t made = 0, length;
  for (size_t at = 0; *bytes && at < count; at += length) {
    const uint32_t character = ac_utf8_get(text + at, &length);
    const int byte = character < 0x200 ? byte_of(character) : -1;
    if (byte < 0) *bytes = false;
    else to[made++] = (char)byte;
  }
  if (*bytes) return made;
  memcpy(to, text, count);
  return count;
}

uint32_t ac_text_find_written(const ac_text_model *model, const char *text, size_t count,
                              char *room) {
  bool bytes = model->bytes;
  const size_t made = ac_text_bytes_of(room, text, count, &bytes);
  return ac_vocabulary_find(&model->vocabulary, room, made, bytes != model->bytes);
}

uint32_t ac_text_find(const ac_text_model *model, const char *bytes, size_t count) {
  const uint32_t id = ac_vocabulary_find(&model->vocabulary, bytes, count, false);
  return id != AC_NO_TOKEN && ac_text_is_hidden(model, id) ? AC_NO_TOKEN : id;
}

static ac_status put_token(ac_text_model *model, char **room, size_t *capacity, const char *text,
                           const json_t *id) {
  const size_t length = strlen(text);
  if (!json_is_integer(id) || json_integer_value(id) < 0 ||
      json_integer_value(id) >= AC_MAX_VOCABULARY)
    return ac_fail(AC_ERROR_FORMAT, "token %s has no id from 0 to %d", ac_quote(text).text,
                   AC_MAX_VOCABULARY - 1);
  AC_TRY(AC_ROOM(*room, *capacity, length + 1));
  bool bytes = model->bytes;
  const size_t count = ac_text_bytes_of(*room, text, length, &bytes);
  return ac_vocabulary_put(&model->vocabulary, (uint32_t)json_integer_value(id), *room, count,
                           bytes != model->bytes);
}

ac_status ac_text_read_vocabulary(ac_text_model *model, const json_t *vocab) {
  char *room = NULL;
  size_t capacity = 0;
  ac_status status = AC_OK;
  if (!json_is_object(vocab) || !json_object_size(vocab))
    return ac_fail(AC_ERROR_FORMAT, "the model has no vocab");
  void *at = json_object_iter((json_t *)vocab);
  for (; at && status == AC_OK; at = json_object_iter_next((json_t *)vocab, at))
    status =
        put_token(model, &room, &capacity, json_object_iter_key(at), json_object_iter_value(at));
  free(room);
  return status;
}

ac_status ac_text_read_unknown(ac_text_model *model, const json_t *json, const char *key) {
  const json_t *name = json_object_get(json, key);
  const char *text = json_string_value(name);
  model->unknown = AC_NO_TOKEN;
  if (!text) return AC_OK;
  model->unknown = ac_vocabulary_find(&model->vocabulary, text, json_string_length(name), false);
  if (model->unknown == AC_NO_TOKEN)
    return ac_fail(AC_ERROR_FORMAT, "%s is %s, which the vocab does not have", key,
                   ac_quote(text).text);
  return AC_OK;
}

bool ac_text_has_bytes(const ac_text_model *model, const char *at, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (model->byte_ids[(unsigned char)at[i]] == AC_NO_TOKEN) return false;
  return model->byte_fallback;
}

ac_status ac_text_add_unknown(const ac_text_model *model, ac_token_list *tokens, const char *at,
                              size_t length) {
  if (!ac_text_has_bytes(model, at, length))
    return ac_token_list_add(tokens, model->unknown, length);
  for (size_t i = 0; i < length; i++)
    AC_TRY(ac_token_list_add(tokens, model->byte_ids[(unsigned char)at[i]], 1));
  return AC_OK;
}

static bool is_mark(const char *text, size_t count) {
  const size_t length = strlen(AC_WORD_MARK);
  return count >= length && !memcmp(text, AC_WORD_MARK, length);
}

size_t ac_text_word_end(const char *text, size_t count) {
  size_t at = 0;
  while (is_mark(text + at, count - at)) at += strlen(AC_WORD_MARK);
  while (at < count && !is_mark(text + at, count - at)) at++;
  return at;
}

static const ac_text_model_kind *kind_of(const json_t *json) {
  static const ac_text_model_kind *const kinds[] = {&ac_text_bpe, &ac_text_unigram,
                                                    &ac_text_wordpiece, &ac_text_wordlevel};
  const char *type = json_string_value(json_object_get(json, "type"));
  /* Old files have no type. */
  if (!type) type = json_object_get(json, "merges") ? "BPE" : "";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i]->type, type)) return kinds[i];
  ac_fail(AC_ERROR_UNSUPPORTED, "this library has no model %s", ac_quote(type).text);
  return NULL;
}

ac_status ac_text_model_read(ac_text_model *model, const json_t *json, bool bytes) {
  if (!json_is_object(json)) return ac_fail(AC_ERROR_FORMAT, "there is no model");
  model->kind = kind_of(json);
  if (!model->kind) return AC_ERROR_UNSUPPORTED;
  if (bytes && model->kind != &ac_text_bpe)
    return ac_fail(AC_ERROR_UNSUPPORTED, "this library has no %s of bytes (ByteLevel)",
                   model->kind->type);
  model->bytes = bytes;
  model->unknown = AC_NO_TOKEN;
  model->byte_fallback = json_is_true(json_object_get(json, "byte_fallback"));
  AC_TRY(model->kind->read(model, json));
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    model->byte_ids[byte] = ac_vocabulary_find(&model->vocabulary, name, strlen(name), false);
  }
  return AC_OK;
}

void ac_text_model_free(ac_text_model *model) {
  if (model->kind && model->own) model->kind->free(model->own);
  ac_vocabulary_free(&model->vocabulary);
  model->own = NULL;
}
