/* Files in the cache folder, and the hash in their names: neither may change, so that files of
 * other versions of the library are found. */
#include "support/files.h"

#include "core/platform/cache_file.h"
#include "core/error.h"
#include "core/hash.h"

/* From the list of results that FNV's authors give. */
static void test_hash(void **state) {
  (void)state;
  assert_true(ac_hash_text("") == 0xcbf29ce484222325u);
  assert_true(ac_hash_text("a") == 0xaf63dc4c8601ec8cu);
  assert_true(ac_hash_text("foobar") == 0x85944171f73967e8u);
  assert_true(ac_hash(ac_hash_text("foo"), "bar", 3) == ac_hash_text("foobar"));
}

static ac_cache_file file_in(const char *folder) {
  setenv("ACCRUE_CACHE_DIR", folder, 1);
  return ac_cache_file_of("things", "some-", 0x2a, ".bin");
}

static void test_contents(void **state) {
  (void)state;
  char data[8] = "";
  const ac_cache_file file = file_in(test_folder);
  assert_string_equal(file.path, in_folder("things/some-000000000000002a.bin").text);

  assert_int_equal(ac_cache_file_bytes(&file), 0);
  assert_false(ac_cache_file_read(&file, data, 0));
  ac_cache_file_write(&file, "abc", 3, "defg", 4);
  assert_int_equal(ac_cache_file_bytes(&file), 7);
  assert_true(ac_cache_file_read(&file, data, 7));
  assert_string_equal(data, "abcdefg");
  assert_false(ac_cache_file_read(&file, data, 6));
  assert_false(ac_cache_file_read(&file, data, 8));
  ac_cache_file_write(&file, "xy", 2, NULL, 0);
  assert_int_equal(ac_cache_file_bytes(&file), 2);
}

/* A folder that cannot be made is not a failure. */
static void test_no_folder(void **state) {
  (void)state;
  char data[1];
  write_file(in_folder("plain").text, "x", 1);
  const ac_cache_file file = file_in(in_folder("plain").text);
  assert_string_equal(file.path, "");
  ac_cache_file_write(&file, "abc", 3, NULL, 0);
  assert_int_equal(ac_cache_file_bytes(&file), 0);
  assert_false(ac_cache_file_read(&file, data, 1));
}

/* In a shared folder a file of somebody else's, or to which others can write, could be anything: a
 * program would be run. A pipe would be waited for. */
static void test_only_trusted_files(void **state) {
  (void)state;
  char data[3];
  const ac_cache_file file = file_in(test_folder);
  const mode_t before = umask(0);
  unlink(file.path);
  ac_cache_file_write(&file, "abc", 3, NULL, 0);
  umask(before);
  struct stat info;
  assert_int_equal(stat(file.path, &info), 0);
  assert_int_equal(info.st_mode & 022, 0);
  assert_true(ac_cache_file_read(&file, data, 3));

  static const mode_t shared[] = {0602, 0620, 0666};
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    assert_int_equal(chmod(file.path, shared[i]), 0);
    assert_int_equal(ac_cache_file_bytes(&file), 0);
    assert_false(ac_cache_file_read(&file, data, 3));
  }
  assert_int_equal(chmod(file.path, 0644), 0);
  assert_true(ac_cache_file_read(&file, data, 3));
  if (geteuid() == 0) { /* others cannot give files away, nor would root's be refused */
    assert_int_equal(chown(file.path, 65534, 65534), 0);
    assert_int_equal(ac_cache_file_bytes(&file), 0);
    assert_false(ac_cache_file_read(&file, data, 3));
  }
  assert_int_equal(unlink(file.path), 0);
  assert_int_equal(mkfifo(file.path, 0600), 0);
  assert_int_equal(ac_cache_file_bytes(&file), 0);
  assert_false(ac_cache_file_read(&file, data, 0));
  assert_int_equal(unlink(file.path), 0);
}

/* What a cache cannot do is not the caller's error. */
static void test_last_error_stays(void **state) {
  (void)state;
  const ac_cache_file file = file_in(test_folder);
  assert_int_equal(mkdir(file.path, 0700), 0); /* nothing can take its place */
  assert_int_equal(ac_fail(AC_ERROR_IO, "what was"), AC_ERROR_IO);
  ac_cache_file_write(&file, "abc", 3, NULL, 0);
  assert_string_equal(ac_last_error(), "what was");
  assert_int_equal(rmdir(file.path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hash),
      cmocka_unit_test(test_contents),
      cmocka_unit_test(test_only_trusted_files),
      cmocka_unit_test(test_last_error_stays),
      cmocka_unit_test(test_no_folder),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
