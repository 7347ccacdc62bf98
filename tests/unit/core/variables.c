/* Environment variables for devices: a value that is not allowed is refused, and the message lists
 * the allowed ones. */
#include "support/check.h"

#include <stdlib.h>

static ac_status open_with(const char *name, const char *value) {
  ac_device *device;
  assert_int_equal(setenv(name, value, true), 0);
  const ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "cpu"});
  unsetenv(name);
  ac_device_close(device);
  return status;
}

static void wrong_values_are_refused(void **state) {
  (void)state;
  static const char *const wrong[][3] = {
      {"ACCRUE_ISA", "foo", "base v3 v4 sve256 sve512"},
      {"ACCRUE_ISA", "base v3", "base v3"},
      {"ACCRUE_ISA", "v", "v3"},
      {"ACCRUE_PRODUCTS", "tile", "tiles"},
      {"ACCRUE_PRODUCTS", "amx", "widened"},
      {"ACCRUE_CPU_STREAM", "abc", "a whole number"},
      {"ACCRUE_CPU_SERIAL", "-1", "a whole number"},
      {"ACCRUE_CLBLAST", "2", "0 1"},
      {"ACCRUE_TUNE", "maybe", "0 1"},
      {"ACCRUE_OPENCL_CPU", "no", "0 1"},
      {"ACCRUE_OPENCL_ITEMS", "1e6", "a whole number"},
      {"ACCRUE_OWN_MEMORY", "2", "0 1"},
      {"ACCRUE_PROGRAM_CACHE", "yes", "0 1"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(open_with(wrong[i][0], wrong[i][1]), AC_ERROR_ARGUMENT);
    for (int part = 0; part < 3; part++)
      if (!strstr(ac_last_error(), wrong[i][part])) fail_msg("%s", ac_last_error());
  }
}

static void right_values_are_taken(void **state) {
  (void)state;
  static const char *const right[][2] = {
      {"ACCRUE_ISA", "base"},       {"ACCRUE_ISA", "v4"},          {"ACCRUE_ISA", ""},
      {"ACCRUE_PRODUCTS", "tiles"}, {"ACCRUE_PRODUCTS", "mma"},    {"ACCRUE_PRODUCTS", "widened"},
      {"ACCRUE_CPU_STREAM", "1"},   {"ACCRUE_CPU_SERIAL", "0"},    {"ACCRUE_CLBLAST", "1"},
      {"ACCRUE_TUNE", "0"},         {"ACCRUE_OPENCL_ITEMS", "99"}, {"ACCRUE_OWN_MEMORY", ""},
  };
  for (size_t i = 0; i < sizeof right / sizeof *right; i++)
    assert_ok(open_with(right[i][0], right[i][1]));
}

/* Kernels would write beyond a smaller stack. A device of one thread starts no others. */
static void small_stacks_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *value;
    bool taken;
  } sizes[] = {{"16K", false},     {"64k", false},     {"127", false}, {" 64 K ", false},
               {"1B", false},      {"131071B", false}, {"128K", true}, {"128", true},
               {"131072B", true},  {"1M", true},       {"1 G ", true}, {"99999999999999999G", true},
               {"8 apples", true}, /* which OpenMP does not take either */
               {"K", true},        {"", true}};
  static const char *const names[] = {"GOMP_STACKSIZE", "OMP_STACKSIZE"};
  unsetenv("OMP_STACKSIZE");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int n = 0; n < 2; n++)
      for (int threads = 1; threads <= 2; threads++) {
        ac_device *device;
        setenv(names[n], sizes[i].value, true);
        const ac_status status =
            ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = threads});
        unsetenv(names[n]);
        const bool taken = sizes[i].taken || threads == 1;
        if (status != (taken ? AC_OK : AC_ERROR_ARGUMENT))
          fail_msg("%s=%s with %d threads: %s", names[n], sizes[i].value, threads,
                   ac_status_name(status));
        if (!taken) assert_contains(ac_last_error(), names[n]);
        ac_device_close(device);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_values_are_refused),
      cmocka_unit_test(right_values_are_taken),
      cmocka_unit_test(small_stacks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
