#include "program/run_folder.h"

#include "common/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------ */

static int make(run_folder *folder, const char *path) {
  int length = snprintf(folder->path, sizeof folder->path, "%s", path);
  if (length < 1 || (size_t)length >= sizeof folder->path)
    return fail_usage("--out is %s path", length < 1 ? "an empty" : "too long a");
  for (char *slash = folder->path + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    mkdir(folder->path, 0777); /* the last one decides */
    *slash = '/';
  }
  struct stat info;
  if (mkdir(folder->path, 0777) != 0 && errno != EEXIST)
    return fail("cannot make the folder %s: %s", path, strerror(errno));
  if (stat(folder->path, &info) != 0 || !S_ISDIR(info.st_mode))
    return fail("--out %s is not a folder", path);
  if (access(folder->path, W_OK | X_OK) != 0)
    return fail("cannot write to the folder %s: %s", path, strerror(errno));
  return STATUS_CONTINUE;
}

int run_folder_open(run_folder *folder, const char *path) {
  folder->lock = -1;
  int status = make(folder, path);
  if (status != STATUS_CONTINUE) return status;
  folder->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->lock >= 0 && flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail("another run writes into %s; give this one a folder of its own with --out", path);
  return STATUS_CONTINUE;
}

void run_folder_close(run_folder *folder) {
  if (folder->lock >= 0) close(folder->lock);
  folder->lock = -1;
}

void run_folder_path(const run_folder *folder, const char *name, char path[RUN_PATH_BYTES]) {
  snprintf(path, RUN_PATH_BYTES, "%s/%s", folder->path, name);
}

/* ---- states ---------------------------------------------------------------------------------- */

void run_folder_state(const run_folder *folder, int64_t step, char path[RUN_PATH_BYTES]) {
  char name[48];
  snprintf(name, sizeof name, "state-%010" PRId64 ".safetensors", step);
  run_folder_path(folder, name, path);
}

/* -1: the file is no state. */
static int64_t step_of(const char *name) {
  int64_t step = -1;
  int end = 0;
  if (sscanf(name, "state-%" SCNd64 ".safetensors%n", &step, &end) != 1 || name[end] || !end)
    return -1;
  return step;
}

static int newest_first(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

int64_t *run_folder_states(const run_folder *folder, size_t *count) {
  int64_t *steps = NULL;
  *count = 0;
  DIR *directory = opendir(folder->path);
  struct dirent *entry;
  while (directory && (entry = readdir(directory))) {
    const int64_t step = step_of(entry->d_name);
    if (step < 0) continue;
    int64_t *grown = realloc(steps, (*count + 1) * sizeof *steps);
    if (!grown) break;
    steps = grown;
    steps[(*count)++] = step;
  }
  if (directory) closedir(directory);
  if (*count) qsort(steps, *count, sizeof *steps, newest_first);
  return steps;
}
