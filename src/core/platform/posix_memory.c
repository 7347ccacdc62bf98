/* POSIX. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "core/platform/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/integers.h"

void *ac_pages_allocate(size_t bytes) {
  void *memory =
      mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  if (bytes >= (size_t)4 << 20) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

void ac_pages_release(void *memory, size_t bytes) {
  if (memory) munmap(memory, bytes ? bytes : 1);
}

bool ac_pages_available(uint64_t bytes) {
  /* Smaller than the limit that a system may have for a single mapping. */
  enum { PIECE = 64 << 20 };
  const uint64_t count = bytes / PIECE + (bytes % PIECE != 0);
  if (count > INT_MAX) return false;
  void **taken = calloc((size_t)count + 1, sizeof *taken);
  uint64_t got = 0;
  while (taken && got < count && (taken[got] = ac_pages_allocate(PIECE))) got++;
  for (uint64_t i = 0; i < got; i++) ac_pages_release(taken[i], PIECE);
  free(taken);
  return got == count;
}

/* ---- how much memory this process may have ---------------------------------------------------
 *
 * The least of what the machine has, what its control groups allow, and what its own limits leave.
 * A limit of a control group (cgroup) holds for all groups below it, so those on the way from the
 * process's own group to the root of the hierarchy are read. /proc/self/cgroup says where the group
 * is, /proc/self/mountinfo where the hierarchy is mounted, and which part of it. In a container
 * only the process's own group may be mounted, and the path may be one that only the host knows.
 * Folders that do not exist are left out on the way up. */

/* Resident pages are the second number of /proc/self/statm. */
static uint64_t resident_memory(void) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
  fclose(file);
  const long size = sysconf(_SC_PAGESIZE);
  return size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

/* UINT64_MAX: there is no such file, or it does not have a number above 0 in it (for example
 * "max"). */
static uint64_t number_in_file(const char *path) {
  FILE *file = fopen(path, "re");
  unsigned long long number = 0;
  if (!file) return UINT64_MAX;
  bool read = fscanf(file, "%llu", &number) == 1 && number > 0;
  fclose(file);
  return read ? (uint64_t)number : UINT64_MAX;
}

/* Whether "a,b,c" has the item. */
static bool has_item(const char *list, size_t length, const char *item) {
  const size_t wanted = strlen(item);
  for (const char *end = list + length; list < end;) {
    const char *comma = memchr(list, ',', (size_t)(end - list));
    const size_t size = (size_t)((comma ? comma : end) - list);
    if (size == wanted && !memcmp(list, item, size)) return true;
    list += size + 1;
  }
  return false;
}

enum { LONGEST_PATH = 4096 };

typedef struct hierarchy {
  bool unified;             /* version 2 of control groups */
  char root[LONGEST_PATH];  /* the part of it that is mounted */
  char mount[LONGEST_PATH]; /* where */
} hierarchy;

/* A line of mountinfo, if it is of a hierarchy that can limit memory:
 * "31 23 0:28 /root /mount options [more] - cgroup source rw,memory". */
static bool read_mount(hierarchy *h, const char *line) {
  char type[16] = "", options[256] = "";
  const char *rest = strstr(line, " - ");
  if (!rest || sscanf(rest + 3, "%15s %*s %255s", type, options) < 1) return false;
  h->unified = !strcmp(type, "cgroup2");
  if (!h->unified && (strcmp(type, "cgroup") != 0 || !has_item(options, strlen(options), "memory")))
    return false;
  return sscanf(line, "%*s %*s %*s %4095s %4095s", h->root, h->mount) == 2;
}

/* The process's group in that hierarchy, from lines such as "0::/path" and "4:memory:/path". */
static bool find_group(const hierarchy *h, const char *under, char path[LONGEST_PATH]) {
  char file[LONGEST_PATH], line[LONGEST_PATH];
  snprintf(file, sizeof file, "%s/proc/self/cgroup", under);
  FILE *groups = fopen(file, "re");
  bool found = false;
  if (!groups) return false;
  while (!found && fgets(line, sizeof line, groups)) {
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    names++;
    found = h->unified ? names == group && !strncmp(line, "0:", 2)
                       : has_item(names, (size_t)(group - names), "memory");
    group[1 + strcspn(group + 1, "\n")] = 0;
    if (found) snprintf(path, LONGEST_PATH, "%s", group + 1);
  }
  fclose(groups);
  return found;
}

/* The group's path below the mount. */
static const char *below_mount(const hierarchy *h, const char *group) {
  const size_t root = strlen(h->root);
  if (strstr(group, "/..")) return ""; /* outside the part that this process may see */
  if (!strcmp(h->root, "/")) return strcmp(group, "/") != 0 ? group : "";
  return !strncmp(group, h->root, root) && (group[root] == '/' || !group[root]) ? group + root : "";
}

static uint64_t group_limit(const hierarchy *h, const char *under) {
  char group[LONGEST_PATH], folder[3 * LONGEST_PATH], file[3 * LONGEST_PATH + 32];
  uint64_t least = UINT64_MAX;
  if (!find_group(h, under, group)) return least;
  const size_t top = strlen(under) + strlen(h->mount);
  snprintf(folder, sizeof folder, "%s%s%s", under, h->mount, below_mount(h, group));
  for (;;) {
    snprintf(file, sizeof file, "%s/%s", folder,
             h->unified ? "memory.max" : "memory.limit_in_bytes");
    least = ac_smaller_bytes(least, number_in_file(file));
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < top) return least;
    *slash = 0;
  }
}

uint64_t ac_group_memory(const char *under) {
  enum { FIRST_LINE = 512 };
  char path[LONGEST_PATH], *line = malloc(FIRST_LINE);
  size_t room = FIRST_LINE;
  uint64_t least = UINT64_MAX;
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", under);
  FILE *mounts = fopen(path, "re");
  hierarchy *h = malloc(sizeof *h);
  while (mounts && h && line && getline(&line, &room, mounts) > 0)
    if (read_mount(h, line)) least = ac_smaller_bytes(least, group_limit(h, under));
  free(h);
  free(line);
  if (mounts) fclose(mounts);
  return least;
}

/* What `ulimit -v` and `ulimit -d` leave: less what is mapped already. */
static uint64_t own_limits(void) {
  unsigned long long all = 0, data = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%llu %*u %*u %*u %*u %llu", &all, &data) != 2) all = data = 0;
  if (file) fclose(file);
  const long page = sysconf(_SC_PAGESIZE);
  const struct {
    int resource;
    uint64_t used;
  } limits[] = {{RLIMIT_AS, all * (uint64_t)page}, {RLIMIT_DATA, data * (uint64_t)page}};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 2; i++) {
    struct rlimit limit;
    if (getrlimit(limits[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = ac_smaller_bytes(least,
                             limit.rlim_cur > limits[i].used ? limit.rlim_cur - limits[i].used : 1);
  }
  return least;
}

/* Memory of the machine and of control groups, including what the process has already; UINT64_MAX:
 * unknown. */
static uint64_t machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
  return ac_smaller_bytes(all, ac_group_memory(""));
}

uint64_t ac_physical_memory(void) {
  const uint64_t least = ac_smaller_bytes(machine_memory(), own_limits());
  return least < UINT64_MAX ? least : 0;
}

/* Own limits are less what is mapped already, so that what is resident is not taken off again. */
uint64_t ac_memory_left(void) {
  const uint64_t all = machine_memory(), own = own_limits(), used = resident_memory(),
                 most = all / 4 * 3;
  const uint64_t left = all == UINT64_MAX ? all : used < most ? most - used : 0;
  return own == UINT64_MAX ? left : ac_smaller_bytes(left, own / 4 * 3);
}
