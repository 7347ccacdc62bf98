/* Sequences of tokens (bytes of text, or uint16 from a file) and the windows a language model
 * learns from. A sequence is held in memory as it is in its files, one or two bytes a token. */
#include "data/dataset.h"

#include "core/error.h"
#include "core/platform.h"
#include "core/random.h"
#include "data/byte_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ac_tokens {
  int64_t count, vocab;
  uint8_t *bytes; /* one of the two is not NULL */
  uint16_t *words;
};

/* ---- files ----------------------------------------------------------------------------------- */

/* Appends a file's bytes until the buffer holds `limit`. */
static ac_status append_file(ac_bytes *buffer, const char *path, uint64_t limit) {
  FILE *stream = fopen(path, "rb");
  if (!stream) return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  ac_status status = AC_OK;
  while (buffer->count < limit) {
    if (buffer->count == buffer->capacity) status = ac_bytes_grow(buffer, PTRDIFF_MAX, path);
    if (status != AC_OK) break;
    size_t wanted = buffer->capacity - buffer->count;
    if (wanted > limit - buffer->count) wanted = (size_t)(limit - buffer->count);
    size_t got = fread(buffer->data + buffer->count, 1, wanted, stream);
    buffer->count += got;
    if (got < wanted) {
      if (ferror(stream))
        status = ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
      break;
    }
  }
  fclose(stream);
  return status;
}

/* Takes over the buffer if it succeeds. */
static ac_status make_tokens(ac_tokens **tokens, const ac_bytes *buffer, bool wide, int64_t vocab) {
  ac_tokens *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "tokens: no memory for a description");
  made->vocab = vocab;
  made->count = (int64_t)(wide ? buffer->count / 2 : buffer->count);
  if (wide) made->words = (uint16_t *)(void *)buffer->data;
  else made->bytes = buffer->data;
  *tokens = made;
  return AC_OK;
}

static ac_status append_path(ac_bytes *buffer, const char *path, uint64_t limit,
                             const ac_path_choice *choice) {
  ac_paths paths;
  AC_TRY(ac_paths_list(&paths, path, choice));
  ac_status status = AC_OK;
  for (size_t i = 0; i < paths.count && status == AC_OK && buffer->count < limit; i++)
    status = append_file(buffer, paths.path[i], limit);
  if (status == AC_OK && !buffer->count)
    status = ac_fail(AC_ERROR_FORMAT, paths.count ? "%s is empty" : "%s holds no files", path);
  ac_paths_free(&paths);
  return status;
}

ac_status ac_tokens_from_text(ac_tokens **tokens, const char *path, uint64_t max_bytes) {
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  return ac_tokens_from_text_where(tokens, path, max_bytes, NULL, NULL);
}

ac_status ac_tokens_from_text_where(ac_tokens **tokens, const char *path, uint64_t max_bytes,
                                    ac_takes_path *takes, void *user) {
  const ac_path_choice choice = {takes, user};
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  ac_bytes text = {0};
  ac_status status = append_path(&text, path, max_bytes ? max_bytes : UINT64_MAX, &choice);
  if (status == AC_OK) {
    ac_bytes_shrink(&text);
    status = make_tokens(tokens, &text, false, 256);
  }
  if (status != AC_OK) free(text.data);
  return status;
}

/* Little-endian pairs of bytes become uint16 in place. */
static ac_status decode_words(ac_bytes *buffer, const char *path, int64_t vocab) {
  if (!buffer->count) return ac_fail(AC_ERROR_FORMAT, "%s is empty", path);
  if (buffer->count % 2)
    return ac_fail(AC_ERROR_FORMAT, "%s has %zu bytes, which are no whole number of uint16 tokens",
                   path, buffer->count);
  ac_bytes_shrink(buffer);
  uint16_t *words = (uint16_t *)(void *)buffer->data;
  for (size_t i = 0; i < buffer->count / 2; i++) {
    uint16_t token = (uint16_t)(buffer->data[2 * i] | buffer->data[2 * i + 1] << 8);
    if (token >= vocab)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: token %u at position %zu is outside the vocabulary of %lld", path,
                     (unsigned)token, i, (long long)vocab);
    words[i] = token;
  }
  return AC_OK;
}

ac_status ac_tokens_from_uint16(ac_tokens **tokens, const char *path, int64_t vocab) {
  AC_CREATES(tokens);
  AC_REQUIRE(path);
  if (vocab < 1 || vocab > 65536)
    return ac_fail(AC_ERROR_ARGUMENT, "tokens: a vocabulary of %lld; uint16 tokens have 1 to 65536",
                   (long long)vocab);
  ac_bytes file = {0};
  ac_status status = append_file(&file, path, UINT64_MAX);
  if (status == AC_OK) status = decode_words(&file, path, vocab);
  if (status == AC_OK) status = make_tokens(tokens, &file, true, vocab);
  if (status != AC_OK) free(file.data);
  return status;
}

void ac_tokens_free(ac_tokens *tokens) {
  if (!tokens) return;
  free(tokens->bytes);
  free(tokens->words);
  free(tokens);
}

int64_t ac_tokens_count(const ac_tokens *tokens) {
  return tokens ? tokens->count : 0;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Of one range of the tokens. */
typedef struct window_range {
  int64_t begin, count; /* count: windows */
  int64_t offsets;      /* the first window may begin at begin + [0, offsets) */
} window_range;

enum { MOST_RANGES = 2 };

typedef struct window_rule {
  const ac_tokens *tokens;
  int64_t context;
  window_range ranges[MOST_RANGES]; /* one after another */
  int range_count;
} window_rule;

/* Counter word 3; apart from the streams of dropout and of shuffling, which share the key. */
#define OFFSET_STREAM 0x4F460000u

static int64_t first_window(const window_range *range, const ac_sample_key *key) {
  if (range->offsets == 1) return range->begin;
  uint64_t epoch = (uint64_t)key->epoch;
  ac_philox_block random =
      ac_philox(key->seed, 0, (uint32_t)epoch, (uint32_t)(epoch >> 32), OFFSET_STREAM);
  uint64_t bits = (uint64_t)random.v[1] << 32 | random.v[0];
  return range->begin + (int64_t)(bits % (uint64_t)range->offsets);
}

static int64_t window_begin(const window_rule *windows, const ac_sample_key *key) {
  const window_range *range = windows->ranges;
  int64_t index = key->index;
  for (; index >= range->count; range++) index -= range->count;
  return first_window(range, key) + index * windows->context;
}

static ac_status read_window(void *user, const ac_sample_key *key, void *const *fields) {
  const window_rule *windows = user;
  const ac_tokens *tokens = windows->tokens;
  const int64_t start = window_begin(windows, key);
  for (int64_t f = 0; f < 2; f++) {
    int32_t *out = fields[f];
    if (tokens->bytes)
      for (int64_t i = 0; i < windows->context; i++) out[i] = tokens->bytes[start + f + i];
    else
      for (int64_t i = 0; i < windows->context; i++) out[i] = tokens->words[start + f + i];
  }
  return AC_OK;
}

/* The last target of the last window is token offset + count * context of the range, which must be
 * below length for the largest offset, context - 1. In a range where not even one window fits at
 * that offset, one fits at all offsets below length - context. A range for which there is no window
 * has a count of 0. */
static window_range lay_windows(int64_t begin, int64_t end, int64_t context, bool jitter) {
  const int64_t length = end - begin;
  window_range range = {.begin = begin, .offsets = 1};
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

/* Ranges without a window are left out. */
static ac_status make_windows(ac_dataset **dataset, const ac_tokens *tokens, int64_t context,
                              const window_range *ranges, int range_count) {
  window_rule *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "tokens: no memory for a description");
  *made = (window_rule){.tokens = tokens, .context = context};
  ac_callback_dataset_desc desc = {
      .field_count = 2,
      .fields = {{"tokens", AC_I32, context}, {"targets", AC_I32, context}},
      .read = read_window,
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
    return ac_fail(AC_ERROR_ARGUMENT, "tokens: [%lld, %lld) is no part of %lld tokens",
                   (long long)begin, (long long)end, (long long)tokens->count);
  AC_TRY(check_context(context));
  const window_range range = lay_windows(begin, end, context, jitter);
  if (!range.count) return too_few(end - begin, context);
  return make_windows(dataset, tokens, context, &range, 1);
}

ac_status ac_dataset_fold_tokens(ac_dataset **train, ac_dataset **validation,
                                 const ac_tokens *tokens, int64_t fold, int64_t folds,
                                 int64_t context) {
  AC_CREATES(train);
  AC_CREATES(validation);
  AC_REQUIRE(tokens);
  AC_TRY(ac_fold_check(fold, folds, tokens->count, "tokens"));
  AC_TRY(check_context(context));
  const int64_t begin = ac_fold_begin(tokens->count, folds, fold - 1);
  const int64_t end = ac_fold_begin(tokens->count, folds, fold);
  const window_range own = lay_windows(begin, end, context, false);
  const window_range rest[] = {lay_windows(0, begin, context, true),
                               lay_windows(end, tokens->count, context, true)};
  if (!own.count) return too_few(end - begin, context);
  if (!rest[0].count && !rest[1].count)
    return too_few(begin > tokens->count - end ? begin : tokens->count - end, context);
  ac_dataset *training;
  AC_TRY(make_windows(&training, tokens, context, rest, 2));
  ac_status status = make_windows(validation, tokens, context, &own, 1);
  if (status == AC_OK) *train = training;
  else ac_dataset_free(training);
  return status;
}
