/* Models of SentencePiece, and the tokenizers inside GGUF files: tests/vectors/sentencepiece has
 * the files and what became of some texts. Also what the files next to a model add, and files that
 * are refused. */
#include "support/files.h"

#include <accrue/tokenizer.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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
  static const char *const names[] = {"bpe_bytes",  "bpe_user", "bpe_plain",
                                      "bpe_suffix", "unigram",  "unigram_bytes"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    check_cases(path_of(names[i], ".model").text, names[i], true);
}

static void a_gguf_file_has_a_tokenizer(void **state) {
  (void)state;
  static const char *const names[] = {"smollm", "qwen2", "llama3"};
  check_cases(path_of("bpe_bytes", ".gguf").text, "bpe_bytes", true);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    check_cases(path_of(names[i], ".gguf").text, names[i], false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_those_of_sentencepiece),
      cmocka_unit_test(a_gguf_file_has_a_tokenizer),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
