/* test_ops [--list] [--reduced] [--devices-only] [--drawn N] [FAMILY...]: the references against
 * each other and against PyTorch's results, then every device against the references, then the
 * devices side by side. --devices-only leaves out the first, which is the same wherever devices
 * run, and --drawn says how many cases are drawn. ACCRUE_TEST_DEVICES restricts the devices
 * ("cpu,opencl:0"). */
#include "driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_DEVICES = 8, MOST_TESTS = 1 + 4 * MOST_DEVICES };

typedef struct test_state {
  const op_family *family;
  ac_device *device, *first;
} test_state;

static bool devices_only;

/* A run that fails somewhere goes on, so that one report names all that is wrong. */
static void end(void) {
  if (op_failures) fail_msg("%d values or conditions are wrong", op_failures);
}

static void test_reference(void **state) {
  const test_state *test = *state;
  op_failures = 0;
  op_check_reference(test->family);
  if (test->family->from_vector) op_check_vectors(test->family, NULL);
  if (test->family->special_host) test->family->special_host();
  end();
}

static void test_cases(void **state) {
  const test_state *test = *state;
  op_failures = 0;
  op_check_cases(test->family, test->device);
  end();
}

static void test_vectors(void **state) {
  const test_state *test = *state;
  op_failures = 0;
  op_check_vectors(test->family, test->device);
  end();
}

static void test_special(void **state) {
  const test_state *test = *state;
  op_failures = 0;
  test->family->special(test->device);
  end();
}

static void test_pair(void **state) {
  const test_state *test = *state;
  op_failures = 0;
  op_check_pair(test->family, test->first, test->device);
  end();
}

static bool wanted(const char *id) {
  const char *list = getenv("ACCRUE_TEST_DEVICES");
  if (!list || !*list) return true;
  size_t length = strlen(id);
  for (const char *at = list; (at = strstr(at, id)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length])) return true;
  return false;
}

static int open_devices(ac_device **devices) {
  ac_device_info info[MOST_DEVICES + 2];
  int listed = 0, opened = 0, accelerators = 0;
  if (ac_device_list(info, MOST_DEVICES + 2, &listed) != AC_OK) {
    fprintf(stderr, "%s\n", ac_last_error());
    return -1;
  }
  for (int i = 0; i < listed && i < MOST_DEVICES + 2 && opened < MOST_DEVICES; i++) {
    if (!wanted(info[i].id)) continue;
    ac_device_desc desc = {.name = info[i].id};
    if (ac_device_open(&devices[opened], &desc) != AC_OK) {
      fprintf(stderr, "%s: %s\n", info[i].id, ac_last_error());
      return -1;
    }
    fprintf(stderr, "%s: %s, %s\n", info[i].id, info[i].name, info[i].driver);
    accelerators += !devices[opened]->backend->is_host;
    opened++;
  }
  if (!accelerators) fprintf(stderr, "No OpenCL device: its tests are skipped.\n");
  return opened;
}

static int run_family(const op_family *family, ac_device **devices, int device_count) {
  static char names[MOST_TESTS][96];
  struct CMUnitTest tests[MOST_TESTS];
  test_state states[MOST_DEVICES + 1];
  memset(tests, 0, sizeof tests);
  int count = 0;
#define ADD_TEST(function, state_, ...)                                             \
  do {                                                                              \
    snprintf(names[count], sizeof names[count], __VA_ARGS__);                       \
    tests[count] = (struct CMUnitTest){names[count], function, NULL, NULL, state_}; \
    count++;                                                                        \
  } while (0)
  states[MOST_DEVICES] = (test_state){.family = family};
  if (!op_reduced && !devices_only)
    ADD_TEST(test_reference, &states[MOST_DEVICES], "%s: reference", family->name);
  for (int d = 0; d < device_count; d++) {
    const char *id = devices[d]->info.id;
    states[d] = (test_state){family, devices[d], devices[0]};
    ADD_TEST(test_cases, &states[d], "%s on %s: cases", family->name, id);
    if (family->from_vector && !op_reduced)
      ADD_TEST(test_vectors, &states[d], "%s on %s: vectors", family->name, id);
    if (family->special) ADD_TEST(test_special, &states[d], "%s on %s: special", family->name, id);
    if (d > 0 && !op_reduced)
      ADD_TEST(test_pair, &states[d], "%s: %s against %s", family->name, id, devices[0]->info.id);
  }
  return cmocka_run_group_tests_name(family->name, tests, NULL, NULL);
}

int main(int argc, char **argv) {
  static const op_family *const families[] = {
#define FAMILY(folder, name) &op_family_##name,
      AC_OP_FAMILY_LIST(FAMILY)
#undef FAMILY
  };
  int family_count = sizeof families / sizeof *families, failed = 0, named = 0, ran = 0;
  ac_device *devices[MOST_DEVICES] = {NULL};
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (int f = 0; f < family_count; f++) puts(families[f]->name);
    return 0;
  }
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--reduced") == 0) op_reduced = true;
    else if (strcmp(argv[i], "--devices-only") == 0) devices_only = true;
    else if (strcmp(argv[i], "--drawn") == 0 && i + 1 < argc) op_drawn = atoi(argv[++i]);
    else named++;
  int device_count = open_devices(devices);
  if (device_count < 0) return 1;
  for (int f = 0; f < family_count; f++) {
    bool chosen = named == 0;
    for (int i = 1; i < argc; i++) chosen |= strcmp(argv[i], families[f]->name) == 0;
    if (!chosen) continue;
    failed += run_family(families[f], devices, device_count) != 0;
    ran++;
  }
  for (int d = 0; d < device_count; d++) ac_device_close(devices[d]);
  if (ran < named) fprintf(stderr, "No such family of ops.\n");
  return failed || ran < (named ? named : 1);
}
