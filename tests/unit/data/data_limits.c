/* Data that would fill the machine's memory: endless, sparse, and compressed a thousandfold. Each
 * is refused with a sentence before more than the limit is read. */
#include "support/files.h"

#include <accrue/dataset.h>
#include <zlib.h>

enum { MOST = 24 << 20, UNZIPPED = 96 << 20 };

/* The machine has so much less memory that MOST bytes are left when a test begins. */
uint64_t __real_ac_memory_left(void);
uint64_t __wrap_ac_memory_left(void);
static uint64_t reserved, least = UINT64_MAX;

uint64_t __wrap_ac_memory_left(void) {
  const uint64_t real = __real_ac_memory_left(), left = real > reserved ? real - reserved : 0;
  if (left < least) least = left;
  return left;
}

static int begin(void **state) {
  (void)state;
  reserved = __real_ac_memory_left() - MOST;
  least = MOST;
  return 0;
}

static void assert_too_large(ac_status status, const char *name) {
  assert_refused(status, AC_ERROR_MEMORY, "is too large: this machine has");
  assert_non_null(strstr(ac_last_error(), name));
}

static void endless_data_are_refused(void **state) {
  (void)state;
  ac_tokens *tokens;
  ac_dataset *dataset;
  assert_too_large(ac_tokens_from_text(&tokens, "/dev/zero", 0), "/dev/zero");
  begin(state);
  assert_too_large(ac_tokens_from_uint16(&tokens, "/dev/zero", 9), "/dev/zero");
  begin(state);
  assert_too_large(ac_dataset_from_cifar10(&dataset, "/dev/zero", 0, -1), "/dev/zero");
}

/* Refused by its size, before anything of it is read. */
static void sparse_files_are_refused(void **state) {
  (void)state;
  ac_tokens *tokens;
  const test_path path = in_folder("sparse");
  write_file(path.text, "x", 1);
  if (truncate(path.text, (off_t)1 << 43) != 0) skip();
  assert_too_large(ac_tokens_from_text(&tokens, path.text, 0), "sparse");
  assert_true(least > MOST / 2);
  assert_too_large(ac_tokens_from_uint16(&tokens, path.text, 9), "sparse");
  assert_true(least > MOST / 2);
  ac_dataset *dataset;
  assert_too_large(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), "sparse");
  assert_true(least > MOST / 2);
  /* Where less is asked for, less is read. */
  assert_ok(ac_tokens_from_bytes(&tokens, path.text, 1000, NULL, NULL));
  assert_int_equal(ac_tokens_count(tokens), 1000);
  ac_tokens_free(tokens);
}

static void write_bomb(const char *path, const void *start, unsigned bytes) {
  static unsigned char zeros[1 << 20];
  gzFile file = gzopen(path, "wb1");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, start, bytes), bytes);
  for (int i = 0; i < UNZIPPED >> 20; i++)
    assert_int_equal(gzwrite(file, zeros, sizeof zeros), sizeof zeros);
  assert_int_equal(gzclose(file), Z_OK);
}

static void bombs_are_refused(void **state) {
  (void)state;
  ac_tokens *tokens;
  ac_dataset *dataset;
  const test_path path = in_folder("bomb.gz"), labels = in_folder("labels");
  write_file(labels.text, "\0\0\x08\1\0\0\0\1\0", 9);
  write_bomb(path.text, "text", 4);
  assert_too_large(ac_tokens_from_text(&tokens, path.text, 0), "bomb.gz");
  begin(state);
  assert_too_large(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), "bomb.gz");
  begin(state);
  write_bomb(path.text, "\0\0\x08\3\0\0\0\x60\0\0\4\0\0\0\4\0", 16); /* 96 of 1024 x 1024 */
  assert_too_large(ac_dataset_from_idx(&dataset, path.text, labels.text, 0, -1), "bomb.gz");
}

/* The same files, where there is room. */
static void what_fits_is_read(void **state) {
  (void)state;
  ac_tokens *tokens;
  reserved = 0;
  assert_ok(ac_tokens_from_bytes(&tokens, "/dev/zero", 1 << 20, NULL, NULL));
  assert_int_equal(ac_tokens_count(tokens), 1 << 20);
  ac_tokens_free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(endless_data_are_refused, begin),
      cmocka_unit_test_setup(sparse_files_are_refused, begin),
      cmocka_unit_test_setup(bombs_are_refused, begin),
      cmocka_unit_test(what_fits_is_read),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
