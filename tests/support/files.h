/* A temporary folder and whole files, for tests that read and write. */
#ifndef AC_TESTS_FILES_H
#define AC_TESTS_FILES_H

#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char test_folder[256];

int make_test_folder(void **state);
int remove_test_folder(void **state);

typedef struct test_path {
  char text[512];
} test_path;

test_path in_folder(const char *name);
void write_file(const char *path, const void *data, size_t bytes);
void write_gzip(const char *path, const void *data, size_t bytes);

/* The whole file; free it. */
unsigned char *read_file(const char *path, size_t *bytes);

/* A fixed sequence for tests that damage files. */
uint32_t next_random(uint64_t *state);

#endif
