/* Tokens: bytes 0 and 1 are the vocabulary less one, byte 2 the context, bit 0 of byte 3 the
 * jitter, its bit 1 text and bit 2 any bytes,
 * and bit 3 numbers of 32 bits; the rest is the file. */
#include "fuzz.h"

#include <accrue/dataset.h>

static void read_span(const ac_tokens *tokens, int64_t vocab, int64_t context, bool jitter) {
  ac_dataset *dataset;
  int64_t count = ac_tokens_count(tokens);
  if (ac_dataset_from_tokens(&dataset, tokens, count / 3, count, context, jitter) != AC_OK) {
    fuzz_check_sentence();
    return;
  }
  int32_t inputs[256], targets[256];
  for (int64_t i = 0; i < ac_dataset_count(dataset) && i < 100; i++) {
    const ac_sample_key key = {.index = ac_dataset_count(dataset) - 1 - i, .epoch = i};
    FUZZ_CHECK(ac_dataset_read(dataset, &key, (void *const[]){inputs, targets}) == AC_OK);
    for (int64_t t = 0; t < context; t++) {
      FUZZ_CHECK(inputs[t] >= 0 && inputs[t] < vocab && targets[t] < vocab);
      FUZZ_CHECK(t + 1 == context || inputs[t + 1] == targets[t]);
    }
  }
  ac_dataset_free(dataset);
}

static void run(const uint8_t *data, size_t bytes) {
  if (bytes < 4) return;
  const bool text = data[3] & 2, any = data[3] & 4;
  const int64_t words = (data[0] | data[1] << 8) + 1, vocab = text || any ? 256 : words;
  const char *path = fuzz_file(0, data + 4, bytes - 4);
  ac_tokens *tokens;
  ac_status status = any           ? ac_tokens_from_bytes(&tokens, path, data[0], NULL, NULL)
                     : text        ? ac_tokens_from_text(&tokens, path, data[0])
                     : data[3] & 8 ? ac_tokens_from_uint32(&tokens, path, vocab)
                                   : ac_tokens_from_uint16(&tokens, path, vocab);
  if (status == AC_OK) read_span(tokens, vocab, data[2], data[3] & 1);
  else fuzz_check_sentence();
  ac_tokens_free(tokens);
}

static void seeds(fuzz_take take) {
  uint8_t input[64] = {9, 0, 5};
  for (size_t i = 4; i < sizeof input; i++) input[i] = i % 2 ? 0 : (uint8_t)(i % 10);
  for (uint8_t kind = 0; kind < 16; kind++) {
    input[3] = kind;
    for (size_t i = 4; i < sizeof input; i++)
      input[i] = kind & 2 ? (uint8_t)("some text\n"[i % 10]) : input[i];
    take(input, sizeof input);
    fuzz_take_gzip(take, input, sizeof input, 4);
  }
  uint8_t llmc[4 + 1024 + 6] = {9, 0, 1, 0, 0x88, 0xd8, 0x34, 1, 1, 0, 0, 0, 3};
  take(llmc, sizeof llmc);
}

const fuzz_format fuzz_tokens = {"tokens", run, seeds};
