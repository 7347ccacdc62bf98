/* A tokenizer.json and a text: the file ends at the first byte 0 of the input, and the rest is the
 * text. */
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
