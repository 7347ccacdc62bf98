/* A tokenizer of a SentencePiece model, with what the files next to it add. The file itself says
 * nothing of tokens around a text: those are as the classes of `transformers` have them. */
#include "text/tokenizer.h"

#include "core/quote.h"
#include "text/room.h"

#include <limits.h>

/* ---- the model ------------------------------------------------------------------------------- */

static ac_status add_control(ac_tokenizer *t, const ac_sentencepiece *from) {
  for (size_t i = 0; i < from->count; i++) {
    const ac_sentencepiece_token *token = &from->tokens[i];
    if (token->kind != AC_TOKEN_CONTROL && token->kind != AC_TOKEN_UNKNOWN) continue;
    const ac_added_token added = {
        .text = (char *)token->text, .bytes = token->bytes, .id = (uint32_t)i, .special = true};
    AC_TRY(ac_tokenizer_add(t, &added));
  }
  return AC_OK;
}

/* Marks become spaces, and the one that was put before the text goes. One that was put after it
 * stays, as with SentencePiece. */
static ac_status make_decoder(ac_decoder *decoder, const ac_sentencepiece *from) {
  ac_decode_step *step;
  if (from->escape) AC_TRY(ac_decoder_add(decoder, AC_DECODE_REPLACE, AC_WORD_MARK, " ", NULL));
  AC_TRY(ac_decoder_add(decoder, AC_DECODE_BYTES, NULL, NULL, &step));
  step->flag = true;
  AC_TRY(ac_decoder_add(decoder, AC_DECODE_FUSE, NULL, NULL, NULL));
  if (!from->escape || (!from->prefix && !from->squeeze)) return AC_OK;
  AC_TRY(ac_decoder_add(decoder, AC_DECODE_STRIP, " ", NULL, &step));
  step->start = from->squeeze ? INT_MAX : 1;
  return AC_OK;
}

ac_status ac_tokenizer_make(ac_tokenizer *t, const ac_sentencepiece *from) {
  AC_TRY(ac_text_model_make(&t->model, from));
  AC_TRY(ac_steps_add_sentences(&t->normalizer, from));
  AC_TRY(add_control(t, from));
  t->single_bytes = true;
  return make_decoder(&t->decoder, from);
}

/* ---- the files next to it -------------------------------------------------------------------- */

/* "bos_token": TEXT or {"content": TEXT} */
static const char *named(const json_t *settings, const char *key) {
  const json_t *value = json_object_get(settings, key);
  return json_is_object(value) ? ac_json_text(value, "content") : ac_json_text(settings, key);
}

static bool has_suffix(const char *text, const char *suffix) {
  const size_t length = strlen(text), end = strlen(suffix);
  return length >= end && !strcmp(text + length - end, suffix);
}

/* Whether a file says that a token with this text is special. */
static bool is_special_in(const json_t *json, const char *text) {
  const json_t *more = json_object_get(json, "additional_special_tokens"), *one;
  size_t i;
  json_array_foreach(more, i, one) {
    const char *name = json_is_object(one) ? ac_json_text(one, "content") : json_string_value(one);
    if (name && !strcmp(name, text)) return true;
  }
  void *at = json_object_iter((json_t *)json);
  for (; at; at = json_object_iter_next((json_t *)json, at)) {
    const char *key = json_object_iter_key(at);
    const char *name = has_suffix(key, "_token") ? named(json, key) : NULL;
    if (name && !strcmp(name, text)) return true;
  }
  return false;
}

/* {"ID": {"content": TEXT, ...}}; these are found in the given text. */
static ac_status add_decoder_tokens(ac_tokenizer *t, const json_t *list) {
  void *at = json_object_iter((json_t *)list);
  for (; at; at = json_object_iter_next((json_t *)list, at)) {
    char *end;
    const json_t *one = json_object_iter_value(at);
    const json_t *content = json_object_get(one, "content");
    const unsigned long id = strtoul(json_object_iter_key(at), &end, 10);
    if (*end || !json_string_length(content) || id >= AC_MAX_VOCABULARY)
      return ac_fail(AC_ERROR_FORMAT,
                     "tokenizer_config.json: added token %s has no content or no id",
                     ac_quote(json_object_iter_key(at)).text);
    const ac_added_token token = {.text = (char *)json_string_value(content),
                                  .bytes = json_string_length(content),
                                  .id = (uint32_t)id,
                                  .special = ac_json_bool(one, "special", false),
                                  .single_word = ac_json_bool(one, "single_word", false),
                                  .lstrip = ac_json_bool(one, "lstrip", false),
                                  .rstrip = ac_json_bool(one, "rstrip", false)};
    AC_TRY(ac_tokenizer_add(t, &token));
  }
  return AC_OK;
}

/* {TEXT: ID} */
static ac_status add_older_tokens(ac_tokenizer *t, const json_t *list, const json_t *settings,
                                  const json_t *map) {
  void *at = json_object_iter((json_t *)list);
  for (; at; at = json_object_iter_next((json_t *)list, at)) {
    const char *text = json_object_iter_key(at);
    const json_t *id = json_object_iter_value(at);
    if (!*text || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= AC_MAX_VOCABULARY)
      return ac_fail(AC_ERROR_FORMAT, "added_tokens.json: token %s has no id", ac_quote(text).text);
    const ac_added_token token = {.text = (char *)text,
                                  .bytes = strlen(text),
                                  .id = (uint32_t)json_integer_value(id),
                                  .special =
                                      is_special_in(settings, text) || is_special_in(map, text)};
    AC_TRY(ac_tokenizer_add(t, &token));
  }
  return AC_OK;
}

/* How a class of `transformers` uses a model. */
typedef struct class_use {
  const char *name;
  bool begin, end; /* whether these tokens are around a text, where nothing else says so */
} class_use;

static const class_use classes[] = {
    {"LlamaTokenizer", true, false},     {"LlamaTokenizerFast", true, false},
    {"CodeLlamaTokenizer", true, false}, {"CodeLlamaTokenizerFast", true, false},
    {"GemmaTokenizer", true, false},     {"GemmaTokenizerFast", true, false},
    {"T5Tokenizer", false, true},        {"T5TokenizerFast", false, true},
};

/* Others count ids in their own way. */
static ac_status find_class(const json_t *settings, const class_use **use) {
  const char *name = ac_json_text(settings, "tokenizer_class");
  *use = NULL;
  if (!name || !strcmp(name, "PreTrainedTokenizerFast")) return AC_OK;
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (!strcmp(classes[i].name, name)) *use = &classes[i];
  return *use ? AC_OK
              : ac_fail(AC_ERROR_UNSUPPORTED,
                        "tokenizer_config.json: this library does not know how %s uses a "
                        "tokenizer.model",
                        ac_quote(name).text);
}

static bool find_control(const ac_tokenizer *t, const char *text, size_t bytes, uint32_t *id) {
  *id = ac_vocabulary_find(&t->model.vocabulary, text, bytes, true);
  return *id != AC_NO_TOKEN;
}

/* A token that begins or ends a text, by its name in the settings or else in the model. */
static ac_status add_around(const ac_tokenizer *t, ac_id_list *list, const char *setting,
                            const char *own, size_t own_bytes, const char *key) {
  uint32_t id;
  if (setting ? ac_tokenizer_find(t, setting, &id) : find_control(t, own, own_bytes, &id))
    return ac_id_list_add(list, id);
  return ac_fail(AC_ERROR_FORMAT, "tokenizer_config.json: %s is true, but there is no such token",
                 key);
}

/* Without settings: the token of the beginning, and where there is none, that of the end. */
static ac_status read_around(ac_tokenizer *t, const ac_sentencepiece *from, const json_t *settings,
                             const class_use *use) {
  uint32_t id;
  const char *begin = from->begin ? from->begin : "<s>", *end = from->end ? from->end : "</s>";
  const size_t begin_bytes = from->begin ? from->begin_bytes : 3,
               end_bytes = from->end ? from->end_bytes : 4;
  const bool begins = find_control(t, begin, begin_bytes, &id),
             ends = !begins && find_control(t, end, end_bytes, &id);
  if (ac_json_bool(settings, "add_bos_token", use ? use->begin : begins))
    AC_TRY(add_around(t, &t->before, named(settings, "bos_token"), begin, begin_bytes,
                      "add_bos_token"));
  if (ac_json_bool(settings, "add_eos_token", use ? use->end : ends))
    AC_TRY(add_around(t, &t->after, named(settings, "eos_token"), end, end_bytes, "add_eos_token"));
  return AC_OK;
}

static ac_status read_all(ac_tokenizer *t, ac_sentencepiece *from, const json_t *settings,
                          const json_t *map, const json_t *added) {
  const class_use *use;
  AC_TRY(find_class(settings, &use));
  from->first = json_is_false(json_object_get(settings, "legacy"));
  from->prefix = ac_json_bool(settings, "add_prefix_space", from->prefix);
  AC_TRY(ac_tokenizer_make(t, from));
  AC_TRY(add_decoder_tokens(t, json_object_get(settings, "added_tokens_decoder")));
  AC_TRY(add_older_tokens(t, added, settings, map));
  AC_TRY(ac_tokenizer_list_added(t));
  return read_around(t, from, settings, use);
}

ac_status ac_tokenizer_read_sentencepiece(ac_tokenizer *t, const void *data, size_t bytes,
                                          const json_t *settings, const json_t *map,
                                          const json_t *added) {
  ac_sentencepiece from;
  ac_status status = ac_sentencepiece_read(&from, data, bytes);
  if (status == AC_OK) status = read_all(t, &from, settings, map, added);
  free(from.tokens);
  return status;
}
