#include "text/tokenizer.h"

#include "core/quote.h"
#include "text/room.h"

/* ---- added tokens ---------------------------------------------------------------------------- */

/* The id of a token with this text: of an added one, of one of the model, or a new one. */
static ac_status own_id(ac_tokenizer *t, const char *text, size_t bytes, char *room, uint32_t id,
                        uint32_t *own) {
  ac_vocabulary *v = &t->model.vocabulary;
  *own = ac_vocabulary_find(v, text, bytes, true);
  if (*own == AC_NO_TOKEN) *own = ac_text_find_written(&t->model, text, bytes, room);
  if (*own != AC_NO_TOKEN) return AC_OK;
  *own = id;
  return ac_vocabulary_put(v, *own, text, bytes, true);
}

ac_status ac_tokenizer_add(ac_tokenizer *t, const ac_added_token *token) {
  AC_TRY(AC_ROOM(t->added, t->added_capacity, t->added_count + 1));
  char *copy = malloc(token->bytes + 1);
  if (!copy) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for added tokens");
  ac_added_token *added = &t->added[t->added_count++];
  *added = *token;
  added->text = copy;
  AC_TRY(own_id(t, token->text, token->bytes, copy, token->id, &added->id));
  memcpy(copy, token->text, token->bytes);
  if (added->special) ac_vocabulary_entry_of(&t->model.vocabulary, added->id)->special = true;
  return AC_OK;
}

ac_status ac_tokenizer_add_json(ac_tokenizer *t, const json_t *json) {
  const json_t *content = json_object_get(json, "content"), *id = json_object_get(json, "id");
  const bool special = ac_json_bool(json, "special", false);
  if (!json_string_length(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
      json_integer_value(id) >= AC_MAX_VOCABULARY)
    return ac_fail(AC_ERROR_FORMAT, "an added token has no content or no id");
  const ac_added_token token = {.text = (char *)json_string_value(content),
                                .bytes = json_string_length(content),
                                .id = (uint32_t)json_integer_value(id),
                                .special = special,
                                .normalized = ac_json_bool(json, "normalized", !special),
                                .single_word = ac_json_bool(json, "single_word", false),
                                .lstrip = ac_json_bool(json, "lstrip", false),
                                .rstrip = ac_json_bool(json, "rstrip", false)};
  return ac_tokenizer_add(t, &token);
}

/* The token as the normalizer leaves it, in work.text. */
static ac_status normalize(ac_tokenizer *t, const char *bytes, size_t count) {
  AC_TRY(ac_text_begin(&t->work.text, bytes, count, 0));
  t->work.pieces.count = 0;
  AC_TRY(ac_pieces_add(&t->work.pieces, 0, count));
  return ac_steps_run(&t->normalizer, &t->work);
}

/* Strings of those that are found in given or in normalized text. free() frees each one's bytes. */
static ac_status add_string(ac_tokenizer *t, ac_trie_string *to, size_t index) {
  const char *bytes = t->added[index].text;
  size_t count = t->added[index].bytes;
  if (t->added[index].normalized) {
    AC_TRY(normalize(t, bytes, count));
    bytes = t->work.text.bytes;
    count = t->work.text.count;
  }
  char *copy = malloc(count + 1);
  if (!copy) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for added tokens");
  memcpy(copy, bytes, count);
  *to = (ac_trie_string){copy, count, (uint32_t)index};
  return AC_OK;
}

static ac_status make_trie(ac_tokenizer *t, bool normalized, ac_trie *trie) {
  ac_trie_string *strings = calloc(t->added_count + 1, sizeof *strings);
  size_t count = 0;
  ac_status status = AC_OK;
  if (!strings) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for added tokens");
  for (size_t i = 0; i < t->added_count && status == AC_OK; i++)
    if (t->added[i].normalized == normalized) status = add_string(t, &strings[count++], i);
  if (status == AC_OK) status = ac_trie_build(trie, strings, count);
  for (size_t i = 0; i < count; i++) free((char *)strings[i].bytes);
  free(strings);
  return status;
}

/* Equal tokens are special together: a Unigram model may have a token twice. */
static void share_special(ac_vocabulary *v) {
  for (size_t i = 0; i < v->entry_count; i++) {
    ac_vocabulary_entry *entry = &v->entries[i];
    const uint32_t same = ac_vocabulary_find(v, v->bytes + entry->at, entry->length, entry->apart);
    if (ac_vocabulary_is_special(v, same)) entry->special = true;
  }
}

ac_status ac_tokenizer_list_added(ac_tokenizer *t) {
  share_special(&t->model.vocabulary);
  AC_TRY(make_trie(t, false, &t->raw));
  return make_trie(t, true, &t->normal);
}

static ac_status read_added(ac_tokenizer *t, const json_t *list) {
  size_t i;
  const json_t *one;
  json_array_foreach(list, i, one) AC_TRY(ac_tokenizer_add_json(t, one));
  return ac_tokenizer_list_added(t);
}

/* ---- tokens around a text -------------------------------------------------------------------- */

ac_status ac_id_list_add(ac_id_list *list, uint32_t id) {
  AC_TRY(AC_ROOM(list->ids, list->capacity, list->count + 1));
  list->ids[list->count++] = id;
  return AC_OK;
}

static ac_status add_named(const ac_tokenizer *t, ac_id_list *list, const char *text) {
  uint32_t id;
  if (!text || !ac_tokenizer_find(t, text, &id))
    return ac_fail(AC_ERROR_FORMAT, "post_processor: there is no token %s",
                   ac_quote(text ? text : "").text);
  return ac_id_list_add(list, id);
}

/* Puts `first` before the list. */
static ac_status put_before(ac_id_list *list, const ac_id_list *first) {
  AC_TRY(AC_ROOM(list->ids, list->capacity, list->count + first->count));
  if (!first->count) return AC_OK;
  memmove(list->ids + first->count, list->ids, list->count * sizeof *list->ids);
  memcpy(list->ids, first->ids, first->count * sizeof *list->ids);
  list->count += first->count;
  return AC_OK;
}

/* A name in a template, which may be for several tokens: {NAME: {"ids": [...]}} says for which. */
static ac_status add_special(const ac_tokenizer *t, const json_t *json, ac_id_list *list,
                             const char *name) {
  const json_t *own = name ? json_object_get(json_object_get(json, "special_tokens"), name) : NULL;
  const json_t *ids = json_object_get(own, "ids"), *id;
  size_t i, unused;
  if (!json_is_array(ids)) return add_named(t, list, name);
  json_array_foreach(ids, i, id) {
    const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= AC_MAX_VOCABULARY ||
        !ac_vocabulary_token(&t->model.vocabulary, (uint32_t)value, &unused))
      return ac_fail(AC_ERROR_FORMAT, "post_processor: %s has ids that no token has",
                     ac_quote(name).text);
    AC_TRY(ac_id_list_add(list, (uint32_t)value));
  }
  return AC_OK;
}

/* The parts of a template: {"SpecialToken": {"id": NAME}} and {"Sequence": {}}. */
static ac_status read_template(ac_tokenizer *t, const json_t *json) {
  const json_t *parts = json_object_get(json, "single"), *part;
  ac_id_list before = {0};
  bool text = false;
  size_t i;
  ac_status status = AC_OK;
  json_array_foreach(parts, i, part) {
    const json_t *special = json_object_get(part, "SpecialToken");
    if (!special && text && status == AC_OK)
      status = ac_fail(AC_ERROR_UNSUPPORTED, "post_processor: its template has the text twice");
    if (!special) text = true;
    else if (status == AC_OK)
      status = add_special(t, json, text ? &t->after : &before, ac_json_text(special, "id"));
  }
  if (status == AC_OK && !text)
    status = ac_fail(AC_ERROR_FORMAT, "post_processor: its template has no text");
  if (status == AC_OK) status = put_before(&t->before, &before);
  free(before.ids);
  return status;
}

/* [NAME, ID] members cls and sep */
static ac_status read_pair(ac_tokenizer *t, const json_t *json) {
  ac_id_list before = {0};
  ac_status status =
      add_named(t, &before, json_string_value(json_array_get(json_object_get(json, "cls"), 0)));
  if (status == AC_OK) status = put_before(&t->before, &before);
  free(before.ids);
  AC_TRY(status);
  return add_named(t, &t->after,
                   json_string_value(json_array_get(json_object_get(json, "sep"), 0)));
}

static ac_status read_post(ac_tokenizer *t, const json_t *json) {
  const char *type = ac_json_text(json, "type");
  if (!json || json_is_null(json)) return AC_OK;
  if (!type) return ac_fail(AC_ERROR_FORMAT, "post_processor: it has no type");
  if (!strcmp(type, "ByteLevel")) return AC_OK; /* trims offsets */
  if (!strcmp(type, "TemplateProcessing")) return read_template(t, json);
  if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
    return read_pair(t, json);
  if (strcmp(type, "Sequence"))
    return ac_fail(AC_ERROR_UNSUPPORTED, "post_processor: this library has no step %s",
                   ac_quote(type).text);
  const json_t *list = json_object_get(json, "processors"), *one;
  size_t i;
  json_array_foreach(list, i, one) AC_TRY(read_post(t, one));
  return AC_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

ac_status ac_tokenizer_read_json(ac_tokenizer *t, const json_t *json) {
  ac_status status = ac_steps_read(&t->normalizer, json_object_get(json, "normalizer"));
  if (status != AC_OK) return ac_fail_prefix(status, "normalizer");
  status = ac_steps_read(&t->pieces, json_object_get(json, "pre_tokenizer"));
  if (status != AC_OK) return ac_fail_prefix(status, "pre_tokenizer");
  if (t->normalizer.bytes && (t->pieces.count || t->pieces.bytes))
    return ac_fail(AC_ERROR_UNSUPPORTED, "pre_tokenizer: this library has no step after ByteLevel");
  const bool bytes = t->pieces.bytes || t->normalizer.bytes;
  AC_TRY(ac_text_model_read(&t->model, json_object_get(json, "model"), bytes));
  AC_TRY(read_added(t, json_object_get(json, "added_tokens")));
  AC_TRY(read_post(t, json_object_get(json, "post_processor")));
  return ac_decoder_read(&t->decoder, json_object_get(json, "decoder"));
}

void ac_tokenizer_free(ac_tokenizer *tokenizer) {
  if (!tokenizer) return;
  ac_steps_free(&tokenizer->normalizer);
  ac_steps_free(&tokenizer->pieces);
  ac_text_model_free(&tokenizer->model);
  ac_trie_free(&tokenizer->raw);
  ac_trie_free(&tokenizer->normal);
  ac_decoder_free(&tokenizer->decoder);
  ac_work_free(&tokenizer->normalized);
  ac_work_free(&tokenizer->work);
  for (size_t i = 0; i < tokenizer->added_count; i++) free(tokenizer->added[i].text);
  free(tokenizer->added);
  free(tokenizer->before.ids);
  free(tokenizer->after.ids);
  free(tokenizer->tokens.list);
  free(tokenizer->cache);
  free(tokenizer);
}
