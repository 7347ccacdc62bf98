/* The parsers under a fuzzer: one file a format, each with valid inputs to begin with. */
#ifndef AC_TESTS_FUZZ_H
#define AC_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Receives an input as a fuzzer found it, or one to begin with. */
typedef void (*fuzz_take)(const void *data, size_t bytes);

typedef struct fuzz_format {
  const char *name;
  /* Parses the input and reads all that the parser lets through. Whatever the input is, nothing may
   * crash, leak or be left undefined. */
  void (*run)(const uint8_t *data, size_t bytes);
  void (*seeds)(fuzz_take take); /* hands over valid inputs */
} fuzz_format;

extern const fuzz_format fuzz_idx, fuzz_cifar, fuzz_model_file, fuzz_state_file, fuzz_tokens,
    fuzz_trainer_state, fuzz_options, fuzz_report, fuzz_policy, fuzz_formula, fuzz_tokenizer,
    fuzz_tokenizer_model, fuzz_tokenizer_gguf, fuzz_language_model, fuzz_chat, fuzz_pictures;

/* The path of file `which` (0 or 1), which now holds these bytes. */
const char *fuzz_file(int which, const void *data, size_t bytes);

/* Of all that lies on the device `cpu`, which is plain memory here. */
uint64_t fuzz_memory_hash(void);

/* Hands over the data, compressed. `prefix` bytes at its beginning stay as they are. */
void fuzz_take_gzip(fuzz_take take, const uint8_t *data, size_t bytes, size_t prefix);

/* A failing check ends the program as a bug does. */
#define FUZZ_CHECK(condition)           \
  do {                                  \
    if (!(condition)) __builtin_trap(); \
  } while (0)

/* A parser that fails has one sentence to say. */
void fuzz_check_sentence(void);

#endif
