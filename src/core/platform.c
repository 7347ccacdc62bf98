/* POSIX. Everything that another system would need anew is in this file. */
#define _GNU_SOURCE /* sched_getaffinity, nftw's flags */
#include "core/platform.h"

#include "core/error.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

uint64_t ac_physical_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
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

uint64_t ac_memory_left(void) {
  const uint64_t all = ac_physical_memory(), used = resident_memory(), most = all / 4 * 3;
  if (!all) return UINT64_MAX;
  return used < most ? most - used : 0;
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

/* ---- libraries and threads ------------------------------------------------------------------- */

void *ac_library_open(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) (void)dlerror();
  return library;
}

void *ac_library_symbol(void *library, const char *name) {
  return dlsym(library, name);
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

static ac_status list_folder(ac_paths *paths, const char *folder, int depth);

/* Symbolic links to files are followed, links to folders are not: they may form circles. What is
 * gone by now, and links to nothing, are not there; whatever else cannot be read is an error, as
 * data would be missing without a word. */
static ac_status list_entry(ac_paths *paths, const char *path, int depth) {
  struct stat link, target;
  if (lstat(path, &link) != 0)
    return errno == ENOENT ? AC_OK
                           : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  if (S_ISDIR(link.st_mode)) return list_folder(paths, path, depth + 1);
  if (stat(path, &target) == 0) return S_ISREG(target.st_mode) ? add_path(paths, path) : AC_OK;
  return errno == ENOENT ? AC_OK
                         : ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
}

static ac_status list_folder(ac_paths *paths, const char *folder, int depth) {
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
    else status = list_entry(paths, path, depth);
  }
  if (status == AC_OK && errno)
    status = ac_fail(AC_ERROR_IO, "cannot read folder %s: %s", folder, strerror(errno));
  closedir(directory);
  return status;
}

ac_status ac_paths_list(ac_paths *paths, const char *path) {
  memset(paths, 0, sizeof *paths);
  struct stat info;
  if (stat(path, &info) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  ac_status status = S_ISDIR(info.st_mode) ? list_folder(paths, path, 0) : add_path(paths, path);
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

/* What a path leads to that is no regular file; NULL: it is one. */
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

FILE *ac_file_try(const char *path) {
  const char *special;
  return open_file(path, false, &special);
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
