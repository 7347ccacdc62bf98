/* POSIX. Everything that another system would need anew is in this file. */
#define _GNU_SOURCE /* sched_getaffinity, nftw's flags */
#include "core/platform.h"

#include "core/error.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

void ac_before_fork(void (*before)(void)) {
  pthread_atfork(before, NULL, NULL); /* without memory for that, forks are as they were */
}

int ac_process(void) {
  return (int)getpid();
}

double ac_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- memory and processors ------------------------------------------------------------------- */

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

size_t ac_thread_stack_bytes(void) {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_attr_init(&attributes) != 0) return 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) != 0) bytes = 0;
  pthread_attr_destroy(&attributes);
  return bytes;
}

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

uint64_t ac_cache_bytes(void) {
#ifdef _SC_LEVEL3_CACHE_SIZE
  long third = sysconf(_SC_LEVEL3_CACHE_SIZE), second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  long bytes = third > 0 ? third : second;
  return bytes > 0 ? (uint64_t)bytes : 0;
#else
  return 0;
#endif
}

int ac_processor_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}

int ac_scalable_vector_bits(void) {
#if defined(__aarch64__) && defined(__linux__)
  int length = getauxval(AT_HWCAP) & HWCAP_SVE ? prctl(PR_SVE_GET_VL) : 0;
  return length > 0 ? 8 * (length & PR_SVE_VL_LEN_MASK) : 0;
#else
  return 0;
#endif
}

/* ---- how much memory this process may have ---------------------------------------------------
 *
 * The least of what the machine has, what its control groups allow, and what its own limits leave.
 * A limit of a control group (cgroup) holds for all groups below it, so those on the way from the
 * process's own group to the root of the hierarchy are read. /proc/self/cgroup says where the group
 * is, /proc/self/mountinfo where the hierarchy is mounted, and which part of it. In a container
 * only the process's own group may be mounted, and the path may be one that only the host knows.
 * Folders that do not exist are left out on the way up. */

static uint64_t smaller_of(uint64_t a, uint64_t b) {
  return a < b ? a : b;
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
    least = smaller_of(least, number_in_file(file));
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
    if (read_mount(h, line)) least = smaller_of(least, group_limit(h, under));
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
    least =
        smaller_of(least, limit.rlim_cur > limits[i].used ? limit.rlim_cur - limits[i].used : 1);
  }
  return least;
}

/* Memory of the machine and of control groups, including what the process has already; UINT64_MAX:
 * unknown. */
static uint64_t machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
  return smaller_of(all, ac_group_memory(""));
}

uint64_t ac_physical_memory(void) {
  const uint64_t least = smaller_of(machine_memory(), own_limits());
  return least < UINT64_MAX ? least : 0;
}

/* Own limits are less what is mapped already, so that what is resident is not taken off again. */
uint64_t ac_memory_left(void) {
  const uint64_t all = machine_memory(), own = own_limits(), used = resident_memory(),
                 most = all / 4 * 3;
  const uint64_t left = all == UINT64_MAX ? all : used < most ? most - used : 0;
  return own == UINT64_MAX ? left : smaller_of(left, own / 4 * 3);
}

/* ---- libraries and threads ------------------------------------------------------------------- */

void *ac_library_open(const char *name, char *why, size_t size) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *error = library ? NULL : dlerror();
  if (error && why) snprintf(why, size, "%s", error);
  return library;
}

bool ac_library_is_open(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library) dlclose(library);
  else (void)dlerror();
  return library != NULL;
}

void *ac_library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}

static bool names_same(const char *a, const char *b) {
  const size_t length = strcspn(a, "=");
  return !strncmp(a, b, length) && b[length] == '=';
}

/* The process's list of variables is replaced by a longer one, which is never freed; its first
 * element leads to the one made before. */
bool ac_variables_begin(ac_variables *v, const char *const *settings, int count) {
  static char **kept;
  size_t size = 0, used = 1;
  while (environ && environ[size]) size++;
  char **block = calloc(size + (size_t)count + 2, sizeof *block);
  if (!block) return false;
  block[0] = (char *)kept;
  kept = block;
  for (size_t i = 0; i < size; i++) {
    bool set = false;
    for (int k = 0; k < count; k++) set = set || names_same(settings[k], environ[i]);
    if (!set) block[used++] = environ[i];
  }
  for (int k = 0; k < count; k++) block[used++] = (char *)(uintptr_t)settings[k];
  *v = (ac_variables){settings, count, environ, block + 1};
  environ = v->with;
  return true;
}

/* Somebody may have set another variable meanwhile, which is to stay. */
void ac_variables_end(const ac_variables *v) {
  if (environ == v->with) {
    environ = v->before;
    return;
  }
  for (int k = 0; k < v->count; k++) {
    char name[64];
    const char *value = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(v->settings[k], "="), v->settings[k]);
    for (char **at = v->before; at && *at; at++)
      if (names_same(v->settings[k], *at)) value = *at + strlen(name) + 1;
    if (value) setenv(name, value, 1);
    else unsetenv(name);
  }
}

void ac_call_once(ac_once *flag, void (*once)(void)) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  if (!flag->state) {
    once();
    flag->state = 1;
  }
  pthread_mutex_unlock(&mutex);
}

struct ac_thread {
  pthread_t handle;
  void (*run)(void *user);
  void *user;
};

static void *run_thread(void *argument) {
  const ac_thread *thread = argument;
  thread->run(thread->user);
  return NULL;
}

ac_status ac_thread_start(ac_thread **thread, void (*run)(void *user), void *user) {
  *thread = NULL;
  ac_thread *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a thread");
  *made = (ac_thread){.run = run, .user = user};
  /* A thread inherits the mask of the one that starts it. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = pthread_create(&made->handle, NULL, run_thread, made);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (error) {
    free(made);
    return ac_fail(AC_ERROR_MEMORY, "cannot start a thread: %s", strerror(error));
  }
  *thread = made;
  return AC_OK;
}

void ac_thread_join(ac_thread *thread) {
  if (!thread) return;
  pthread_join(thread->handle, NULL);
  free(thread);
}

struct ac_monitor {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
};

ac_monitor *ac_monitor_create(void) {
  ac_monitor *made = malloc(sizeof *made);
  if (!made) return NULL;
  bool locks = pthread_mutex_init(&made->mutex, NULL) == 0;
  if (locks && pthread_cond_init(&made->condition, NULL) == 0) return made;
  if (locks) pthread_mutex_destroy(&made->mutex);
  free(made);
  return NULL;
}

void ac_monitor_free(ac_monitor *monitor) {
  if (!monitor) return;
  pthread_cond_destroy(&monitor->condition);
  pthread_mutex_destroy(&monitor->mutex);
  free(monitor);
}

void ac_monitor_lock(ac_monitor *monitor) {
  pthread_mutex_lock(&monitor->mutex);
}

void ac_monitor_unlock(ac_monitor *monitor) {
  pthread_mutex_unlock(&monitor->mutex);
}

void ac_monitor_wait(ac_monitor *monitor) {
  pthread_cond_wait(&monitor->condition, &monitor->mutex);
}

void ac_monitor_wake(ac_monitor *monitor) {
  pthread_cond_broadcast(&monitor->condition);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool make_folders(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
    *slash = '/';
    if (failed) return false;
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

bool ac_cache_folder(char *path, size_t size, const char *name) {
  const char *own = getenv("ACCRUE_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int length;
  if (own && *own) length = snprintf(path, size, "%s/%s", own, name);
  else if (xdg && *xdg) length = snprintf(path, size, "%s/accrue/%s", xdg, name);
  else if (home && *home) length = snprintf(path, size, "%s/.cache/accrue/%s", home, name);
  else return false;
  return length > 0 && (size_t)length < size && make_folders(path) && access(path, W_OK) == 0;
}

FILE *ac_open_trusted(const char *path) {
  struct stat info;
  const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return NULL;
  const bool trusted = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                       (info.st_uid == geteuid() || info.st_uid == 0) &&
                       !(info.st_mode & (S_IWGRP | S_IWOTH));
  FILE *stream = trusted ? fdopen(descriptor, "rb") : NULL;
  if (!stream) close(descriptor);
  return stream;
}

static int compare_paths(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static ac_status add_path(ac_paths *paths, const char *path) {
  if ((paths->count & (paths->count - 1)) == 0) {
    size_t capacity = paths->count ? 2 * paths->count : 1;
    char **grown = realloc(paths->path, capacity * sizeof *grown);
    if (!grown) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of files");
    paths->path = grown;
  }
  if (!(paths->path[paths->count] = strdup(path)))
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of files");
  paths->count++;
  return AC_OK;
}

static ac_status list_folder(ac_paths *paths, const char *folder, const ac_path_choice *choice,
                             int depth);

static bool is_taken(const ac_path_choice *choice, const char *path, bool is_folder) {
  return !choice->takes || choice->takes(choice->user, path, is_folder);
}

/* Symbolic links to files are followed, links to folders are not: they may form circles. What is
 * gone by now, and links to nothing, are not there; whatever else cannot be read is an error, as
 * data would be missing without a word. */
static ac_status list_entry(ac_paths *paths, const char *path, const ac_path_choice *choice,
                            int depth) {
  struct stat link, target;
  if (lstat(path, &link) != 0)
    return errno == ENOENT ? AC_OK
                           : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  if (S_ISDIR(link.st_mode))
    return is_taken(choice, path, true) ? list_folder(paths, path, choice, depth + 1) : AC_OK;
  if (stat(path, &target) == 0)
    return S_ISREG(target.st_mode) && is_taken(choice, path, false) ? add_path(paths, path) : AC_OK;
  return errno == ENOENT ? AC_OK
                         : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
}

static ac_status list_folder(ac_paths *paths, const char *folder, const ac_path_choice *choice,
                             int depth) {
  enum { MOST_DEPTH = 64 };
  if (depth > MOST_DEPTH)
    return ac_fail(AC_ERROR_IO, "cannot read folder %s: it is more than %d folders deep", folder,
                   (int)MOST_DEPTH);
  DIR *directory = opendir(folder);
  if (!directory) return ac_fail(AC_ERROR_IO, "cannot read folder %s: %s", folder, strerror(errno));
  ac_status status = AC_OK;
  struct dirent *entry;
  while (status == AC_OK && (errno = 0, entry = readdir(directory))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= sizeof path)
      status =
          ac_fail(AC_ERROR_IO, "cannot read a file in folder %s: its path is too long", folder);
    else status = list_entry(paths, path, choice, depth);
  }
  if (status == AC_OK && errno)
    status = ac_fail(AC_ERROR_IO, "cannot read folder %s: %s", folder, strerror(errno));
  closedir(directory);
  return status;
}

ac_status ac_paths_list(ac_paths *paths, const char *path, const ac_path_choice *choice) {
  memset(paths, 0, sizeof *paths);
  struct stat info;
  if (stat(path, &info) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  ac_status status =
      S_ISDIR(info.st_mode) ? list_folder(paths, path, choice, 0) : add_path(paths, path);
  if (status != AC_OK) {
    ac_paths_free(paths);
    return status;
  }
  if (paths->count) qsort(paths->path, paths->count, sizeof *paths->path, compare_paths);
  return AC_OK;
}

void ac_paths_free(ac_paths *paths) {
  for (size_t i = 0; i < paths->count; i++) free(paths->path[i]);
  free(paths->path);
  memset(paths, 0, sizeof *paths);
}

/* What kind of thing a path leads to, if that is not a regular file; NULL: it is one. */
static const char *special_name(mode_t mode) {
  if (S_ISREG(mode)) return NULL;
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/* NULL with errno, or with what is there that is not a file. */
static FILE *open_file(const char *path, bool streams_too, const char **special) {
  struct stat info;
  *special = NULL;
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (streams_too ? 0 : O_NONBLOCK);
  const int descriptor = open(path, flags);
  if (descriptor < 0) return NULL;
  FILE *stream = NULL;
  if (fstat(descriptor, &info) == 0) {
    if (!streams_too) *special = special_name(info.st_mode);
    if (S_ISDIR(info.st_mode)) errno = EISDIR, *special = NULL;
    else if (!*special) stream = fdopen(descriptor, "rb");
  }
  if (stream) return stream;
  const int error = errno;
  close(descriptor);
  errno = error;
  return NULL;
}

ac_status ac_file_open(FILE **stream, const char *path, bool streams_too) {
  const char *special;
  if ((*stream = open_file(path, streams_too, &special))) return AC_OK;
  if (special) return ac_fail(AC_ERROR_IO, "cannot read %s: it is %s, not a file", path, special);
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
}

uint64_t ac_file_bytes(FILE *stream) {
  struct stat info;
  return fstat(fileno(stream), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0
             ? (uint64_t)info.st_size
             : 0;
}

bool ac_is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 || errno != ENOENT;
}

bool ac_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int ac_seek(FILE *stream, int64_t offset, int whence) {
  return fseeko(stream, (off_t)offset, whence);
}

int64_t ac_tell(FILE *stream) {
  return (int64_t)ftello(stream);
}

/* ---- numbers as text ------------------------------------------------------------------------- */

ac_plain_numbers ac_plain_numbers_begin(void) {
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  return (ac_plain_numbers){plain, plain ? uselocale(plain) : NULL};
}

void ac_plain_numbers_end(const ac_plain_numbers *numbers) {
  if (!numbers->plain) return;
  uselocale(numbers->before);
  freelocale(numbers->plain);
}
