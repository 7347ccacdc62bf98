/* Models of SentencePiece, and the tokenizers inside GGUF files: tests/vectors/sentencepiece has
 * the files and what became of some texts. Also what the files next to a model add, and files that
 * are refused. */
#include "support/files.h"

#include <accrue/tokenizer.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"bpe_bytes",  "bpe_user", "bpe_plain",
                                    "bpe_suffix", "unigram",  "unigram_bytes"};
enum { NAMES = sizeof names / sizeof *names };

static test_path path_of(const char *name, const char *ending) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/sentencepiece/%s%s", ACCRUE_TEST_VECTORS, name, ending);
  return path;
}

static ac_tokenizer *open_path(const char *path) {
  ac_tokenizer *tokenizer;
  assert_ok(ac_tokenizer_open(&tokenizer, path));
  return tokenizer;
}

/* ---- against the reference ------------------------------------------------------------------- */

typedef struct bytes {
  char data[4096];
  size_t count;
} bytes;

static bytes from_hex(const char *hex) {
  bytes made = {.count = strlen(hex) / 2};
  assert_true(made.count <= sizeof made.data);
  for (size_t i = 0; i < made.count; i++) {
    unsigned byte;
    assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
    made.data[i] = (char)byte;
  }
  return made;
}

static void check_ids(const json_t *one, const ac_encoding *encoding, const char *name) {
  const json_t *ids = json_object_get(one, "ids");
  bool same = json_array_size(ids) == encoding->count;
  for (size_t i = 0; i < encoding->count && same; i++)
    same = json_integer_value(json_array_get(ids, i)) == encoding->ids[i];
  if (!same)
    fail_msg("%s: %s has %zu tokens, not %zu, or others", name,
             json_string_value(json_object_get(one, "text")), encoding->count,
             json_array_size(ids));
}

static void check_bounds(const ac_encoding *encoding, size_t count) {
  for (size_t i = 0; i < encoding->count; i++) {
    assert_true(encoding->begin[i] <= encoding->end[i]);
    assert_true(encoding->end[i] <= count);
    if (i) assert_true(encoding->begin[i - 1] <= encoding->begin[i]);
  }
}

/* SentencePiece knows no special tokens in a text, so that it is plain. */
static void check_case(ac_tokenizer *tokenizer, const json_t *one, const char *name, bool plain) {
  const bytes text = from_hex(json_string_value(json_object_get(one, "text")));
  const ac_encode_desc desc = {.plain = plain};
  const json_t *decoded = json_object_get(one, "decoded");
  ac_encoding encoding;
  assert_ok(ac_tokenizer_encode(tokenizer, text.data, text.count, &desc, &encoding));
  check_ids(one, &encoding, name);
  check_bounds(&encoding, text.count);
  if (decoded) {
    char *got;
    assert_ok(ac_tokenizer_decode(&got, NULL, tokenizer, encoding.ids, encoding.count, true));
    assert_string_equal(got, json_string_value(decoded));
    free(got);
  }
  ac_encoding_free(&encoding);
}

static void check_cases(const char *path, const char *cases_of, bool plain) {
  json_error_t error;
  json_t *cases = json_load_file(path_of(cases_of, ".cases.json").text, JSON_ALLOW_NUL, &error),
         *one;
  ac_tokenizer *tokenizer = open_path(path);
  size_t i;
  assert_true(json_array_size(cases) > 40);
  for (int round = 0; round < 2; round++) /* the second one knows the words */
    json_array_foreach(cases, i, one) check_case(tokenizer, one, path, plain);
  ac_tokenizer_free(tokenizer);
  json_decref(cases);
}

static void ids_are_those_of_sentencepiece(void **state) {
  (void)state;
  for (size_t i = 0; i < NAMES; i++) check_cases(path_of(names[i], ".model").text, names[i], true);
}

static void a_gguf_file_has_a_tokenizer(void **state) {
  (void)state;
  static const char *const merged[] = {"smollm", "qwen2", "llama3"};
  check_cases(path_of("bpe_bytes", ".gguf").text, "bpe_bytes", true);
  for (size_t i = 0; i < sizeof merged / sizeof *merged; i++)
    check_cases(path_of(merged[i], ".gguf").text, merged[i], false);
}

/* As the test has a limit, 300 kB that took the square of the time would not end. */
static void long_monotonous_texts_are_no_trap(void **state) {
  (void)state;
  static const char *const units[] = {
      "a",  " ",  "1",    "\xcc\x81", "\xe4\xb8\xad", "\xe2\x96\x81",
      "\n", "ab", "\xe0", "ing",      "e\xcc\x80"};
  enum { BYTES = 300000 };
  char *text = malloc(BYTES + 8);
  assert_non_null(text);
  for (size_t n = 0; n < NAMES; n++) {
    ac_tokenizer *tokenizer = open_path(path_of(names[n], ".model").text);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
      size_t count = 0;
      ac_encoding encoding;
      for (const size_t unit = strlen(units[u]); count + unit <= BYTES; count += unit)
        memcpy(text + count, units[u], unit);
      assert_ok(ac_tokenizer_encode(tokenizer, text, count, NULL, &encoding));
      check_bounds(&encoding, count);
      ac_encoding_free(&encoding);
    }
    ac_tokenizer_free(tokenizer);
  }
  free(text);
}

/* ---- the files next to a model --------------------------------------------------------------- */

/* A copy of a model as the tokenizer.model of the test's folder. */
static void copy_model(const char *name) {
  static char data[1 << 16];
  FILE *file = fopen(path_of(name, ".model").text, "rb");
  assert_non_null(file);
  const size_t count = fread(data, 1, sizeof data, file);
  fclose(file);
  write_file(in_folder("tokenizer.model").text, data, count);
}

static void write_next(const char *name, const char *text) {
  write_file(in_folder(name).text, text, strlen(text));
}

static void remove_next(void) {
  static const char *const next[] = {"tokenizer_config.json", "special_tokens_map.json",
                                     "added_tokens.json", "tokenizer.json"};
  for (size_t i = 0; i < sizeof next / sizeof *next; i++) remove(in_folder(next[i]).text);
}

/* The ids of a text, as digits. */
typedef struct id_text {
  char text[256];
} id_text;

static id_text ids_of(ac_tokenizer *tokenizer, const char *text, bool plain, bool special) {
  id_text ids = {""};
  ac_encoding encoding;
  const ac_encode_desc desc = {.add_special = special, .plain = plain};
  assert_ok(ac_tokenizer_encode(tokenizer, text, strlen(text), &desc, &encoding));
  for (size_t i = 0, at = 0; i < encoding.count; i++)
    at += (size_t)snprintf(ids.text + at, sizeof ids.text - at, i ? " %u" : "%u",
                           (unsigned)encoding.ids[i]);
  ac_encoding_free(&encoding);
  return ids;
}

/* What `id` is around a text, before and after it; 0: nothing. */
static void check_around(unsigned before, unsigned after) {
  ac_tokenizer *tokenizer = open_path(test_folder);
  ac_encoding inner, all;
  assert_ok(ac_tokenizer_encode(tokenizer, "the dog", 7, NULL, &inner));
  assert_ok(
      ac_tokenizer_encode(tokenizer, "the dog", 7, &(ac_encode_desc){.add_special = true}, &all));
  assert_int_equal(all.count, inner.count + (before != 0) + (after != 0));
  assert_memory_equal(all.ids + (before != 0), inner.ids, inner.count * sizeof *inner.ids);
  if (before) assert_int_equal(all.ids[0], before);
  if (after) assert_int_equal(all.ids[all.count - 1], after);
  ac_encoding_free(&inner);
  ac_encoding_free(&all);
  ac_tokenizer_free(tokenizer);
}

static void control_tokens_are_special(void **state) {
  (void)state;
  uint32_t id;
  copy_model("bpe_bytes");
  ac_tokenizer *tokenizer = open_path(in_folder("tokenizer.model").text);
  assert_true(ac_tokenizer_find(tokenizer, "</s>", &id));
  assert_int_equal(id, 2);
  assert_true(ac_tokenizer_is_special(tokenizer, 2));
  assert_false(ac_tokenizer_is_special(tokenizer, 3)); /* <0x00> */
  assert_string_equal(ids_of(tokenizer, "</s>", false, false).text, "2");
  ac_encoding plain;
  assert_ok(ac_tokenizer_encode(tokenizer, "</s>", 4, &(ac_encode_desc){.plain = true}, &plain));
  for (size_t i = 0; i < plain.count; i++)
    assert_false(ac_tokenizer_is_special(tokenizer, plain.ids[i]));
  ac_encoding_free(&plain);
  /* A byte's token is not found by its name. */
  assert_true(strlen(ids_of(tokenizer, "<0x41>", false, false).text) > 3);
  ac_tokenizer_free(tokenizer);
}

static void files_next_to_a_model_say_what_is_around_a_text(void **state) {
  (void)state;
  remove_next();
  copy_model("bpe_bytes");
  check_around(1, 0);
  write_next("tokenizer_config.json",
             "{\"tokenizer_class\":\"LlamaTokenizer\",\"add_eos_token\":true,"
             "\"model_max_length\":1000000000000000019884624838656}");
  check_around(1, 2);
  write_next("tokenizer_config.json", "{\"add_bos_token\":false}");
  check_around(0, 0);
  write_next("tokenizer_config.json", "{\"tokenizer_class\":\"T5Tokenizer\"}");
  check_around(0, 2);
  write_next("tokenizer_config.json",
             "{\"bos_token\":{\"content\":\"<begin>\"},\"added_tokens_decoder\":{"
             "\"430\":{\"content\":\"<begin>\",\"special\":true}}}");
  check_around(430, 0);

  ac_tokenizer *tokenizer;
  write_next("tokenizer_config.json", "{\"tokenizer_class\":\"XLMRobertaTokenizer\"}");
  assert_refused(ac_tokenizer_open(&tokenizer, test_folder), AC_ERROR_UNSUPPORTED,
                 "\"XLMRobertaTokenizer\"");
  write_next("tokenizer_config.json", "{\"bos_token\":\"<none>\"}");
  assert_refused(ac_tokenizer_open(&tokenizer, test_folder), AC_ERROR_FORMAT, "add_bos_token");
  write_next("tokenizer_config.json", "[]");
  assert_refused(ac_tokenizer_open(&tokenizer, test_folder), AC_ERROR_FORMAT,
                 "tokenizer_config.json: this is not an object");
  remove_next();
}

static void files_next_to_a_model_add_tokens(void **state) {
  (void)state;
  remove_next();
  copy_model("bpe_bytes");
  write_next("added_tokens.json", "{\"<|im_end|>\":440,\"<tool>\":441}");
  write_next("special_tokens_map.json", "{\"additional_special_tokens\":[\"<|im_end|>\"]}");
  write_next("tokenizer_config.json", "{\"legacy\":false,\"added_tokens_decoder\":{\"442\":{"
                                      "\"content\":\"<r>\",\"rstrip\":true}}}");
  ac_tokenizer *tokenizer = open_path(test_folder);
  assert_int_equal(ac_tokenizer_vocabulary(tokenizer), 443);
  assert_true(ac_tokenizer_is_special(tokenizer, 440));
  assert_false(ac_tokenizer_is_special(tokenizer, 441));
  assert_string_equal(ids_of(tokenizer, "<|im_end|><tool><r>  ", false, false).text, "440 441 442");
  /* Not in the old way: the space comes only before the beginning. */
  const id_text first = ids_of(tokenizer, "a", false, false),
                later = ids_of(tokenizer, "<tool>a", false, false);
  assert_string_not_equal(first.text, later.text + strlen("441 "));
  ac_tokenizer_free(tokenizer);
  remove(in_folder("tokenizer_config.json").text);
  tokenizer = open_path(test_folder);
  assert_string_equal(ids_of(tokenizer, "<tool>a", false, false).text + strlen("441 "), first.text);
  ac_tokenizer_free(tokenizer);

  ac_tokenizer *none;
  write_next("added_tokens.json", "{\"<tool>\":-1}");
  assert_refused(ac_tokenizer_open(&none, test_folder), AC_ERROR_FORMAT,
                 "added_tokens.json: token \"<tool>\" has no id");
  remove_next();
}

/* ---- files that are refused ------------------------------------------------------------------ */

/* A model of a few messages, put together. */
typedef struct model_file {
  unsigned char data[4096];
  size_t count;
} model_file;

static void put_token(model_file *m, const char *text, int kind, float score) {
  const size_t bytes = strlen(text);
  unsigned char *at = m->data + m->count;
  *at++ = 0x0a;
  *at++ = (unsigned char)(2 + bytes + 5 + 2);
  *at++ = 0x0a;
  *at++ = (unsigned char)bytes;
  memcpy(at, text, bytes);
  at += bytes;
  *at++ = 0x15;
  memcpy(at, &score, 4);
  at += 4;
  *at++ = 0x18;
  *at++ = (unsigned char)kind;
  m->count = (size_t)(at - m->data);
}

static void put_bytes(model_file *m, const char *bytes, size_t count) {
  memcpy(m->data + m->count, bytes, count);
  m->count += count;
}

static void refused(const model_file *m, ac_status status, const char *mention) {
  ac_tokenizer *tokenizer;
  write_file(in_folder("tokenizer.model").text, m->data, m->count);
  assert_refused(ac_tokenizer_open(&tokenizer, in_folder("tokenizer.model").text), status, mention);
  assert_null(tokenizer);
}

static void malformed_models_are_named(void **state) {
  (void)state;
  remove_next();
  model_file good = {.count = 0};
  put_token(&good, "<unk>", 2, 0);
  put_token(&good, "a", 1, -1);
  write_file(in_folder("tokenizer.model").text, good.data, good.count);
  ac_tokenizer *tokenizer = open_path(in_folder("tokenizer.model").text);
  assert_string_equal(ids_of(tokenizer, "ab", true, false).text, "0 1 0");
  ac_tokenizer_free(tokenizer);

  model_file m = good;
  m.count--;
  refused(&m, AC_ERROR_FORMAT, "tokenizer.model: this is not a model of SentencePiece");
  m = good, put_bytes(&m, "\x12\x7f", 2), refused(&m, AC_ERROR_FORMAT, "damaged");
  m = good, put_bytes(&m, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  refused(&m, AC_ERROR_FORMAT, "damaged");
  m = good, put_bytes(&m, "\x0b", 1), refused(&m, AC_ERROR_FORMAT, "damaged");
  m = good, put_token(&m, "a", 1, -1), refused(&m, AC_ERROR_FORMAT, "token 2 is there twice");
  m = good, put_token(&m, "?", 2, 0), refused(&m, AC_ERROR_FORMAT, "both for what is unknown");
  m = good, put_token(&m, "?", 9, 0),
  refused(&m, AC_ERROR_UNSUPPORTED, "token 2 is of an unknown kind");
  m = good, put_token(&m, "", 1, 0), refused(&m, AC_ERROR_FORMAT, "token 2 has no text");
  m = good, put_token(&m, "n", 1, (float)NAN), refused(&m, AC_ERROR_FORMAT, "is not a number");
  m.count = 0, put_token(&m, "a", 1, 0),
  refused(&m, AC_ERROR_FORMAT, "no token is for what is unknown");
  m = good, put_bytes(&m, "\x12\x02\x18\x03", 4);
  refused(&m, AC_ERROR_UNSUPPORTED, "no SentencePiece model of words");
  m = good, put_bytes(&m, "\x12\x03\x98\x02\x01", 5);
  refused(&m, AC_ERROR_FORMAT, "there is no token <0x00>");
  m = good, put_bytes(&m, "\x1a\x03\x12\x01x", 5);
  refused(&m, AC_ERROR_FORMAT, "not a table of characters");
  m = good, put_bytes(&m, "\x2a\x03\x12\x01x", 5);
  refused(&m, AC_ERROR_UNSUPPORTED, "a denormalizer");
  m.count = 0, put_bytes(&m, "IQ== 0\nIg== 1\n", 14);
  refused(&m, AC_ERROR_UNSUPPORTED, "is a table of tiktoken");
}

/* A file is refused as a whole wherever it ends, or it is one. */
static void any_beginning_of_a_model_is_safe(void **state) {
  (void)state;
  static unsigned char data[1 << 16];
  remove_next();
  FILE *file = fopen(path_of("unigram", ".model").text, "rb");
  assert_non_null(file);
  const size_t count = fread(data, 1, sizeof data, file);
  fclose(file);
  for (size_t end = 1; end < count; end += 7) {
    ac_tokenizer *tokenizer;
    write_file(in_folder("tokenizer.model").text, data, end);
    if (ac_tokenizer_open(&tokenizer, in_folder("tokenizer.model").text) == AC_OK)
      ids_of(tokenizer, "the dog", true, false);
    ac_tokenizer_free(tokenizer);
  }
}

static void gguf_files_without_a_tokenizer_are_named(void **state) {
  (void)state;
  ac_tokenizer *tokenizer;
  assert_refused(ac_tokenizer_open(&tokenizer, ACCRUE_TEST_VECTORS "/blocks.gguf"),
                 AC_ERROR_UNSUPPORTED, "tokenizer.ggml.model");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_those_of_sentencepiece),
      cmocka_unit_test(a_gguf_file_has_a_tokenizer),
      cmocka_unit_test(long_monotonous_texts_are_no_trap),
      cmocka_unit_test(control_tokens_are_special),
      cmocka_unit_test(files_next_to_a_model_say_what_is_around_a_text),
      cmocka_unit_test(files_next_to_a_model_add_tokens),
      cmocka_unit_test(malformed_models_are_named),
      cmocka_unit_test(any_beginning_of_a_model_is_safe),
      cmocka_unit_test(gguf_files_without_a_tokenizer_are_named),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
