/* How much memory a process may have, by control groups as Linux's documentation of cgroups
 * (cgroups(7), memory.max, memory.limit_in_bytes) and of mountinfo (proc(5)) describes them: in a
 * tree of files that replaces /proc and /sys. And by the limits of the process itself. */
#include "support/files.h"

#include <sys/resource.h>

#include "core/platform/memory.h"

#define MOUNT_V2(root, mount) \
  "30 23 0:26 " root " " mount " rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define MOUNT_V1(root, mount) "35 31 0:32 " root " " mount " rw - cgroup cgroup rw,memory\n"
#define OTHERS                                                                             \
  "21 1 8:1 / / rw shared:1 - ext4 /dev/root rw\n"                                         \
  "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:7 master:2 - cgroup cgroup rw,cpu\n" \
  "36 31 0:33 / /sys/fs/cgroup/swap rw - cgroup cgroup rw,memory_of_another_name\n"

static void put(const char *path, const char *text) {
  char whole[1024];
  snprintf(whole, sizeof whole, "%s%s", test_folder, path);
  for (char *slash = whole + strlen(test_folder) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(whole, 0777);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* Each in a tree of its own. */
static void begin(const char *mounts, const char *groups) {
  if (test_folder[0]) remove_test_folder(NULL);
  assert_int_equal(make_test_folder(NULL), 0);
  put("/proc/self/mountinfo", mounts);
  put("/proc/self/cgroup", groups);
}

static void assert_limit(uint64_t expected) {
  assert_int_equal(ac_group_memory(test_folder), expected);
}

static void the_least_on_the_way_up_holds(void **state) {
  (void)state;
  begin(OTHERS MOUNT_V2("/", "/sys/fs/cgroup"), "0::/user.slice/job.scope\n");
  assert_limit(UINT64_MAX);
  put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
  assert_limit(UINT64_MAX);
  put("/sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
  assert_limit(2147483648);
  put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "1073741824\n");
  assert_limit(1073741824);
  put("/sys/fs/cgroup/memory.max", "4096\n");
  assert_limit(4096);
  /* Of a group that does not contain this one. */
  put("/sys/fs/cgroup/user.slice/other.scope/memory.max", "1\n");
  put("/sys/fs/memory.max", "2\n");
  assert_limit(4096);
}

/* The container's own group is mounted as the root, whether it is told of the path on the host or,
 * with a namespace of its own, of none. */
static void a_container_sees_its_own_group(void **state) {
  (void)state;
  static const char *const groups[] = {"0::/\n", "0::/system.slice/docker-1.scope\n",
                                       "0::/../other\n"};
  static const char *const mounts[] = {MOUNT_V2("/", "/sys/fs/cgroup"),
                                       MOUNT_V2("/system.slice/docker-1.scope", "/sys/fs/cgroup"),
                                       MOUNT_V2("/..", "/sys/fs/cgroup")};
  for (int g = 0; g < 3; g++)
    for (int m = 0; m < 3; m++) {
      begin(mounts[m], groups[g]);
      put("/sys/fs/cgroup/memory.max", "536870912\n");
      assert_limit(536870912);
    }
  begin(mounts[1], "0::/system.slice/docker-1.scope/inner\n");
  put("/sys/fs/cgroup/memory.max", "536870912\n");
  put("/sys/fs/cgroup/inner/memory.max", "65536\n");
  assert_limit(65536);
  /* A group with a name that only begins like the mounted one's is not within it. */
  begin(mounts[1], "0::/system.slice/docker-1.scope2\n");
  put("/sys/fs/cgroup/2/memory.max", "65536\n");
  assert_limit(UINT64_MAX);
}

static void version_1_has_a_hierarchy_for_memory(void **state) {
  (void)state;
  const char *groups = "9:name=systemd:/x\n4:cpu,memory:/jobs/1\n1:cpu:/y\n0::/jobs/2\n";
  begin(OTHERS MOUNT_V1("/", "/sys/fs/cgroup/memory") MOUNT_V2("/", "/sys/fs/cgroup/unified"),
        groups);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  assert_limit(9223372036854771712u);
  put("/sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes", "268435456\n");
  put("/sys/fs/cgroup/memory/jobs/2/memory.limit_in_bytes", "1\n");
  put("/sys/fs/cgroup/swap/memory.limit_in_bytes", "2\n");
  assert_limit(268435456);
  /* Both versions count. */
  put("/sys/fs/cgroup/unified/jobs/2/memory.max", "134217728\n");
  assert_limit(134217728);
}

static void what_makes_no_sense_is_no_limit(void **state) {
  (void)state;
  static const char *const texts[] = {"", "max", "-", "0\n", "none\n"};
  for (int i = 0; i < 5; i++) {
    begin(MOUNT_V2("/", "/sys/fs/cgroup"), "0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", texts[i]);
    assert_limit(UINT64_MAX);
  }
  begin("", "");
  assert_limit(UINT64_MAX);
  begin("30\n - cgroup2\nx y z - cgroup2 a b\n", "0:\n::\nnonsense");
  assert_limit(UINT64_MAX);
  assert_int_equal(ac_group_memory("/dev/null/none"), UINT64_MAX);
}

static uint64_t mapped(void) {
  unsigned long long pages;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%llu", &pages), 1);
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t within(uint64_t bytes, const struct rlimit *old) {
  const struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = old->rlim_max};
  if (setrlimit(RLIMIT_AS, &limit) != 0) skip();
  const uint64_t memory = ac_physical_memory();
  assert_int_equal(setrlimit(RLIMIT_AS, old), 0);
  return memory;
}

/* What `ulimit -v` leaves, and never more than without it. */
static void own_limits_count(void **state) {
  (void)state;
  const uint64_t before = ac_physical_memory(), left = 64 << 20;
  struct rlimit old;
  assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
  assert_int_equal(within((uint64_t)1 << 50, &old), before);
  /* A little is mapped meanwhile. */
  assert_in_range(within(mapped() + left, &old), left / 2, left);
#ifndef __SANITIZE_ADDRESS__ /* which must map more */
  assert_in_range(within(1 << 20, &old), 1, 1 << 20);
#endif
  assert_int_equal(ac_physical_memory(), before);
}

/* What is mapped, and so not left by a limit, is not taken off once more for being resident. */
static void data_may_have_most_of_what_limits_leave(void **state) {
  (void)state;
  enum { MIB = 1 << 20, HELD = 64 * MIB, LEFT = 256 * MIB };
  struct rlimit old, limit;
  unsigned long long pages = 0;
  char *held = malloc(HELD);
  assert_non_null(held);
  memset(held, 1, HELD);
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%llu", &pages), 1);
  fclose(file);
  assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
  limit = old;
  limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + LEFT;
  if (limit.rlim_cur > old.rlim_cur || setrlimit(RLIMIT_AS, &limit) != 0) skip();
  const uint64_t left = ac_memory_left();
  assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
  assert_in_range(left, LEFT / 4 * 3 - 8 * MIB, LEFT / 4 * 3 + MIB);
  assert_int_equal(held[HELD - 1], 1);
  free(held);
}

static int remove_tree(void **state) {
  return test_folder[0] ? remove_test_folder(state) : 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_least_on_the_way_up_holds),
      cmocka_unit_test(a_container_sees_its_own_group),
      cmocka_unit_test(version_1_has_a_hierarchy_for_memory),
      cmocka_unit_test(what_makes_no_sense_is_no_limit),
      cmocka_unit_test(own_limits_count),
      cmocka_unit_test(data_may_have_most_of_what_limits_leave),
  };
  return cmocka_run_group_tests(tests, NULL, remove_tree);
}
