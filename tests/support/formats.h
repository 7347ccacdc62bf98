/* Small files of the formats that users may give as data or as a model, each as its specification
 * begins it. Tests check which readers read them and which refuse them by name. */
#ifndef AC_TESTS_FORMATS_H
#define AC_TESTS_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

/* The readers of a file. */
enum {
  READ_AS_TEXT = 1,
  READ_AS_TOKENS = 2,
  READ_AS_IDX_IMAGES = 4,
  READ_AS_IDX_LABELS = 8,
  READ_AS_CIFAR10 = 16,
  READ_AS_CIFAR100 = 32,
  READ_AS_MODEL = 64,
  READ_AS_JSON = 128,
  READERS = 8
};

typedef struct format_file {
  const char *name;
  const char *called; /* in refusals */
  int readers;
} format_file;

enum { FORMAT_FILES = 22, FORMAT_TOKENS = 4096 };
extern const format_file format_files[FORMAT_FILES];

/* Token i of the files of tokens: mostly small, as those of GPT-2 are, and below 50257. */
uint32_t format_token(int i);

/* All of them in a folder. */
bool formats_write(const char *folder);

#endif
