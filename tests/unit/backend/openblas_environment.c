/* The first CPU device sets environment variables for OpenBLAS, for the moment in which it is
 * loaded. setenv, unsetenv and putenv may move and free the list that another thread is reading,
 * such as an OpenCL driver in its first use, so none is called; and afterwards all is as it was. */
#include "support/check.h"

#include <accrue/device.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/platform/process.h"

extern char **environ;
static int changes;

/* In the place of libc's. */
int setenv(const char *name, const char *value, int overwrite) {
  (void)name, (void)value, (void)overwrite;
  changes++;
  return 0;
}
int unsetenv(const char *name) {
  (void)name;
  changes++;
  return 0;
}
int putenv(char *text) {
  (void)text;
  changes++;
  return 0;
}

static int count_variables(void) {
  int count = 0;
  while (environ[count]) count++;
  return count;
}

static void opening_leaves_the_environment_alone(void **state) {
  (void)state;
  char **const before = environ;
  const int count = count_variables();
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_non_null(strstr(ac_device_get_info(device)->driver, "OpenBLAS "));
  ac_device_close(device);
  assert_int_equal(changes, 0);
  assert_ptr_equal(environ, before);
  assert_int_equal(count_variables(), count);
}

static void variables_are_set_for_a_while(void **state) {
  (void)state;
  static const char *const settings[] = {"ACCRUE_TEST_A=1", "PATH=/dev/null", "ACCRUE_TEST_B="};
  static char *own[] = {"ACCRUE_TEST_A=0", "ACCRUE_TEST_AB=2", "PATH=/bin", NULL};
  char **const before = environ;
  ac_variables variables;
  environ = own;
  assert_true(ac_variables_begin(&variables, settings, 3));
  assert_string_equal(getenv("ACCRUE_TEST_A"), "1");
  assert_string_equal(getenv("ACCRUE_TEST_AB"), "2");
  assert_string_equal(getenv("PATH"), "/dev/null");
  assert_string_equal(getenv("ACCRUE_TEST_B"), "");
  ac_variables_end(&variables);
  assert_ptr_equal(environ, own);
  assert_string_equal(getenv("ACCRUE_TEST_A"), "0");
  assert_string_equal(getenv("PATH"), "/bin");
  assert_null(getenv("ACCRUE_TEST_B"));
  assert_int_equal(changes, 0);

  /* Where somebody else has set a variable meanwhile theirs stays, and each of ours is changed
   * back. */
  static char *others[] = {"ACCRUE_TEST_C=3", NULL};
  assert_true(ac_variables_begin(&variables, settings, 3));
  environ = others;
  ac_variables_end(&variables);
  assert_ptr_equal(environ, others);
  assert_int_equal(changes, 3);
  environ = before;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening_leaves_the_environment_alone), /* the first to open a device */
      cmocka_unit_test(variables_are_set_for_a_while),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
