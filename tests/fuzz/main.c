/* libFuzzer's side: main FORMAT CORPUS [flags of libFuzzer] writes the format's valid inputs into
 * the folder CORPUS and lets the fuzzer go on from there. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <accrue/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

static const fuzz_format *const formats[] = {&fuzz_idx,
                                             &fuzz_cifar,
                                             &fuzz_model_file,
                                             &fuzz_state_file,
                                             &fuzz_tokens,
                                             &fuzz_options,
                                             &fuzz_report,
                                             &fuzz_trainer_state,
                                             &fuzz_policy,
                                             &fuzz_formula,
                                             &fuzz_tokenizer,
                                             &fuzz_tokenizer_model,
                                             &fuzz_tokenizer_gguf,
                                             &fuzz_language_model,
                                             &fuzz_chat,
                                             &fuzz_pictures};
static const fuzz_format *format;

/* ---- files in memory ------------------------------------------------------------------------- */

const char *fuzz_file(int which, const void *data, size_t bytes) {
  static int files[2] = {-1, -1};
  static char paths[2][32];
  if (files[which] < 0) {
    files[which] = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(paths[which], sizeof paths[which], "/proc/self/fd/%d", files[which]);
  }
  if (files[which] < 0 || ftruncate(files[which], 0) != 0 ||
      pwrite(files[which], data, bytes, 0) != (ssize_t)bytes) {
    perror("a file in memory");
    exit(2);
  }
  return paths[which];
}

void fuzz_check_sentence(void) {
  const char *sentence = ac_last_error();
  FUZZ_CHECK(*sentence && !strchr(sentence, '\n'));
}

/* ---- what to begin with ---------------------------------------------------------------------- */

static const char *corpus;
static int seed_count;

static void write_seed(const void *data, size_t bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/seed-%d", corpus, seed_count++);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
    perror(path);
    exit(2);
  }
}

void fuzz_take_gzip(fuzz_take take, const uint8_t *data, size_t bytes, size_t prefix) {
  uint8_t packed[8192];
  z_stream stream = {.next_in = (uint8_t *)data + prefix,
                     .avail_in = (unsigned)(bytes - prefix),
                     .next_out = packed + prefix,
                     .avail_out = (unsigned)(sizeof packed - prefix)};
  memcpy(packed, data, prefix);
  FUZZ_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  take(packed, prefix + stream.total_out);
  deflateEnd(&stream);
}

/* ---- libFuzzer's two calls ------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  for (size_t i = 0; *argc > 2 && i < sizeof formats / sizeof *formats; i++)
    if (!strcmp((*argv)[1], formats[i]->name)) format = formats[i];
  if (!format) {
    fprintf(stderr, "the first argument is a format, the second a folder\n");
    exit(2);
  }
  corpus = (*argv)[2];
  format->seeds(write_seed);
  (*argv)[1] = (*argv)[0];
  ++*argv, --*argc;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  format->run(data, bytes);
  return 0;
}
