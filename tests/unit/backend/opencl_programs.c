/* The cache of compiled programs: if a file does not hold the program of its name, the program is
 * compiled from source and the file is written again. */
#include "support/files.h"

#include "support/devices.h"

#include "backend/device.h"
#include "core/hash.h"
#include "ops/description.h"

#include <dirent.h>

typedef struct header {
  char magic[8];
  uint64_t key, length, checksum;
} header;

static ac_status prepare(ac_device *device, ac_op op) {
  ac_op_args args;
  ac_op_sample_arguments(&args, op, AC_F32, 0);
  return device->backend->prepare(device->state, &args);
}

/* The file of the program NAME.cl. */
static test_path file_of(const char *name) {
  DIR *folder = opendir(in_folder("programs").text);
  assert_non_null(folder);
  test_path found = {""};
  for (struct dirent *entry; (entry = readdir(folder));) {
    const size_t length = strlen(name);
    if (!strncmp(entry->d_name, name, length) && entry->d_name[length] == '-')
      snprintf(found.text, sizeof found.text, "%.200s/programs/%.200s", test_folder, entry->d_name);
  }
  closedir(folder);
  assert_string_not_equal(found.text, "");
  return found;
}

/* relu's file with softmax's program, and all that a file is checked by. */
static void swap_programs(const char *path, const char *other) {
  size_t own_bytes, bytes;
  unsigned char *own = read_file(path, &own_bytes), *foreign = read_file(other, &bytes);
  header of_own, of_foreign;
  memcpy(&of_own, own, sizeof of_own);
  memcpy(&of_foreign, foreign, sizeof of_foreign);
  of_foreign.key = of_own.key;
  of_foreign.checksum = ac_hash(of_own.key, foreign + sizeof(header), bytes - sizeof(header));
  memcpy(foreign, &of_foreign, sizeof of_foreign);
  write_file(path, foreign, bytes);
  free(own);
  free(foreign);
}

static void a_program_without_the_kernel_is_compiled(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  assert_ok(prepare(device, AC_OP_dropout));
  assert_ok(prepare(device, AC_OP_softmax));
  ac_device_close(device);
  const test_path path = file_of("dropout"), other = file_of("softmax");
  size_t bytes, now;
  unsigned char *good = read_file(path.text, &bytes);
  swap_programs(path.text, other.text);
  device = open_opencl("opencl");
  assert_ok(prepare(device, AC_OP_dropout));
  assert_string_equal(ac_last_error(), "");
  ac_device_close(device);
  unsigned char *again = read_file(path.text, &now);
  assert_int_equal(((header *)again)->key, ((header *)good)->key);
  assert_true(now != bytes ||
              ((header *)again)->checksum ==
                  ac_hash(((header *)good)->key, again + sizeof(header), now - sizeof(header)));
  device = open_opencl("opencl");
  assert_ok(prepare(device, AC_OP_dropout));
  ac_device_close(device);
  free(good);
  free(again);
}

static int set_up(void **state) {
  if (make_test_folder(state)) return -1;
  setenv("ACCRUE_CACHE_DIR", test_folder, 1);
  return setenv("ACCRUE_PROGRAM_CACHE", "1", 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_without_the_kernel_is_compiled)};
  return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
