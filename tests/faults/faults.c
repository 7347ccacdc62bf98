#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* would rename what is defined here */
#include "faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is to fail ------------------------------------------------------------------------- */

typedef enum fault_class { NOTHING, FILES, MEMORY } fault_class;
typedef enum fault_kind { PASS, ERROR, SHORT, CRASH, POWER } fault_kind;

static fault_class armed;
static bool resting;
static fault_kind kind;
static int error;
static long first, last;
static const char *wanted;
static atomic_long calls, failed;

static const struct {
  const char *name;
  fault_kind kind;
  int error;
} kinds[] = {{"EIO", ERROR, EIO},       {"ENOSPC", ERROR, ENOSPC}, {"EINTR", ERROR, EINTR},
             {"EINVAL", ERROR, EINVAL}, {"EACCES", ERROR, EACCES}, {"EMFILE", ERROR, EMFILE},
             {"ENOMEM", ERROR, ENOMEM}, {"short", SHORT, ENOSPC},  {"crash", CRASH, 0},
             {"power", POWER, 0}};

static bool read_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].name, name)) {
      kind = kinds[i].kind;
      error = kinds[i].error;
      return true;
    }
  return false;
}

static void read_calls(char **text) {
  first = last = strtol(*text, text, 10);
  if (**text != '-') return;
  ++*text;
  last = **text && **text != ':' ? strtol(*text, text, 10) : INT32_MAX;
}

bool faults_arm(const char *text, const char *path) {
  armed = NOTHING;
  resting = false;
  wanted = path ? path : "";
  calls = failed = 0;
  const char *colon = strchr(text, ':');
  if (!colon) return false;
  const bool memory = !strncmp(text, "memory:", 7);
  if (!memory && strncmp(text, "file:", 5) != 0) return false;
  char *rest = (char *)colon + 1;
  read_calls(&rest);
  if (!read_kind(*rest == ':' ? rest + 1 : "ENOMEM")) return false;
  armed = memory ? MEMORY : FILES;
  return true;
}

void faults_pause(bool paused) {
  resting = paused;
}

long faults_calls(void) {
  return calls;
}
long faults_failed(void) {
  return failed;
}

/* ---- which calls ----------------------------------------------------------------------------- */

#ifdef FAULTS_LINKED
#define CALL(name) __wrap_##name
#define REAL(name) __real_##name

static bool is_own(fault_class class, const void *caller) {
  (void)class, (void)caller;
  return true;
}
#else
#define CALL(name) name
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* What reads and writes on Accrue's behalf is met where it uses files. Where it allocates it is
 * not: the parser of Jansson 2.14 writes past a buffer that could not grow. */
typedef struct part {
  uintptr_t begin, end;
  bool accrue;
} part;

static part own[64];
static int own_count;

static int add_own(struct dl_phdr_info *info, size_t size, void *user) {
  static const char *const names[] = {"libjansson", "libz."};
  const bool accrue = !*info->dlpi_name || strstr(info->dlpi_name, "libaccrue");
  bool good = accrue;
  (void)size, (void)user;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    good |= strstr(info->dlpi_name, names[i]) != NULL;
  for (int i = 0; good && i < info->dlpi_phnum && own_count < 64; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_LOAD)
      own[own_count++] = (part){begin, begin + segment->p_memsz, accrue};
  }
  return 0;
}

static bool is_own(fault_class class, const void *caller) {
  for (int i = 0; i < own_count; i++)
    if ((uintptr_t)caller >= own[i].begin && (uintptr_t)caller < own[i].end)
      return class == FILES || own[i].accrue;
  return false;
}

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("ACCRUE_FAULT");
  dl_iterate_phdr(add_own, NULL);
  if (!text || faults_arm(text, getenv("ACCRUE_FAULT_PATH"))) return;
  fprintf(stderr, "ACCRUE_FAULT=%s is not CLASS:FIRST[-[LAST]][:KIND]\n", text);
  _exit(99);
}

__attribute__((destructor)) static void end(void) {
  const char *report = getenv("ACCRUE_FAULT_REPORT");
  faults_pause(true);
  FILE *file = report ? fopen(report, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld %ld\n", (long)calls, (long)failed);
  fclose(file);
}
#endif

/* ---- files that are not synced --------------------------------------------------------------- */

enum { UNSYNCED = 64 };
static struct {
  ino_t file;
  int descriptor;
} unsynced[UNSYNCED];
static int unsynced_count;

#ifdef FAULTS_LINKED
extern __typeof__(ftruncate64) __real_ftruncate64;
extern __typeof__(close) __real_close;
#endif

static int find_unsynced(ino_t file) {
  int i = 0;
  while (i < unsynced_count && unsynced[i].file != file) i++;
  return i;
}

/* After each write; `synced`: all of it is on disk. */
static void note_write(int descriptor, bool synced) {
  struct stat info;
  if (kind != POWER || fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const int i = find_unsynced(info.st_ino);
  if (synced && i < unsynced_count) {
    REAL(close)(unsynced[i].descriptor);
    unsynced[i] = unsynced[--unsynced_count];
  } else if (!synced && i == unsynced_count && i < UNSYNCED) {
    unsynced[unsynced_count].file = info.st_ino;
    unsynced[unsynced_count++].descriptor = dup(descriptor);
  }
}

/* ---- one call -------------------------------------------------------------------------------- */

static _Noreturn void die(void) {
  for (int i = 0; kind == POWER && i < unsynced_count; i++)
    if (REAL(ftruncate64)(unsynced[i].descriptor, 0) != 0) _exit(98);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Whether this call of the class is one to fail, after it was counted. */
static bool is_next(fault_class class, const void *caller) {
  if (armed != class || resting || !is_own(class, caller)) return false;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  return number >= first && number <= last;
}

static fault_kind fail(void) {
  atomic_fetch_add(&failed, 1);
  errno = error;
  return kind;
}

/* Calls that neither read nor write; ERROR: fails with errno set. */
static fault_kind plain(bool watched, const void *caller) {
  const bool next = watched && is_next(FILES, caller);
  if (!next || kind == SHORT) return PASS;
  if (kind != ERROR) die();
  return fail();
}

static bool watches(const char *path) {
  return armed == FILES && strstr(path, wanted) != NULL;
}

static bool watches_open(int descriptor) {
  char link[40], path[4096];
  if (armed != FILES || descriptor < 3) return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  return watches(path);
}

#define CALLER __builtin_return_address(0)

/* ---- by path --------------------------------------------------------------------------------- */

#ifdef FAULTS_LINKED
#define WRAP(name)                       \
  extern __typeof__(name) __real_##name; \
  extern __typeof__(name) __wrap_##name;
WRAP(fopen64)
WRAP(fdopen)
WRAP(open64)
WRAP(mkstemp64)
WRAP(mkdir)
WRAP(rename)
WRAP(opendir)
WRAP(fread)
WRAP(fwrite)
WRAP(fputs)
WRAP(fputc)
WRAP(fflush)
WRAP(fclose)
WRAP(fseeko64)
WRAP(pwrite64)
WRAP(close)
extern __typeof__(fsync) __wrap_fsync;
WRAP(ftruncate64)
WRAP(malloc)
WRAP(calloc)
WRAP(realloc)
WRAP(aligned_alloc)
WRAP(strdup)
WRAP(mmap64)
WRAP(pthread_create)
#endif

FILE *CALL(fopen64)(const char *path, const char *mode) {
  if (plain(watches(path), CALLER) == ERROR) return NULL;
  return REAL(fopen64)(path, mode);
}

FILE *CALL(fdopen)(int descriptor, const char *mode) {
  if (plain(watches_open(descriptor), CALLER) == ERROR) return NULL;
  return REAL(fdopen)(descriptor, mode);
}

int CALL(open64)(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (plain(watches(path), CALLER) == ERROR) return -1;
  return REAL(open64)(path, flags, mode);
}

int CALL(mkstemp64)(char *path) {
  if (plain(watches(path), CALLER) == ERROR) return -1;
  return REAL(mkstemp64)(path);
}

int CALL(mkdir)(const char *path, mode_t mode) {
  if (plain(watches(path), CALLER) == ERROR) return -1;
  return REAL(mkdir)(path, mode);
}

int CALL(rename)(const char *from, const char *to) {
  if (plain(watches(from) || watches(to), CALLER) == ERROR) return -1;
  return REAL(rename)(from, to);
}

DIR *CALL(opendir)(const char *path) {
  if (plain(watches(path), CALLER) == ERROR) return NULL;
  return REAL(opendir)(path);
}

/* ---- streams and descriptors ----------------------------------------------------------------- */

/* As after a call that really failed. */
static void mark_error(FILE *stream) {
  stream->_flags |= _IO_ERR_SEEN;
}

size_t CALL(fread)(void *data, size_t size, size_t count, FILE *stream) {
  if (!watches_open(fileno(stream)) || !is_next(FILES, CALLER))
    return REAL(fread)(data, size, count, stream);
  if (kind == CRASH || kind == POWER) die();
  if (fail() == SHORT) return REAL(fread)(data, size, count / 2, stream);
  mark_error(stream);
  return 0;
}

size_t CALL(fwrite)(const void *data, size_t size, size_t count, FILE *stream) {
  const bool next = watches_open(fileno(stream)) && is_next(FILES, CALLER);
  size_t part = !next ? count : kind == ERROR ? 0 : count / 2;
  if (part) part = REAL(fwrite)(data, size, part, stream);
  if (watches_open(fileno(stream))) note_write(fileno(stream), false);
  if (!next) return part;
  if (kind == CRASH || kind == POWER) {
    REAL(fflush)(stream);
    die();
  }
  fail();
  mark_error(stream);
  return part;
}

ssize_t CALL(pwrite64)(int descriptor, const void *data, size_t bytes, off64_t offset) {
  const bool next = watches_open(descriptor) && is_next(FILES, CALLER);
  if (next && kind == ERROR) {
    fail();
    return -1;
  }
  const ssize_t written = REAL(pwrite64)(descriptor, data, next ? bytes / 2 : bytes, offset);
  if (watches_open(descriptor)) note_write(descriptor, false);
  if (!next) return written;
  if (kind == CRASH || kind == POWER) die();
  fail();
  return written;
}

int CALL(close)(int descriptor) {
  const fault_kind result = plain(watches_open(descriptor), CALLER);
  const int closed = REAL(close)(descriptor);
  if (result != ERROR) return closed;
  errno = error;
  return -1;
}

int CALL(fputs)(const char *text, FILE *stream) {
  if (plain(watches_open(fileno(stream)), CALLER) == ERROR) return EOF;
  const int result = REAL(fputs)(text, stream);
  if (watches_open(fileno(stream))) note_write(fileno(stream), false);
  return result;
}

int CALL(fputc)(int character, FILE *stream) {
  if (plain(watches_open(fileno(stream)), CALLER) == ERROR) return EOF;
  return REAL(fputc)(character, stream);
}

int CALL(fflush)(FILE *stream) {
  if (stream && plain(watches_open(fileno(stream)), CALLER) == ERROR) return EOF;
  return REAL(fflush)(stream);
}

int CALL(fclose)(FILE *stream) {
  const fault_kind result = plain(watches_open(fileno(stream)), CALLER);
  const int closed = REAL(fclose)(stream);
  if (result != ERROR) return closed;
  errno = error;
  return EOF;
}

int CALL(fseeko64)(FILE *stream, off64_t offset, int whence) {
  if (plain(watches_open(fileno(stream)), CALLER) == ERROR) return -1;
  return REAL(fseeko64)(stream, offset, whence);
}

/* Nothing is really synced, which would take long. */
int CALL(fsync)(int descriptor) {
  if (plain(watches_open(descriptor), CALLER) == ERROR) return -1;
  note_write(descriptor, true);
  return 0;
}

int CALL(ftruncate64)(int descriptor, off64_t length) {
  if (plain(watches_open(descriptor), CALLER) == ERROR) return -1;
  return REAL(ftruncate64)(descriptor, length);
}

/* ---- memory ---------------------------------------------------------------------------------- */

#ifdef FAULTS_LINKED
#define MALLOC __real_malloc
#define CALLOC __real_calloc
#define REALLOC __real_realloc
#define ALIGNED __real_aligned_alloc
#else
/* glibc's own names, as dlsym itself allocates. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
#define MALLOC __libc_malloc
#define CALLOC __libc_calloc
#define REALLOC __libc_realloc
#define ALIGNED __libc_memalign
#endif

static bool denied(const void *caller) {
  if (!is_next(MEMORY, caller)) return false;
  fail();
  return true;
}

void *CALL(malloc)(size_t size) {
  return denied(CALLER) ? NULL : MALLOC(size);
}

void *CALL(calloc)(size_t count, size_t size) {
  return denied(CALLER) ? NULL : CALLOC(count, size);
}

void *CALL(realloc)(void *old, size_t size) {
  return denied(CALLER) ? NULL : REALLOC(old, size);
}

void *CALL(aligned_alloc)(size_t alignment, size_t size) {
  return denied(CALLER) ? NULL : ALIGNED(alignment, size);
}

char *CALL(strdup)(const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = denied(CALLER) ? NULL : MALLOC(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

void *CALL(mmap64)(void *at, size_t bytes, int protection, int flags, int file, off64_t offset) {
  if (denied(CALLER)) return MAP_FAILED;
  return REAL(mmap64)(at, bytes, protection, flags, file, offset);
}

int CALL(pthread_create)(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                         void *user) {
  if (denied(CALLER)) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, run, user);
}
