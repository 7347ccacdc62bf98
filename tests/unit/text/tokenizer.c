/* Tokenizers against Hugging Face's `tokenizers`: tests/vectors/tokenizers has the files and what
 * became of some texts. Also what no file of theirs shows: bounds, text that is not UTF-8, hostile
 * texts, and files that are refused. */
#include "support/files.h"

#include <accrue/tokenizer.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[] = {"gpt2",     "roberta",    "llama3", "qwen",    "smollm",
                                    "deepseek", "llama2",     "gemma",  "mistral", "unigram",
                                    "bert",     "word_level", "clip"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static test_path path_of(const char *kind, const char *ending) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/tokenizers/%s%s", ACCRUE_TEST_VECTORS, kind, ending);
  return path;
}

static ac_status open_json(ac_tokenizer **tokenizer, const json_t *json) {
  test_path path = in_folder("tokenizer.json");
  char *text = json_dumps(json, 0);
  write_file(path.text, text, strlen(text));
  free(text);
  return ac_tokenizer_open(tokenizer, path.text);
}

static ac_tokenizer *open_kind(const char *kind) {
  ac_tokenizer *tokenizer;
  assert_ok(ac_tokenizer_open(&tokenizer, path_of(kind, ".json").text));
  return tokenizer;
}

/* ---- against the reference ------------------------------------------------------------------- */

static void check_ids(const json_t *one, const ac_encoding *encoding, const char *kind) {
  const json_t *ids = json_object_get(one, "ids");
  const char *text = json_string_value(json_object_get(one, "text"));
  bool same = json_array_size(ids) == encoding->count;
  for (size_t i = 0; i < encoding->count && same; i++)
    same = json_integer_value(json_array_get(ids, i)) == encoding->ids[i];
  if (!same)
    fail_msg("%s: \"%s\" has %zu tokens, not %zu, or others", kind, text, encoding->count,
             json_array_size(ids));
}

/* Tokens are in the order of the text, and within it. */
static void check_bounds(const ac_encoding *encoding, size_t bytes) {
  for (size_t i = 0; i < encoding->count; i++) {
    assert_true(encoding->begin[i] <= encoding->end[i]);
    assert_true(encoding->end[i] <= bytes);
    if (i) assert_true(encoding->begin[i - 1] <= encoding->begin[i]);
  }
}

static void check_case(ac_tokenizer *tokenizer, const json_t *one, const char *kind) {
  const char *text = json_string_value(json_object_get(one, "text"));
  const ac_encode_desc desc = {.add_special = json_is_true(json_object_get(one, "special"))};
  ac_encoding encoding;
  char *decoded;
  size_t bytes;
  assert_ok(ac_tokenizer_encode(tokenizer, text, strlen(text), &desc, &encoding));
  check_ids(one, &encoding, kind);
  check_bounds(&encoding, strlen(text));
  assert_int_equal(encoding.replaced, 0);
  assert_ok(ac_tokenizer_decode(&decoded, &bytes, tokenizer, encoding.ids, encoding.count, true));
  assert_string_equal(decoded, json_string_value(json_object_get(one, "decoded")));
  assert_int_equal(bytes, strlen(decoded));
  free(decoded);
  ac_encoding_free(&encoding);
}

static void tokens_are_those_of_the_reference(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) {
    json_error_t error;
    json_t *cases = json_load_file(path_of(kinds[k], ".cases.json").text, 0, &error), *one;
    ac_tokenizer *tokenizer = open_kind(kinds[k]);
    size_t i;
    assert_true(json_array_size(cases) > 50);
    for (int round = 0; round < 2; round++) /* the second one knows the words */
      json_array_foreach(cases, i, one) check_case(tokenizer, one, kinds[k]);
    ac_tokenizer_free(tokenizer);
    json_decref(cases);
  }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void special_tokens_are_found_and_may_stay_text(void **state) {
  (void)state;
  static const char text[] = "a<|im_end|>b";
  ac_tokenizer *tokenizer = open_kind("gpt2");
  ac_encoding encoding;
  uint32_t id = 7;
  assert_true(ac_tokenizer_find(tokenizer, "<|im_end|>", &id));
  assert_int_equal(id, 2);
  assert_true(ac_tokenizer_is_special(tokenizer, id));
  assert_false(ac_tokenizer_is_special(tokenizer, 100));
  assert_false(ac_tokenizer_find(tokenizer, "<|no such|>", &id));
  assert_int_equal(id, 2);

  assert_ok(ac_tokenizer_encode(tokenizer, text, strlen(text), NULL, &encoding));
  assert_int_equal(encoding.count, 3);
  assert_int_equal(encoding.ids[1], 2);
  assert_int_equal(encoding.begin[1], 1);
  assert_int_equal(encoding.end[1], 11);
  ac_encoding_free(&encoding);
  assert_null(encoding.ids);

  const ac_encode_desc plain = {.plain = true};
  assert_ok(ac_tokenizer_encode(tokenizer, text, strlen(text), &plain, &encoding));
  for (size_t i = 0; i < encoding.count; i++)
    assert_false(ac_tokenizer_is_special(tokenizer, encoding.ids[i]));
  char *decoded;
  assert_ok(ac_tokenizer_decode(&decoded, NULL, tokenizer, encoding.ids, encoding.count, false));
  assert_string_equal(decoded, text);
  free(decoded);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);
}

/* In a model of bytes the tokens' bytes are the text, and their bounds those of the bytes. */
static void tokens_of_bytes_cover_the_text(void **state) {
  (void)state;
  static const char text[] = "Größe 中文 \xf0\x9f\x98\x80!  \n";
  ac_tokenizer *tokenizer = open_kind("gpt2");
  ac_encoding encoding;
  size_t at = 0, bytes;
  assert_ok(ac_tokenizer_encode(tokenizer, text, strlen(text), NULL, &encoding));
  for (size_t i = 0; i < encoding.count; i++) {
    const char *token = ac_tokenizer_token(tokenizer, encoding.ids[i], &bytes);
    assert_int_equal(encoding.begin[i], at);
    assert_int_equal(encoding.end[i], at + bytes);
    assert_memory_equal(token, text + at, bytes);
    at += bytes;
  }
  assert_int_equal(at, strlen(text));
  assert_null(ac_tokenizer_token(tokenizer, ac_tokenizer_vocabulary(tokenizer), &bytes));
  assert_int_equal(bytes, 0);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);
}

/* A mark of a space that was put before the text has no bytes of it; one that a space became has.
 */
static void bounds_are_those_of_the_given_text(void **state) {
  (void)state;
  ac_tokenizer *tokenizer = open_kind("llama2");
  ac_encoding encoding;
  assert_ok(ac_tokenizer_encode(tokenizer, "The dog", 7, NULL, &encoding));
  assert_int_equal(encoding.begin[0], 0);
  assert_int_equal(encoding.end[encoding.count - 1], 7);
  for (size_t i = 1; i < encoding.count; i++)
    assert_int_equal(encoding.begin[i], encoding.end[i - 1]);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);

  tokenizer = open_kind("qwen"); /* NFC: e and a mark are one character of two bytes */
  assert_ok(ac_tokenizer_encode(tokenizer, "xe\xcc\x81y", 5, NULL, &encoding));
  for (size_t i = 0; i < encoding.count; i++)
    if (encoding.begin[i] == 1) assert_int_equal(encoding.end[i], 4);
  assert_int_equal(encoding.end[encoding.count - 1], 5);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);
}

static void bytes_that_are_no_text_are_replaced_and_counted(void **state) {
  (void)state;
  /* Lone bytes, a part of a character, a surrogate, and one beyond Unicode: 1, 1, 2, 3 and 4 bytes,
   * where those that cannot begin a character count one by one. */
  static const char text[] = "a\xff"
                             "b\x80"
                             "c\xe4\xb8"
                             "d\xed\xa0\x80"
                             "e\xf4\x90\x80\x80"
                             "f";
  static const char expected[] = "a\xef\xbf\xbd"
                                 "b\xef\xbf\xbd"
                                 "c\xef\xbf\xbd"
                                 "d\xef\xbf\xbd\xef\xbf\xbd"
                                 "\xef\xbf\xbd"
                                 "e\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                                 "f";
  for (int k = 0; k < KINDS; k++) {
    ac_tokenizer *tokenizer = open_kind(kinds[k]);
    ac_encoding got, wanted;
    assert_ok(ac_tokenizer_encode(tokenizer, text, sizeof text - 1, NULL, &got));
    assert_ok(ac_tokenizer_encode(tokenizer, expected, sizeof expected - 1, NULL, &wanted));
    assert_int_equal(got.replaced, 11);
    assert_int_equal(wanted.replaced, 0);
    assert_int_equal(got.count, wanted.count);
    assert_memory_equal(got.ids, wanted.ids, got.count * sizeof *got.ids);
    check_bounds(&got, sizeof text - 1);
    ac_encoding_free(&got);
    ac_encoding_free(&wanted);
    ac_tokenizer_free(tokenizer);
  }
}

static void unknown_ids_are_refused(void **state) {
  (void)state;
  ac_tokenizer *tokenizer = open_kind("bert");
  char *text;
  assert_refused(ac_tokenizer_decode(&text, NULL, tokenizer, (uint32_t[]){4, 1000000}, 2, false),
                 AC_ERROR_ARGUMENT, "no token has the id 1000000");
  assert_null(text);
  assert_ok(ac_tokenizer_decode(&text, NULL, tokenizer, NULL, 0, false));
  assert_string_equal(text, "");
  free(text);
  ac_tokenizer_free(tokenizer);
}

/* ---- hostile texts --------------------------------------------------------------------------- */

/* What is slow where an algorithm takes the square of the length: a long piece, spaces that a
 * pattern tries again and again, marks out of order. As the test has a limit, 300 kB that took it
 * would not end. */
static void long_monotonous_texts_are_no_trap(void **state) {
  (void)state;
  static const char *const units[] = {
      "a",  " ",  "1",   "\xcc\x81\xcc\xa3", "\xe4\xb8\xad", "'", "\xe2\x96\x81", "<|im_",
      "\n", "ab", "\xe0"};
  enum { BYTES = 300000 };
  char *text = malloc(BYTES + 8);
  assert_non_null(text);
  for (int k = 0; k < KINDS; k++) {
    ac_tokenizer *tokenizer = open_kind(kinds[k]);
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

/* ---- files that are refused ------------------------------------------------------------------ */

/* A small file that is read, with one member changed. */
static json_t *small_file(const char *path, const char *value) {
  json_t *file = json_loads(
      "{\"normalizer\":null,\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,"
      "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}",
      0, NULL);
  assert_non_null(file);
  if (!path) return file;
  json_t *object = file, *changed = json_loads(value, JSON_DECODE_ANY, NULL);
  assert_non_null(changed);
  if (!strncmp(path, "model.", 6)) {
    object = json_object_get(file, "model");
    path += 6;
  }
  json_object_set_new(object, path, changed);
  return file;
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

static ac_tokenizer *open_small(const char *path, const char *value) {
  ac_tokenizer *tokenizer;
  json_t *file = small_file(path, value);
  assert_ok(open_json(&tokenizer, file));
  json_decref(file);
  return tokenizer;
}

/* In every model, also where the vocabulary has the special token and the text has been seen before
 * as what is not plain. */
static void plain_text_never_gives_a_special_token(void **state) {
  (void)state;
  static const struct {
    const char *model, *special, *plain;
  } cases[] = {
      {"{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"<\",-1],[\"s\",-1],[\"<s>\",0],"
       "[\">\",-1],"
       "[\"a\",-1]]}",
       "5 3 5", "5 1 2 4 5"},
      {"{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<s>\":3,\"a\":5}}",
       "5 3 5", "0"},
      {"{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<s>\":3,\"a\":5,\"##<s>\":"
       "6,"
       "\"##a\":7}}",
       "5 3 5", "5 6 7"},
      {"{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{\"a\":5,\"<\":1,\"s\":2,\">\":4,\"<s\":"
       "6,\"<s>\":3},"
       "\"merges\":[\"< s\",\"<s >\"]}",
       "5 3 5", "5 6 4 5"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_tokenizer *tokenizer = open_small("model", cases[i].model);
    assert_string_equal(ids_of(tokenizer, "a<s>a", false, false).text, cases[i].special);
    assert_string_equal(ids_of(tokenizer, "a<s>a", true, false).text, cases[i].plain);
    assert_null(strchr(ids_of(tokenizer, "<s>", true, false).text, '3'));
    assert_string_equal(ids_of(tokenizer, "<s>", false, false).text, "3");
    ac_tokenizer_free(tokenizer);
  }
}

static void equal_tokens_are_special_together(void **state) {
  (void)state;
  char *text;
  ac_tokenizer *tokenizer =
      open_small("model", "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<s>\",0],[\"a\",-1],"
                          "[\"b\",-1],[\"<s>\",0]]}");
  assert_true(ac_tokenizer_is_special(tokenizer, 0));
  assert_ok(ac_tokenizer_decode(&text, NULL, tokenizer, (const uint32_t[]){0, 1, 3}, 3, true));
  assert_string_equal(text, "a");
  free(text);
  assert_string_equal(ids_of(tokenizer, "ab<s>", true, false).text, "1 2 0");
  ac_tokenizer_free(tokenizer);
}

/* "  " is not the token of a vocabulary for bytes that is written "\u0120\u0120". */
static void added_tokens_are_not_those_of_bytes(void **state) {
  (void)state;
  ac_tokenizer *tokenizer;
  uint32_t id;
  json_t *file = json_loads(
      "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
      "\"added_tokens\":[{\"id\":5,\"content\":\"  \"},{\"id\":6,\"content\":\"ab\"}],\"model\":{"
      "\"type\":\"BPE\",\"vocab\":{\"\\u0120\":0,\"a\":1,\"\\u0120\\u0120\":2,\"b\":3,"
      "\"\\u0120\\u0120\\u0120\":4,\"ab\":6},\"merges\":[\"\\u0120 \\u0120\",\"\\u0120\\u0120 "
      "\\u0120\"],\"ignore_merges\":true}}",
      0, NULL);
  assert_non_null(file);
  assert_ok(open_json(&tokenizer, file));
  json_decref(file);
  assert_string_equal(ids_of(tokenizer, "a  b", false, false).text, "1 5 3");
  assert_string_equal(ids_of(tokenizer, "aba b", false, false).text, "6 1 0 3");
  assert_true(ac_tokenizer_find(tokenizer, "  ", &id));
  assert_int_equal(id, 5);
  ac_tokenizer_free(tokenizer);
}

/* What Oniguruma, which the files are for, makes of the ends of lines. */
static void lines_end_at_newlines(void **state) {
  (void)state;
  ac_tokenizer *tokenizer =
      open_small("pre_tokenizer",
                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a$\"},\"behavior\":\"Isolated\"}");
  assert_string_equal(ids_of(tokenizer, "ab", false, false).text, "2");
  ac_tokenizer_free(tokenizer);
  tokenizer =
      open_small("pre_tokenizer",
                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"^a\"},\"behavior\":\"Isolated\"}");
  assert_string_equal(ids_of(tokenizer, "b\nab", false, false).text, "1 0 1");
  ac_tokenizer_free(tokenizer);
}

static void a_template_says_which_ids_a_name_has(void **state) {
  (void)state;
  ac_tokenizer *tokenizer = open_small(
      "post_processor",
      "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"both\"}},{"
      "\"Sequence\":{}},"
      "{\"SpecialToken\":{\"id\":\"<s>\"}}],\"special_tokens\":{\"both\":{\"ids\":[3,1]}}}");
  assert_string_equal(ids_of(tokenizer, "a", false, true).text, "3 1 0 3");
  ac_tokenizer_free(tokenizer);
}

/* Ids may have large holes: memory is that of the tokens there are. */
static void ids_may_have_holes(void **state) {
  (void)state;
  size_t bytes;
  uint32_t id;
  ac_tokenizer *tokenizer =
      open_small("model", "{\"type\":\"BPE\",\"vocab\":{\"b\":16777215,\"a\":7,\"ab\":9000000},"
                          "\"merges\":[\"a b\"]}");
  assert_int_equal(ac_tokenizer_vocabulary(tokenizer), 1 << 24);
  assert_string_equal(ids_of(tokenizer, "abba<s>", false, false).text, "9000000 16777215 7 3");
  assert_string_equal(ac_tokenizer_token(tokenizer, 9000000, &bytes), "ab");
  assert_int_equal(bytes, 2);
  assert_null(ac_tokenizer_token(tokenizer, 8, &bytes));
  assert_null(ac_tokenizer_token(tokenizer, 0, &bytes));
  assert_true(ac_tokenizer_find(tokenizer, "b", &id));
  assert_int_equal(id, 16777215);
  assert_false(ac_tokenizer_is_special(tokenizer, 1));
  ac_tokenizer_free(tokenizer);
}

/* As `tokenizers`: what is around a character that is left out is side by side. */
static void characters_without_a_token_are_left_out(void **state) {
  (void)state;
  ac_tokenizer *tokenizer = open_small(NULL, NULL);
  assert_string_equal(ids_of(tokenizer, "axb", false, false).text, "2");
  assert_string_equal(ids_of(tokenizer,
                             "xxa\xc3\xa9\xc3\xa9"
                             "bxx",
                             false, false)
                          .text,
                      "2");
  assert_string_equal(ids_of(tokenizer, "xbxa", false, false).text, "1 0");
  assert_string_equal(ids_of(tokenizer, "x", false, false).text, "");
  ac_tokenizer_free(tokenizer);
}

/* In values; jansson has no keys with a zero, and says so. */
static void tokens_may_have_a_zero(void **state) {
  (void)state;
  size_t bytes;
  ac_encoding encoding;
  ac_tokenizer *tokenizer;
  static const char file[] =
      "{\"added_tokens\":[{\"id\":4,\"content\":\"\\u0000!\"}],\"model\":{\"type\":\"Unigram\","
      "\"unk_id\":3,\"vocab\":[[\"a\",-2],[\"\\u0000\",-2],[\"a\\u0000\",-3],[\"?\",-9]]}}";
  static const char keys[] =
      "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0000\":0},\"merges\":[]}}";
  write_file(in_folder("tokenizer.json").text, file, strlen(file));
  assert_ok(ac_tokenizer_open(&tokenizer, in_folder("tokenizer.json").text));
  assert_ok(ac_tokenizer_encode(tokenizer, "a\0\0a\0!", 6, NULL, &encoding));
  assert_int_equal(encoding.count, 4);
  assert_memory_equal(encoding.ids, ((uint32_t[]){2, 1, 0, 4}), 16);
  assert_memory_equal(ac_tokenizer_token(tokenizer, 2, &bytes), "a\0", 2);
  assert_int_equal(bytes, 2);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);
  write_file(in_folder("tokenizer.json").text, keys, strlen(keys));
  assert_refused(ac_tokenizer_open(&tokenizer, in_folder("tokenizer.json").text), AC_ERROR_FORMAT,
                 "tokenizer.json: line 1");
}

static void no_text_has_no_tokens(void **state) {
  (void)state;
  ac_encoding encoding;
  ac_tokenizer *tokenizer = open_small(NULL, NULL);
  assert_ok(ac_tokenizer_encode(tokenizer, NULL, 0, NULL, &encoding));
  assert_int_equal(encoding.count, 0);
  ac_encoding_free(&encoding);
  ac_tokenizer_free(tokenizer);
}

static void marks_of_the_first_token_are_no_spaces(void **state) {
  (void)state;
  char *text;
  ac_tokenizer *tokenizer = open_small("decoder", "{\"type\":\"Metaspace\",\"replacement\":\"a\"}");
  assert_ok(ac_tokenizer_decode(&text, NULL, tokenizer, (const uint32_t[]){0, 1, 0, 2}, 4, false));
  assert_string_equal(text, "b  b");
  free(text);
  ac_tokenizer_free(tokenizer);
}

static void files_that_ask_for_what_is_not_there_are_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *path, *value;
    ac_status status;
    const char *mention;
  } cases[] = {
      {"normalizer", "{\"type\":\"Nmt\"}", AC_ERROR_UNSUPPORTED, "no step \"Nmt\""},
      {"normalizer", "{\"type\":\"a\\nb\"}", AC_ERROR_UNSUPPORTED, "no step \"a?b\""},
      {"normalizer", "{}", AC_ERROR_FORMAT, "normalizer: a step has no type"},
      {"normalizer", "{\"type\":\"Precompiled\"}", AC_ERROR_FORMAT, "no precompiled_charsmap"},
      {"normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}",
       AC_ERROR_FORMAT, "not a table of characters"},
      {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"X\"}]}",
       AC_ERROR_UNSUPPORTED, "no step \"X\""},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_FORMAT, "pre_tokenizer: Split: the pattern is wrong at byte 1"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "&& within brackets"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Random\"}",
       AC_ERROR_UNSUPPORTED, "behavior is \"Random\""},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=[A-Z])\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "matches where there is nothing"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d{1,3}+x\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "the pattern has {1,3}+,"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{,3}\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "the pattern has {,3}"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{3}?b\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "the pattern has {3}?"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?im)a\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "option m"},
      {"pre_tokenizer",
       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:punct:]]\"},\"behavior\":\"Isolated\"}",
       AC_ERROR_UNSUPPORTED, "[:punct:]"},
      {"pre_tokenizer",
       "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}",
       AC_ERROR_UNSUPPORTED, "no step Digits after ByteLevel"},
      {"pre_tokenizer", "{\"type\":\"Metaspace\",\"prepend_scheme\":\"last\"}",
       AC_ERROR_UNSUPPORTED, "prepend_scheme is \"last\""},
      {"post_processor", "{\"type\":\"Other\"}", AC_ERROR_UNSUPPORTED, "no step \"Other\""},
      {"post_processor",
       "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}",
       AC_ERROR_FORMAT, "there is no token \"<x>\""},
      {"decoder", "{\"type\":\"CTC\"}", AC_ERROR_UNSUPPORTED,
       "decoder: this library has no step \"CTC\""},
      {"decoder", "{\"type\":\"BPEDecoder\",\"suffix\":\"\"}", AC_ERROR_FORMAT,
       "BPEDecoder has no suffix"},
      {"decoder", "{\"type\":\"Metaspace\",\"replacement\":\"\"}", AC_ERROR_FORMAT,
       "Metaspace has no replacement"},
      {"model", "{\"type\":\"Transducer\"}", AC_ERROR_UNSUPPORTED, "no model \"Transducer\""},
      {"model", "7", AC_ERROR_FORMAT, "there is no model"},
      {"model.vocab", "{}", AC_ERROR_FORMAT, "the model has no vocab"},
      {"model.vocab", "{\"a\":-1}", AC_ERROR_FORMAT, "token \"a\" has no id"},
      {"model.vocab", "{\"a\":99999999}", AC_ERROR_FORMAT, "token \"a\" has no id"},
      {"model.vocab", "{\"a\":0,\"b\":0}", AC_ERROR_FORMAT, "two tokens have the id 0"},
      {"model.merges", "[\"ab\"]", AC_ERROR_FORMAT, "merge 0 is not a pair"},
      {"model.merges", "[\"a c\"]", AC_ERROR_FORMAT,
       "merge 0 has tokens that the vocab does not have"},
      {"model.merges", "7", AC_ERROR_FORMAT, "no merges"},
      {"model.dropout", "0.1", AC_ERROR_UNSUPPORTED, "dropout"},
      {"model.unk_token", "\"?\"", AC_ERROR_FORMAT, "unk_token is \"?\""},
      {"added_tokens", "[{\"content\":\"x\"}]", AC_ERROR_FORMAT,
       "an added token has no content or no id"},
  };
  ac_tokenizer *tokenizer;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_t *file = small_file(cases[i].path, cases[i].value);
    assert_refused(open_json(&tokenizer, file), cases[i].status, cases[i].mention);
    assert_contains(ac_last_error(), "tokenizer.json");
    assert_null(tokenizer);
    json_decref(file);
  }
  json_t *file = small_file(NULL, NULL);
  assert_ok(open_json(&tokenizer, file));
  json_decref(file);
  ac_tokenizer_free(tokenizer);
  assert_ok(ac_tokenizer_open(&tokenizer, test_folder)); /* which has the tokenizer.json */
  ac_tokenizer_free(tokenizer);
  test_path path = in_folder("tokenizer.json");
  write_file(path.text, "{\"model\":", 9);
  assert_refused(ac_tokenizer_open(&tokenizer, path.text), AC_ERROR_FORMAT, "line 1");
  write_file(path.text, "[]", 2);
  assert_refused(ac_tokenizer_open(&tokenizer, path.text), AC_ERROR_FORMAT,
                 "this is not a tokenizer");
  assert_refused(ac_tokenizer_open(&tokenizer, "/nowhere/tokenizer.json"), AC_ERROR_IO, "/nowhere");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_those_of_the_reference),
      cmocka_unit_test(special_tokens_are_found_and_may_stay_text),
      cmocka_unit_test(tokens_of_bytes_cover_the_text),
      cmocka_unit_test(bounds_are_those_of_the_given_text),
      cmocka_unit_test(bytes_that_are_no_text_are_replaced_and_counted),
      cmocka_unit_test(unknown_ids_are_refused),
      cmocka_unit_test(long_monotonous_texts_are_no_trap),
      cmocka_unit_test(plain_text_never_gives_a_special_token),
      cmocka_unit_test(equal_tokens_are_special_together),
      cmocka_unit_test(added_tokens_are_not_those_of_bytes),
      cmocka_unit_test(lines_end_at_newlines),
      cmocka_unit_test(a_template_says_which_ids_a_name_has),
      cmocka_unit_test(ids_may_have_holes),
      cmocka_unit_test(characters_without_a_token_are_left_out),
      cmocka_unit_test(tokens_may_have_a_zero),
      cmocka_unit_test(no_text_has_no_tokens),
      cmocka_unit_test(marks_of_the_first_token_are_no_spaces),
      cmocka_unit_test(files_that_ask_for_what_is_not_there_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
