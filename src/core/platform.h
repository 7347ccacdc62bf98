/* All that is the operating system's: clocks, shared libraries, memory, files, threads. */
#ifndef AC_CORE_PLATFORM_H
#define AC_CORE_PLATFORM_H

#include <accrue/base.h>
#include <stdio.h>

double ac_clock(void); /* seconds, monotonic */

/* Pages of zeroed memory aligned to at least 4096, or NULL. */
void *ac_pages_allocate(size_t bytes);
void ac_pages_release(void *memory, size_t bytes);

uint64_t ac_physical_memory(void); /* bytes; 0: unknown */
uint64_t ac_cache_bytes(void);     /* of the last-level cache; 0: unknown */
int ac_processor_count(void);      /* usable by this process */

/* Shared libraries. `ac_library_open` leaves no error behind; NULL if it cannot be loaded. */
void *ac_library_open(const char *name);
void *ac_library_symbol(void *library, const char *name);

/* Runs `once` exactly once per flag, also from several threads. */
typedef struct ac_once {
  int state; /* zero-initialised */
} ac_once;
void ac_call_once(ac_once *flag, void (*once)(void));

/* The cache folder for `name` ("programs"), created if missing: $ACCRUE_CACHE_DIR, else
 * $XDG_CACHE_HOME/accrue, else ~/.cache/accrue. False if there is none that can be written to. */
bool ac_cache_folder(char *path, size_t size, const char *name);

/* A file that appears whole or not at all: written beside `path`, synced, renamed over it. */
typedef struct ac_atomic_file {
  FILE *stream;
  char path[4096], temporary[4096];
} ac_atomic_file;
ac_status ac_atomic_open(ac_atomic_file *file, const char *path);
ac_status
ac_atomic_commit(ac_atomic_file *file); /* on failure the temporary is gone, `path` untouched */
void ac_atomic_abandon(ac_atomic_file *file);

/* Every regular file below a folder, sorted by path (bytes), or the path itself if it is a file.
 * Free with ac_paths_free. */
typedef struct ac_paths {
  char **path;
  size_t count;
} ac_paths;
ac_status ac_paths_list(ac_paths *paths, const char *path);
void ac_paths_free(ac_paths *paths);

/* 64-bit file positions. */
int ac_seek(FILE *stream, int64_t offset, int whence);
int64_t ac_tell(FILE *stream);

#endif
