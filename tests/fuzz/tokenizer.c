/* A tokenizer.json and a text: the file ends at the first byte 0 of the input, and the rest is the
 * text. With a tokenizer.model or a GGUF file, the first byte says how many bytes the text has that
 * follows, and the rest is the file. */
#include "fuzz.h"

#include <accrue/tokenizer.h>
#include <stdlib.h>
#include <string.h>

static void use(ac_tokenizer *tokenizer, const char *text, size_t bytes) {
  ac_encoding encoding;
  const ac_encode_desc desc = {.add_special = bytes & 1, .plain = bytes & 2};
  if (ac_tokenizer_encode(tokenizer, text, bytes, &desc, &encoding) != AC_OK) {
    FUZZ_CHECK(!encoding.ids && !encoding.count);
    fuzz_check_sentence();
    return;
  }
  for (size_t i = 0; i < encoding.count; i++) {
    FUZZ_CHECK(encoding.ids[i] < ac_tokenizer_vocabulary(tokenizer));
    FUZZ_CHECK(encoding.begin[i] <= encoding.end[i] && encoding.end[i] <= bytes);
  }
  char *decoded;
  size_t length;
  FUZZ_CHECK(ac_tokenizer_decode(&decoded, &length, tokenizer, encoding.ids, encoding.count,
                                 false) == AC_OK);
  FUZZ_CHECK(decoded[length] == 0);
  free(decoded);
  ac_encoding_free(&encoding);
}

static void run(const uint8_t *data, size_t bytes) {
  const uint8_t *end = bytes ? memchr(data, 0, bytes) : NULL;
  const size_t json = end ? (size_t)(end - data) : bytes;
  ac_tokenizer *tokenizer;
  if (ac_tokenizer_open(&tokenizer, fuzz_file(0, data, json)) != AC_OK) {
    FUZZ_CHECK(!tokenizer);
    fuzz_check_sentence();
    return;
  }
  if (end) use(tokenizer, (const char *)end + 1, bytes - json - 1);
  ac_tokenizer_free(tokenizer);
}

/* A tokenizer.model, or a GGUF file. */
static void run_binary(const uint8_t *data, size_t bytes) {
  const size_t text = bytes ? data[0] : 0;
  if (!bytes || 1 + text > bytes) return;
  ac_tokenizer *tokenizer;
  const char *path = fuzz_file(0, data + 1 + text, bytes - 1 - text);
  if (ac_tokenizer_open(&tokenizer, path) != AC_OK) {
    FUZZ_CHECK(!tokenizer);
    fuzz_check_sentence();
    return;
  }
  use(tokenizer, (const char *)data + 1, text);
  ac_tokenizer_free(tokenizer);
}

static void take_both(fuzz_take take, const char *json, const char *text) {
  char input[2048];
  const size_t length = strlen(json) + 1, bytes = strlen(text);
  memcpy(input, json, length);
  memcpy(input + length, text, bytes);
  take(input, length + bytes);
}

static void seeds(fuzz_take take) {
  take_both(
      take,
      "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
      "\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\" \"}]},\"pre_tokenizer\":{"
      "\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
      "\"\\\\s+|\\\\w+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
      "\"add_prefix_space\":true,\"use_regex\":true}]},\"post_processor\":{\"type\":"
      "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{}}"
      "]},\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":5,\"content\":\"<s>\","
      "\"special\":true},{\"id\":6,\"content\":\"ab\",\"lstrip\":true,\"rstrip\":true,"
      "\"single_word\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ba\":2,"
      "\"\xc4\xa0\":3,\"\xc3\x83\":4},\"merges\":[\"b a\"],\"ignore_merges\":true}}",
      "baab ab <s> a\xc3\xa9 b");
  take_both(
      take,
      "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
      "\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",1],"
      "\"cls\":[\"a\",0]},\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":"
      "\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"##b\":2,\"?\":3}}}",
      "abb A\xcc\x81 x");
  take_both(take,
            "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"},\"decoder\":{"
            "\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
            "\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":{\"type\":"
            "\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"?\",0],[\"a\",-1.5],"
            "[\"\xe2\x96\x81\",-2],[\"aa\",-2.5],[\"<0xC3>\",-3],[\"<0xA9>\",-3]]}}",
            "aaa a \xc3\xa9 \xff");
}

const fuzz_format fuzz_tokenizer = {"tokenizer", run, seeds};

/* ---- a tokenizer.model ----------------------------------------------------------------------- */

typedef struct input {
  uint8_t data[4096];
  size_t count;
} input;

static input begin(const char *text) {
  input in = {.data = {(uint8_t)strlen(text)}, .count = 1 + strlen(text)};
  memcpy(in.data + 1, text, strlen(text));
  return in;
}

static void put(input *in, const void *bytes, size_t count) {
  memcpy(in->data + in->count, bytes, count);
  in->count += count;
}

static void put_piece(input *in, const char *text, uint8_t kind, float score) {
  const uint8_t bytes = (uint8_t)strlen(text);
  put(in, (uint8_t[]){0x0a, (uint8_t)(bytes + 9), 0x0a, bytes}, 4);
  put(in, text, bytes);
  put(in, "\x15", 1);
  put(in, &score, 4);
  put(in, (uint8_t[]){0x18, kind}, 2);
}

static void put_pieces(input *in) {
  put_piece(in, "<unk>", 2, 0);
  put_piece(in, "<s>", 3, 0);
  put_piece(in, "a", 1, -1);
  put_piece(in, "b", 1, -2);
  put_piece(in, "\xe2\x96\x81", 1, -1.5f);
  put_piece(in, "ab", 5, -3);
  put_piece(in, "aba", 1, -2.5f);
  put_piece(in,
            "\xe2\x96\x81"
            "a",
            1, -2.5f);
  put_piece(in, "b b", 4, 0);
}

static void model_seeds(fuzz_take take) {
  /* a table with one string, "x", that becomes "a" */
  static const uint8_t table[] = {0x1a, 0x10, 0x12, 0x0a, 4, 0,    0,    0,    0,
                                  4,    0,    0,    'a',  0, 0x18, 0x01, 0x20, 0};
  input unigram = begin("ab aba b b <s>x\xff  "), bpe = begin("abab  b b<s>\xc3\xa9");
  put_pieces(&unigram);
  put(&unigram, table, sizeof table);
  take(unigram.data, unigram.count);
  put_pieces(&bpe);
  put(&bpe, "\x12\x05\x18\x02\xc0\x01\x01", 7);
  take(bpe.data, bpe.count);
}

/* ---- a tokenizer in a GGUF file -------------------------------------------------------------- */

static void put_number(input *in, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) in->data[in->count++] = (uint8_t)(value >> 8 * i);
}

static void put_text(input *in, const char *text) {
  put_number(in, strlen(text), 8);
  put(in, text, strlen(text));
}

static void put_key(input *in, const char *key, uint32_t type) {
  put_text(in, key);
  put_number(in, type, 4);
}

static void put_array(input *in, const char *key, uint32_t type, uint64_t count) {
  put_key(in, key, 9);
  put_number(in, type, 4);
  put_number(in, count, 8);
}

static void put_tokens(input *in, const char *const *tokens, size_t count) {
  put_array(in, "tokenizer.ggml.tokens", 8, count);
  for (size_t i = 0; i < count; i++) put_text(in, tokens[i]);
  put_array(in, "tokenizer.ggml.token_type", 5, count);
  for (size_t i = 0; i < count; i++) put_number(in, *tokens[i] == '<' ? 3 : 1, 4);
}

static void begin_gguf(input *in, uint64_t pairs, const char *model) {
  put(in, "GGUF", 4);
  put_number(in, 3, 4);
  put_number(in, 0, 8);
  put_number(in, pairs, 8);
  put_key(in, "tokenizer.ggml.model", 8);
  put_text(in, model);
}

static void gguf_seeds(fuzz_take take) {
  static const char *const pieces[] = {"<s>", "a", "b", "\xe2\x96\x81", "ab"};
  static const char *const bytes[] = {"<s>", "a", "b", "\xc4\xa0", "ab"};
  input scores = begin("ab a<s>"), merges = begin("ab a<s>12");
  begin_gguf(&scores, 6, "llama");
  put_tokens(&scores, pieces, 5);
  put_array(&scores, "tokenizer.ggml.scores", 6, 5);
  for (int i = 0; i < 5; i++) put_number(&scores, 0xbf800000u + (uint32_t)i * 0x100000u, 4);
  put_key(&scores, "tokenizer.ggml.bos_token_id", 4);
  put_number(&scores, 0, 4);
  put_key(&scores, "tokenizer.ggml.unknown_token_id", 4);
  put_number(&scores, 0, 4);
  take(scores.data, scores.count);
  begin_gguf(&merges, 5, "gpt2");
  put_key(&merges, "tokenizer.ggml.pre", 8);
  put_text(&merges, "smollm");
  put_tokens(&merges, bytes, 5);
  put_array(&merges, "tokenizer.ggml.merges", 8, 1);
  put_text(&merges, "a b");
  take(merges.data, merges.count);
}

const fuzz_format fuzz_tokenizer_model = {"tokenizer_model", run_binary, model_seeds};
const fuzz_format fuzz_tokenizer_gguf = {"tokenizer_gguf", run_binary, gguf_seeds};
