/* Sequences of tokens (bytes of text, or numbers of a file) and the spans a language model learns
 * from. A token takes one byte of memory if it is a byte, two if the vocabulary has at most 65536,
 * else four. */
#include "data/dataset.h"

#include "core/error.h"
#include "core/little_endian.h"
#include "core/format.h"
#include "core/platform/folders.h"
#include "core/random.h"
#include "data/byte_file.h"

#include <stdlib.h>
#include <string.h>

struct ac_tokens {
  int64_t count, vocab;
  uint8_t *bytes; /* one of the three is not NULL */
  uint16_t *words;
  uint32_t *ids;
};

enum { MOST_WORDS = 65536 };

/* ---- files ----------------------------------------------------------------------------------- */

/* Text or any bytes. */
typedef enum content { TEXT, BYTES } content;

/* `file_bytes` is 0 where not all of the file is there. */
static ac_status check_text(const char *path, const uint8_t *data, size_t count,
                            uint64_t file_bytes) {
  const char *name = NULL;
  if (!ac_format_is_binary(data, count)) return AC_OK;
  ac_format_of(data, count, file_bytes, &name);
  return ac_fail(AC_ERROR_FORMAT, "%s is %s, not text", path, name ? name : "binary data");
}

/* Appends a file's bytes until the buffer holds `limit`. */
static ac_status append_file(ac_bytes *buffer, const char *path, uint64_t limit, content content) {
  ac_byte_file *file;
  const size_t first = buffer->count;
  AC_TRY(ac_byte_file_open(&file, path, content == TEXT ? AC_UNZIP : AC_AS_IT_IS));
  ac_status status = ac_byte_file_append(file, buffer, limit);
  ac_byte_file_close(file);
  const size_t added = buffer->count - first;
  if (status == AC_OK && content == TEXT && added)
    status = check_text(path, buffer->data + first, added, buffer->count < limit ? added : 0);
  return status;
}

/* Takes over the buffer if it succeeds. */
static ac_status make_tokens(ac_tokens **tokens, const ac_bytes *buffer, size_t size,
                             int64_t vocab) {
  ac_tokens *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "tokens: no memory for a description");
  made->vocab = vocab;
  made->count = (int64_t)(buffer->count / size);
  if (size == 4) made->ids = (uint32_t *)(void *)buffer->data;
  else if (size == 2) made->words = (uint16_t *)(void *)buffer->data;
  else made->bytes = buffer->data;
  *tokens = made;
  return AC_OK;
}

static ac_status append_path(ac_bytes *buffer, const char *path, uint64_t limit, content content,
                             const ac_path_choice *choice) {
  ac_paths paths;
  AC_TRY(ac_paths_list(&paths, path, choice));
  ac_status status = AC_OK;
  for (size_t i = 0; i < paths.count && status == AC_OK && buffer->count < limit; i++)
    status = append_file(buffer, paths.path[i], limit, content);
  if (status == AC_OK && !buffer->count)
    status = ac_fail(AC_ERROR_FORMAT, paths.count ? "%s is empty" : "%s holds no files", path);
  ac_paths_free(&paths);
  return status;
}

static ac_status from_bytes(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                            content content, const ac_path_choice *choice) {
  ac_bytes bytes = {0};
  ac_status status =
      append_path(&bytes, path, max_bytes ? max_bytes : PTRDIFF_MAX, content, choice);
  if (status == AC_OK) {
    ac_bytes_shrink(&bytes);
    status = make_tokens(tokens, &bytes, 1, 256);
  }
  if (status != AC_OK) free(bytes.data);
  return status;
}

ac_status ac_tokens_from_text(ac_tokens **tokens, const char *path, uint64_t max_bytes) {
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  return ac_tokens_from_text_where(tokens, path, max_bytes, NULL, NULL);
}

ac_status ac_tokens_from_text_where(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                    ac_takes_path *takes, void *user) {
  const ac_path_choice choice = {.takes = takes, .user = user};
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  return from_bytes(tokens, path, max_bytes, TEXT, &choice);
}

ac_status ac_tokens_from_bytes(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                               ac_takes_path *takes, void *user) {
  const ac_path_choice choice = {.takes = takes, .user = user};
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  return from_bytes(tokens, path, max_bytes, BYTES, &choice);
}

/* ---- files of tokens ------------------------------------------------------------------------- */

/* Where tokens lie in a file: from `begin` on, `size` bytes each. */
typedef struct token_layout {
  size_t begin, size;
} token_layout;

/* llm.c's header is 256 int32; the third one is the number of tokens. */
static ac_status check_llmc(const char *path, const ac_bytes *file, const token_layout *tokens) {
  const size_t bytes = file->count < tokens->begin ? 0 : file->count - tokens->begin;
  if (file->count >= tokens->begin && bytes == ac_little_endian(file->data + 8, 4) * tokens->size)
    return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s is damaged: its llm.c header announces %u tokens, but %zu bytes follow it",
                 path, file->count >= 12 ? (unsigned)ac_little_endian(file->data + 8, 4) : 0,
                 bytes);
}

/* `size`: bytes of a token in a file without a header. */
static ac_status check_format(const char *path, const ac_bytes *file, size_t size,
                              token_layout *tokens) {
  const char *name = NULL;
  *tokens = (token_layout){0, size};
  switch (ac_format_of(file->data, file->count, file->count, &name)) {
  case AC_FORMAT_LLMC_UINT16:
    *tokens = (token_layout){1024, 2};
    return check_llmc(path, file, tokens);
  case AC_FORMAT_LLMC_UINT32:
    *tokens = (token_layout){1024, 4};
    return check_llmc(path, file, tokens);
  case AC_FORMAT_TEXT:
  case AC_FORMAT_JSON:
    if (file->count < 64) return AC_OK; /* a few tokens can look like text */
    break;
  case AC_FORMAT_CIFAR10:
  case AC_FORMAT_CIFAR100:
    if (file->count < 4 * 3074) return AC_OK; /* and a few records like tokens */
    break;
  case AC_FORMAT_TOKENS:
  case AC_FORMAT_UNKNOWN:
    return AC_OK;
  default:
    break;
  }
  return ac_fail(AC_ERROR_FORMAT, "%s is %s, not uint%d tokens", path, name, 8 * (int)size);
}

/* Larger integers have zeros, or the few high words of a large vocabulary, in fixed places. Tokens
 * do not, unless they are few and made by a rule, such as digits with spaces between them. */
static ac_status check_width(const char *path, const uint8_t *data, size_t count) {
  enum { LEAST = 32, DIFFERENT = 16, MOST_HIGH = 4 };
  bool seen[256] = {false}, wide = true;
  int different = 0;
  if (count / 4 < LEAST || count % 4) return AC_OK;
  bool very_wide = count % 8 == 0;
  for (size_t i = 0; i < count && wide; i += 4) {
    wide = data[i + 2] < MOST_HIGH && !data[i + 3];
    if (i % 8) very_wide = very_wide && !(data[i] | data[i + 1] | data[i + 2]);
    different += !seen[data[i]];
    seen[data[i]] = true;
  }
  if (!wide || different < DIFFERENT) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 very_wide ? "%s holds 64-bit integers, not uint16 tokens; write it as uint16"
                           : "%s holds 32-bit integers, not uint16 tokens; write it as uint16, or "
                             "read it as uint32",
                 path);
}

/* Tokens of a file become ones of `kept` bytes, in place from the file's beginning. */
static ac_status narrow(ac_bytes *file, const char *path, const token_layout *tokens, size_t kept,
                        int64_t vocab) {
  const size_t count = (file->count - tokens->begin) / tokens->size;
  uint16_t *words = (uint16_t *)(void *)file->data;
  uint32_t *ids = (uint32_t *)(void *)file->data;
  if (!count) return ac_fail(AC_ERROR_FORMAT, "%s holds no tokens", path);
  for (size_t i = 0; i < count; i++) {
    const uint32_t token =
        ac_little_endian(file->data + tokens->begin + i * tokens->size, tokens->size);
    if (token >= vocab)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: token %u at position %zu is outside the vocabulary of %lld", path,
                     (unsigned)token, i, (long long)vocab);
    if (kept == 4) ids[i] = token;
    else words[i] = (uint16_t)token;
  }
  file->count = count * kept;
  ac_bytes_shrink(file);
  return AC_OK;
}

/* *kept: bytes of a token in memory. */
static ac_status decode_tokens(ac_bytes *file, const char *path, size_t size, int64_t vocab,
                               size_t *kept) {
  token_layout tokens;
  if (!file->count) return ac_fail(AC_ERROR_FORMAT, "%s is empty", path);
  AC_TRY(check_format(path, file, size, &tokens));
  if ((file->count - tokens.begin) % tokens.size)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s has %zu bytes, which are not a whole number of uint%d tokens", path,
                   file->count, 8 * (int)tokens.size);
  if (!tokens.begin && size == 2) AC_TRY(check_width(path, file->data, file->count));
  *kept = tokens.size == 2 || vocab <= MOST_WORDS ? 2 : 4;
  return narrow(file, path, &tokens, *kept, vocab);
}

static ac_status from_file(ac_tokens **tokens, const char *path, size_t size, int64_t vocab) {
  size_t kept = 0;
  ac_bytes bytes = {0};
  ac_byte_file *file;
  AC_TRY(ac_byte_file_open(&file, path, AC_UNZIP));
  ac_status status = ac_byte_file_append(file, &bytes, PTRDIFF_MAX);
  ac_byte_file_close(file);
  if (status == AC_OK) status = decode_tokens(&bytes, path, size, vocab, &kept);
  if (status == AC_OK) status = make_tokens(tokens, &bytes, kept, vocab);
  if (status != AC_OK) free(bytes.data);
  return status;
}

ac_status ac_tokens_from_uint16(ac_tokens **tokens, const char *path, int64_t vocab) {
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  if (vocab < 1 || vocab > MOST_WORDS)
    return ac_fail(AC_ERROR_ARGUMENT, "tokens: a vocabulary of %lld; uint16 tokens have 1 to 65536",
                   (long long)vocab);
  return from_file(tokens, path, 2, vocab);
}

ac_status ac_tokens_from_uint32(ac_tokens **tokens, const char *path, int64_t vocab) {
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  if (vocab < 1 || vocab > INT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "tokens: a vocabulary of %lld; uint32 tokens have 1 to 2147483647",
                   (long long)vocab);
  return from_file(tokens, path, 4, vocab);
}

void ac_tokens_free(ac_tokens *tokens) {
  if (!tokens) return;
  free(tokens->bytes);
  free(tokens->words);
  free(tokens->ids);
  free(tokens);
}

int64_t ac_tokens_count(const ac_tokens *tokens) {
  return tokens ? tokens->count : 0;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* The spans of one range of the tokens. */
typedef struct span_range {
  int64_t begin, count; /* count: spans */
  int64_t offsets;      /* the first span may begin at begin + [0, offsets) */
} span_range;

enum { MOST_RANGES = 2 };

typedef struct span_rule {
  const ac_tokens *tokens;
  int64_t context;
  span_range ranges[MOST_RANGES]; /* one after another */
  int range_count;
} span_rule;

/* Counter word 3; apart from the streams of dropout and of shuffling, which share the key. */
#define OFFSET_STREAM 0x4F460000u

static int64_t first_span(const span_range *range, const ac_sample_key *key) {
  if (range->offsets == 1) return range->begin;
  uint64_t epoch = (uint64_t)key->epoch;
  ac_philox_block random =
      ac_philox(key->seed, 0, (uint32_t)epoch, (uint32_t)(epoch >> 32), OFFSET_STREAM);
  uint64_t bits = (uint64_t)random.v[1] << 32 | random.v[0];
  return range->begin + (int64_t)(bits % (uint64_t)range->offsets);
}

static int64_t span_begin(const span_rule *spans, const ac_sample_key *key) {
  const span_range *range = spans->ranges;
  int64_t index = key->index;
  for (; index >= range->count; range++) index -= range->count;
  return first_span(range, key) + index * spans->context;
}

static ac_status read_span(void *user, const ac_sample_key *key, void *const *fields) {
  const span_rule *spans = user;
  const ac_tokens *tokens = spans->tokens;
  const int64_t start = span_begin(spans, key);
  for (int64_t f = 0; f < 2; f++) {
    int32_t *out = fields[f];
    if (tokens->bytes)
      for (int64_t i = 0; i < spans->context; i++) out[i] = tokens->bytes[start + f + i];
    else if (tokens->ids)
      for (int64_t i = 0; i < spans->context; i++) out[i] = (int32_t)tokens->ids[start + f + i];
    else
      for (int64_t i = 0; i < spans->context; i++) out[i] = tokens->words[start + f + i];
  }
  return AC_OK;
}

/* The last target of the last span is token offset + count * context of the range. It must be
 * below length for the largest offset, context - 1. If a range has no room for a span at that
 * offset, one fits at all offsets below length - context. If it has no room for any span, the
 * count is 0. */
static span_range lay_spans(int64_t begin, int64_t end, int64_t context, bool jitter) {
  const int64_t length = end - begin;
  span_range range = {.begin = begin, .offsets = 1};
  if (length - 1 < context) return range;
  range.count = (length - 1) / context;
  if (jitter && length / context >= 2) {
    range.count = length / context - 1;
    range.offsets = context;
  } else if (jitter) {
    range.offsets = length - context;
  }
  return range;
}

/* Ranges without a span are left out. */
static ac_status make_spans(ac_dataset **dataset, const ac_tokens *tokens, int64_t context,
                            const span_range *ranges, int range_count) {
  span_rule *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "tokens: no memory for a description");
  *made = (span_rule){.tokens = tokens, .context = context};
  ac_callback_dataset_desc desc = {
      .field_count = 2,
      .fields = {{"tokens", AC_I32, context}, {"targets", AC_I32, context}},
      .read = read_span,
      .close = free,
      .user = made};
  for (int i = 0; i < range_count; i++) {
    if (!ranges[i].count) continue;
    made->ranges[made->range_count++] = ranges[i];
    desc.count += ranges[i].count;
  }
  ac_status status = ac_dataset_create(dataset, &desc, tokens->vocab);
  if (status != AC_OK) free(made);
  return status;
}

static ac_status check_context(int64_t context) {
  if (context >= 1) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "tokens: a context of %lld; it must be at least 1",
                 (long long)context);
}

static ac_status too_few(int64_t length, int64_t context) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "tokens: %lld tokens are too few for a context of %lld, which needs one more "
                 "than that",
                 (long long)length, (long long)context);
}

ac_status ac_dataset_from_tokens(ac_dataset **dataset, const ac_tokens *tokens, int64_t begin,
                                 int64_t end, int64_t context, bool jitter) {
  AC_CREATES(dataset);
  AC_REQUIRE(tokens);
  if (begin < 0 || begin > end || end > tokens->count)
    return ac_fail(AC_ERROR_ARGUMENT, "tokens: [%lld, %lld) is not a part of %lld tokens",
                   (long long)begin, (long long)end, (long long)tokens->count);
  AC_TRY(check_context(context));
  const span_range range = lay_spans(begin, end, context, jitter);
  if (!range.count) return too_few(end - begin, context);
  return make_spans(dataset, tokens, context, &range, 1);
}

ac_status ac_dataset_fold_tokens(ac_dataset **train, ac_dataset **validation,
                                 const ac_tokens *tokens, int64_t fold, int64_t folds,
                                 int64_t context) {
  AC_CREATES(train);
  AC_CREATES(validation);
  AC_REQUIRE(tokens);
  AC_TRY(ac_kfold_check(fold, folds, tokens->count, "tokens"));
  AC_TRY(check_context(context));
  const int64_t begin = ac_kfold_begin(tokens->count, folds, fold - 1);
  const int64_t end = ac_kfold_begin(tokens->count, folds, fold);
  const span_range own = lay_spans(begin, end, context, false);
  const span_range rest[] = {lay_spans(0, begin, context, true),
                             lay_spans(end, tokens->count, context, true)};
  if (!own.count) return too_few(end - begin, context);
  if (!rest[0].count && !rest[1].count)
    return too_few(begin > tokens->count - end ? begin : tokens->count - end, context);
  ac_dataset *training;
  AC_TRY(make_spans(&training, tokens, context, rest, 2));
  ac_status status = make_spans(validation, tokens, context, &own, 1);
  if (status == AC_OK) *train = training;
  else ac_dataset_free(training);
  return status;
}
