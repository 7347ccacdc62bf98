#include "program/run_folder.h"

#include "common/folder.h"
#include "common/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------ */

/* What a run that was killed was writing beside its place: NAME.SUFFIX for a file NAME of a run. */
static bool is_leftover(const char *name) {
  static const char *const files[] = {"model.safetensors", "best.safetensors", "config.json",
                                      "run.json"};
  int64_t step;
  int end = 0;
  if (sscanf(name, "state-%" SCNd64 ".safetensors.%n", &step, &end) == 1 && end) return name[end];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const size_t length = strlen(files[i]);
    if (!strncmp(name, files[i], length) && name[length] == '.') return name[length + 1];
  }
  return false;
}

static void remove_leftovers(const run_folder *folder) {
  DIR *directory = opendir(folder->path);
  struct dirent *entry;
  char path[RUN_PATH_BYTES + NAME_MAX];
  while (directory && (entry = readdir(directory))) {
    if (!is_leftover(entry->d_name)) continue;
    snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
    unlink(path);
  }
  if (directory) closedir(directory);
}

int run_folder_open(run_folder *folder, const char *path) {
  folder->lock = -1;
  int status = folder_make(path, "out");
  if (status != STATUS_CONTINUE) return status;
  snprintf(folder->path, sizeof folder->path, "%s", path);
  folder->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->lock >= 0 && flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail("another run writes into %s; give this one a folder of its own with --out", path);
  remove_leftovers(folder);
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

ac_model_file *run_folder_newest(const run_folder *folder, char path[RUN_PATH_BYTES]) {
  size_t count;
  int64_t *steps = run_folder_states(folder, &count);
  ac_model_file *file = NULL;
  for (size_t i = 0; i < count && !file; i++) {
    run_folder_state(folder, steps[i], path);
    if (ac_model_file_open(&file, path) != AC_OK) file = NULL;
  }
  free(steps);
  return file;
}
