#include "program/run_folder.h"

#include "common/folder.h"
#include "common/lock.h"
#include "common/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------ */

/* What a run that was killed was writing beside its place, as ac_atomic_open and replacement_open
 * name it. Copies that someone made of a file of the run are not. */
static bool is_leftover(const char *name) {
  static const char *const files[] = {
      "model.safetensors", "best.safetensors", "diverged.safetensors", "average.safetensors",
      "config.json",       "run.json",         "pilot.json",           "good.safetensors"};
  const char *mark = strstr(name, ".partial-");
  if (!mark) return false;
  const size_t length = (size_t)(mark - name);
  int64_t step;
  int end = 0;
  if (sscanf(name, "state-%" SCNd64 ".safetensors%n", &step, &end) == 1 && (size_t)end == length)
    return true;
  if (sscanf(name, "good-%" SCNd64 ".safetensors%n", &step, &end) == 1 && (size_t)end == length)
    return true;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strlen(files[i]) == length && !memcmp(name, files[i], length)) return true;
  return false;
}

/* A good state of a step whose own state was never written, or is gone. */
static bool is_alone(const run_folder *folder, const char *name) {
  char path[RUN_PATH_BYTES];
  int64_t step;
  int end = 0;
  if (sscanf(name, "good-%" SCNd64 ".safetensors%n", &step, &end) != 1 || !end || name[end])
    return false;
  run_folder_state(folder, step, path);
  return access(path, F_OK) != 0 && errno == ENOENT;
}

static void remove_leftovers(const run_folder *folder) {
  DIR *directory = opendir(folder->path);
  struct dirent *entry;
  char path[RUN_PATH_BYTES + NAME_MAX];
  while (directory && (entry = readdir(directory))) {
    if (!is_leftover(entry->d_name) && !is_alone(folder, entry->d_name)) continue;
    snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
    unlink(path);
  }
  if (directory) closedir(directory);
}

int run_folder_open(run_folder *folder, const char *path) {
  folder->lock = -1;
  const bool made = !folder_is_there(path);
  int status = folder_make(path, "out");
  if (status != STATUS_CONTINUE) return status;
  snprintf(folder->path, sizeof folder->path, "%s", path);
  folder->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!lock_take(folder->lock, path))
    return fail("another run writes into %s; give this one a folder of its own with --out", path);
  folder->made = made; /* only now: that of a run which holds the lock is not ours to remove */
  remove_leftovers(folder);
  return STATUS_CONTINUE;
}

void run_folder_close(run_folder *folder) {
  if (folder->made) rmdir(folder->path);
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

void run_folder_good_state(const run_folder *folder, int64_t step, char path[RUN_PATH_BYTES]) {
  char name[48];
  snprintf(name, sizeof name, "good-%010" PRId64 ".safetensors", step);
  run_folder_path(folder, name, path);
}

void run_folder_remove_state(const run_folder *folder, int64_t step) {
  char path[RUN_PATH_BYTES];
  run_folder_state(folder, step, path);
  unlink(path);
  run_folder_good_state(folder, step, path);
  unlink(path);
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

static bool add_step(int64_t **steps, size_t *count, int64_t step) {
  int64_t *grown = realloc(*steps, (*count + 1) * sizeof *grown);
  if (!grown) return false;
  *steps = grown;
  grown[(*count)++] = step;
  return true;
}

/* False with the reason in errno. */
static bool list_steps(DIR *directory, int64_t **steps, size_t *count) {
  struct dirent *entry;
  while (errno = 0, (entry = readdir(directory))) {
    const int64_t step = step_of(entry->d_name);
    if (step >= 0 && !add_step(steps, count, step)) return false;
  }
  return !errno;
}

int run_folder_states(const run_folder *folder, int64_t **steps, size_t *count) {
  *steps = NULL;
  *count = 0;
  DIR *directory = opendir(folder->path);
  if (!directory && errno == ENOENT) return STATUS_CONTINUE;
  const bool good = directory && list_steps(directory, steps, count);
  const int error = errno;
  if (directory) closedir(directory);
  if (!good) {
    free(*steps);
    *steps = NULL;
    *count = 0;
    return fail("cannot list the states in %s: %s", folder->path, strerror(error));
  }
  if (*count) qsort(*steps, *count, sizeof **steps, newest_first);
  return STATUS_CONTINUE;
}

int run_folder_newest(const run_folder *folder, ac_model_file **file, char path[RUN_PATH_BYTES]) {
  size_t count;
  int64_t *steps;
  *file = NULL;
  int status = run_folder_states(folder, &steps, &count);
  for (size_t i = 0; i < count && !*file && status == STATUS_CONTINUE; i++) {
    run_folder_state(folder, steps[i], path);
    const ac_status opened = ac_model_file_open(file, path);
    if (opened != AC_OK && opened != AC_ERROR_FORMAT) status = fail_library();
  }
  free(steps);
  return status;
}
