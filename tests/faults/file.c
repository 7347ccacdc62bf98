/* A file of several blocks is written completely or not at all, in pieces that do not fit its
 * blocks, while the first, the second, ... call fails until all pass. */
#include "support/files.h"

#include "core/platform/atomic_file.h"
#include "faults.h"

#include <dirent.h>

enum { BYTES = 2500001, PIECE = 300007, AGAIN_AT = 13, AGAIN = 5000 };

static unsigned char *before, *expected;
static test_path path;

static int begin(void **state) {
  if (make_test_folder(state) != 0) return -1;
  path = in_folder("file");
  before = malloc(BYTES);
  expected = malloc(BYTES);
  uint64_t random = 1;
  for (int i = 0; i < BYTES; i++) before[i] = (unsigned char)next_random(&random);
  memcpy(expected, before, BYTES);
  for (int i = 0; i < AGAIN; i++) expected[AGAIN_AT + i] ^= 0x55;
  return 0;
}

static int end(void **state) {
  free(before);
  free(expected);
  return remove_test_folder(state);
}

/* Closes the file in any case. */
static ac_status write_whole(void) {
  ac_atomic_file file;
  ac_status status = ac_atomic_open(&file, path.text);
  if (status != AC_OK) return status;
  for (int at = 0; at < BYTES && status == AC_OK; at += PIECE)
    status = ac_atomic_write(&file, before + at, (size_t)(BYTES - at < PIECE ? BYTES - at : PIECE));
  if (status == AC_OK) status = ac_atomic_write_again(&file, AGAIN_AT, expected + AGAIN_AT, AGAIN);
  if (status == AC_OK) return ac_atomic_commit(&file);
  ac_atomic_abandon(&file);
  return status;
}

static void check(const char *fault, ac_status status) {
  size_t size;
  unsigned char *found = read_file(path.text, &size);
  const bool is_new = size == BYTES && !memcmp(found, expected, BYTES);
  const bool is_old = size == 3 && !memcmp(found, "old", 3);
  free(found);
  if (status == AC_OK ? !is_new : !is_old)
    fail_msg("%s: %s, and the file is not the %s one", fault, ac_status_name(status),
             status == AC_OK ? "new" : "old");
}

/* The number of calls that were refused, of `*calls`. */
static int refused_with(const char *kind, long *calls) {
  for (int k = 1, refused = 0;; k++) {
    char fault[40];
    snprintf(fault, sizeof fault, "file:%d:%s", k, kind);
    write_file(path.text, "old", 3);
    assert_true(faults_arm(fault, NULL));
    const ac_status status = write_whole();
    *calls = faults_calls();
    faults_pause(true);
    check(fault, status);
    if (*calls < k) return refused;
    refused += status != AC_OK;
  }
}

static void stays_old_or_becomes_new(void **state) {
  (void)state;
  long calls;
  /* Open, 4 blocks and a part of them again, sync, close, rename; not the folder's three. */
  assert_in_range(refused_with("EIO", &calls), 9, 10);
  assert_in_range(calls, 12, 13); /* once more where blocks past the cache are refused */
}

static void goes_on_after_a_part(void **state) {
  (void)state;
  long calls;
  assert_int_equal(refused_with("short", &calls), 0);
  assert_int_equal(refused_with("EINTR", &calls), 4);
}

static bool has_a_way_past_the_cache(void) {
  ac_atomic_file file;
  assert_ok(ac_atomic_open(&file, path.text));
  for (int at = 0; at < BYTES; at += PIECE) /* a block, and the end of it stays unwritten */
    if (at + PIECE < BYTES) assert_ok(ac_atomic_write(&file, before, PIECE));
  const bool direct = file.direct;
  ac_atomic_abandon(&file);
  return direct;
}

/* Where the file system takes the wish for blocks past its cache and then refuses them, they go
 * through it. What is refused there as well is an error. */
static void goes_through_the_cache_where_it_must(void **state) {
  (void)state;
  long calls;
  const bool direct = has_a_way_past_the_cache();
  const int refused = refused_with("EINVAL", &calls);
  if (direct) assert_int_equal(refused, 6);
  else assert_in_range(refused, 6, 10);
}

/* A caller that goes on after a write that failed does not get a file with a hole. */
static void a_failure_stays(void **state) {
  (void)state;
  ac_atomic_file file;
  write_file(path.text, "old", 3);
  assert_ok(ac_atomic_open(&file, path.text));
  assert_true(faults_arm("file:1:EIO", NULL));
  ac_status status = AC_OK;
  for (int at = 0; at + PIECE < BYTES && status == AC_OK; at += PIECE)
    status = ac_atomic_write(&file, before + at, PIECE);
  faults_pause(true);
  assert_int_equal(status, AC_ERROR_IO);
  assert_int_equal(ac_atomic_commit(&file), AC_ERROR_IO);
  check("a failed write", AC_ERROR_IO);
}

/* ---- a GGUF file, of several blocks ------------------------------------------------------------
 */

static ac_status give_index(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user;
  for (int64_t i = 0; i < count; i++) ((float *)data)[i] = (float)(index + (first + i) % 97);
  return AC_OK;
}

static ac_status write_gguf(void) {
  static const ac_gguf_tensor tensors[] = {{"a", AC_GGML_F32, false, 2, {500, 512}},
                                           {"b", AC_GGML_Q8_0, false, 2, {1500, 512}}};
  static const char *const texts[] = {"one", "two"};
  static const ac_gguf_value values[] = {{"key", AC_GGUF_TEXT, true, 2, texts}};
  return ac_gguf_write(path.text, tensors, 2, values, 1, give_index, NULL);
}

static void a_gguf_file_stays_old_or_becomes_new(void **state) {
  (void)state;
  static const char *const kinds[] = {"EIO", "ENOSPC", "short"};
  size_t size, whole_size;
  assert_ok(write_gguf());
  unsigned char *whole = read_file(path.text, &whole_size);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int k = 1, refused = 0;; k++) {
      char fault[40];
      snprintf(fault, sizeof fault, "file:%d:%s", k, kinds[i]);
      write_file(path.text, "old", 3);
      assert_true(faults_arm(fault, NULL));
      const ac_status status = write_gguf();
      const long calls = faults_calls();
      faults_pause(true);
      unsigned char *found = read_file(path.text, &size);
      const bool is_new = size == whole_size && !memcmp(found, whole, size);
      free(found);
      if (status == AC_OK ? !is_new : size != 3)
        fail_msg("%s: %s, and the file is wrong", fault, ac_status_name(status));
      refused += status != AC_OK;
      if (calls >= k) continue;
      assert_true(i == 2 ? refused == 0 : refused > 5);
      break;
    }
  free(whole);
}

static int count_files(void) {
  int count = 0;
  DIR *folder = opendir(test_folder);
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void leaves_nothing_behind(void **state) {
  (void)state;
  assert_int_equal(count_files(), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stays_old_or_becomes_new),
      cmocka_unit_test(goes_on_after_a_part),
      cmocka_unit_test(goes_through_the_cache_where_it_must),
      cmocka_unit_test(a_failure_stays),
      cmocka_unit_test(a_gguf_file_stays_old_or_becomes_new),
      cmocka_unit_test(leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
