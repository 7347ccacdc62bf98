/* What Pillow makes of the pictures in tests/vectors/pictures (tests/vectors/pictures.py). */
#ifndef AC_TESTS_PICTURE_RESULTS_H
#define AC_TESTS_PICTURE_RESULTS_H

#include "support/files.h"

#include <accrue/model_file.h>

#define VECTORS ACCRUE_TEST_VECTORS

extern ac_model_file *expected_pictures;

/* For groups of tests; they also make and remove the test folder. */
int open_expected(void **state);
int close_expected(void **state);

/* A frozen result; free its values. */
typedef struct result {
  int64_t height, width, count;
  float *values;
} result;

result find_result(const char *name);
/* A file of the vectors; free it. */
unsigned char *read_vector(const char *name, size_t *bytes);
/* Equal; of a JPEG nearly so. */
void compare_pixels(const char *name, const result *r, const uint8_t *pixels);

#endif
