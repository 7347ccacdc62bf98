/* All that is the operating system's: clocks, shared libraries, memory, files, threads. */
#ifndef AC_CORE_PLATFORM_H
#define AC_CORE_PLATFORM_H

#include <accrue/base.h>
#include <stdbool.h>
#include <stdio.h>

double ac_clock(void); /* seconds, monotonic */

/* Pages of zeroed memory aligned to at least 4096, or NULL. */
void *ac_pages_allocate(size_t bytes);
void ac_pages_release(void *memory, size_t bytes);

/* Whether so many bytes more could be had now, not all in one piece. */
bool ac_pages_available(uint64_t bytes);
size_t ac_thread_stack_bytes(void); /* of a thread that is not told otherwise; 0: unknown */

/* Bytes that this process may have: the machine's memory, or what a control group, as of a
 * container, or a limit of the process (ulimit -v, -d) leaves of it. 0: unknown. */
uint64_t ac_physical_memory(void);
/* Bytes that data may still take: three quarters of that memory, less what this process has now.
 * UINT64_MAX: unknown. */
uint64_t ac_memory_left(void);
/* What control groups allow; UINT64_MAX: all. `under` goes before each path: "", but in tests. */
uint64_t ac_group_memory(const char *under);
uint64_t ac_cache_bytes(void);     /* of the last-level cache; 0: unknown */
int ac_processor_count(void);      /* usable by this process */
int ac_scalable_vector_bits(void); /* of ARM's SVE, as this process has it; 0: there is none */

/* Shared libraries. NULL if it cannot be loaded; `why`, which may be NULL, then has the reason. */
void *ac_library_open(const char *name, char *why, size_t size);
bool ac_library_is_open(const char *name);
void *ac_library_symbol(void *library, const char *name);

/* Between the two calls these environment variables, each as "NAME=value", are set for the whole
 * process. Unlike setenv this neither changes nor frees what another thread may be reading, such as
 * a driver in its own first use. Only one caller at a time; the settings stay the caller's. False:
 * no memory. */
typedef struct ac_variables {
  const char *const *settings;
  int count;
  char **before, **with;
} ac_variables;
bool ac_variables_begin(ac_variables *variables, const char *const *settings, int count);
void ac_variables_end(const ac_variables *variables);

/* Runs `once` exactly once per flag, also from several threads. */
typedef struct ac_once {
  int state; /* zero-initialised */
} ac_once;
void ac_call_once(ac_once *flag, void (*once)(void));

/* From now on `before` is called in a thread that forks the process, before it does. */
void ac_before_fork(void (*before)(void));

int ac_process(void); /* which a fork changes; not 0 */

/* A thread, which receives none of the process's signals. */
typedef struct ac_thread ac_thread;
ac_status ac_thread_start(ac_thread **thread, void (*run)(void *user), void *user);
void ac_thread_join(ac_thread *thread); /* waits for its end and frees it; NULL: nothing */

/* A lock, and a condition that threads that hold it can wait for. */
typedef struct ac_monitor ac_monitor;
ac_monitor *ac_monitor_create(void); /* or NULL */
void ac_monitor_free(ac_monitor *monitor);
void ac_monitor_lock(ac_monitor *monitor);
void ac_monitor_unlock(ac_monitor *monitor);
void ac_monitor_wait(ac_monitor *monitor); /* gives up the lock until woken, perhaps for nothing */
void ac_monitor_wake(ac_monitor *monitor); /* all that wait; called with the lock held */

/* The cache folder for `name` ("programs"), created if missing: $ACCRUE_CACHE_DIR, else
 * $XDG_CACHE_HOME/accrue, else ~/.cache/accrue. False if there is none that can be written to. */
bool ac_cache_folder(char *path, size_t size, const char *name);

/* Opens a regular file to read, if it belongs to this user or to root and nobody else can write to
 * it; else NULL. Never waits. */
FILE *ac_open_trusted(const char *path);

/* Every regular file below a folder, sorted by path (bytes), or the path itself if it is a file.
 * Free with ac_paths_free. */
typedef struct ac_paths {
  char **path;
  size_t count;
} ac_paths;
/* Chooses paths below a folder: those that `takes` (may be NULL: all) says yes to. If it refuses a
 * folder, nothing in that is chosen. */
typedef struct ac_path_choice {
  bool (*takes)(void *user, const char *path, bool is_folder);
  void *user;
} ac_path_choice;
ac_status ac_paths_list(ac_paths *paths, const char *path, const ac_path_choice *choice);
void ac_paths_free(ac_paths *paths);

bool ac_is_folder(const char *path);
/* What exists but cannot be looked at counts as there: reading it then says why it cannot. */
bool ac_is_there(const char *path);

/* Opens a file for reading, or leaves a sentence that names it. A pipe or a device in the place of
 * a file is refused at once, never waited for, unless `streams_too`: data may come from there. */
ac_status ac_file_open(FILE **stream, const char *path, bool streams_too);
uint64_t ac_file_bytes(FILE *stream); /* 0: unknown, as of a pipe */

/* Between the two calls numbers are written and read with a decimal point in this thread, whatever
 * the process's locale is. */
typedef struct ac_plain_numbers {
  void *plain, *before;
} ac_plain_numbers;
ac_plain_numbers ac_plain_numbers_begin(void);
void ac_plain_numbers_end(const ac_plain_numbers *numbers);

/* 64-bit file positions. */
int ac_seek(FILE *stream, int64_t offset, int whence);
int64_t ac_tell(FILE *stream);

#endif
