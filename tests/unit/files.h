/* A temporary folder and whole files, for tests that read and write. */
#ifndef TESTS_UNIT_FILES_H
#define TESTS_UNIT_FILES_H

#define _XOPEN_SOURCE 700 /* nftw; so this header comes first */

#include "check.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char test_folder[256];

static inline int make_test_folder(void **state) {
  (void)state;
  const char *base = getenv("TMPDIR");
  snprintf(test_folder, sizeof test_folder, "%.200s/accrue-test-XXXXXX",
           base && *base ? base : "/tmp");
  return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *walk) {
  (void)info, (void)type, (void)walk;
  return remove(path);
}

static inline int remove_test_folder(void **state) {
  (void)state;
  return nftw(test_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

typedef struct test_path {
  char text[512];
} test_path;

static inline test_path in_folder(const char *name) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/%s", test_folder, name);
  return path;
}

static inline void write_file(const char *path, const void *data, size_t bytes) {
  FILE *stream = fopen(path, "wb");
  assert_non_null(stream);
  assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
  assert_int_equal(fclose(stream), 0);
}

/* The whole file; free it. */
static inline unsigned char *read_file(const char *path, size_t *bytes) {
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  assert_int_equal(fseek(stream, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(stream);
  rewind(stream);
  unsigned char *data = malloc(*bytes + 1);
  assert_non_null(data);
  assert_int_equal(fread(data, 1, *bytes, stream), *bytes);
  fclose(stream);
  return data;
}

/* Checks the status and that the last error mentions what a user would look for. */
static inline void assert_fails(ac_status got, ac_status expected, const char *mention) {
  if (got != expected || !strstr(ac_last_error(), mention))
    print_error("%s «%s», expected %s and «%s»\n", ac_status_name(got), ac_last_error(),
                ac_status_name(expected), mention);
  assert_int_equal(got, expected);
  assert_non_null(strstr(ac_last_error(), mention));
  assert_null(strchr(ac_last_error(), '\n'));
}

/* A fixed sequence for tests that damage files. */
static inline uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

#endif
