#include "program/run_folder.h"

#include "common/folder.h"
#include "common/lock.h"
#include "common/message.h"

#include <ctype.h>
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

/* The step in a name PREFIX-STEP.safetensors as this program writes it, followed by `rest`; -1: the
 * name is another one. Other spellings of a number are someone else's files. */
static int64_t step_in(const char *name, const char *prefix, const char *rest) {
  char own[80];
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0 || !isdigit((unsigned char)name[length])) return -1;
  errno = 0;
  const long long step = strtoll(name + length, NULL, 10);
  if (errno || step < 0) return -1;
  snprintf(own, sizeof own, "%s%010lld.safetensors%s", prefix, step, rest);
  return strcmp(name, own) ? -1 : (int64_t)step;
}

/* A word, such as backup, or a number, such as a date. */
static bool reads_as_text(const char *mark) {
  static const char small[] = "abcdefghijklmnopqrstuvwxyz", large[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const size_t first = isalpha((unsigned char)*mark) != 0;
  return !mark[first + strspn(mark + first, small)] || !mark[strspn(mark, large)] ||
         !mark[strspn(mark, "0123456789")];
}

static bool is_hexadecimal(const char *text, size_t length) {
  return length && strspn(text, "0123456789abcdef") >= length;
}

/* What ac_replacement_create adds to the name of an unfinished file: eight hexadecimal
 * digits, a dash, and up to eight letters and digits. Older versions wrote digits or six letters
 * alone, which count unless they read as text. */
static bool is_mark(const char *mark) {
  const char *dash = strchr(mark, '-'), *end = dash ? dash + 1 : mark;
  const size_t length = strlen(end);
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)end[i])) return false;
  if (dash) return dash == mark + 8 && is_hexadecimal(mark, 8) && length >= 1 && length <= 8;
  return !reads_as_text(mark) && (length == 6 || (length <= 8 && is_hexadecimal(mark, length)));
}

/* Whether a run that was killed left this unfinished file. Copies that a user made of a file of the
 * run do not count. */
static bool is_leftover(const char *name) {
  static const char *const files[] = {
      "model.safetensors",   "best.safetensors", "diverged.safetensors",
      "average.safetensors", "config.json",      "run.json",
      "pilot.json",          "good.safetensors", "adapter_model.safetensors",
      "adapter_config.json"};
  const char *mark = strstr(name, ".partial-");
  if (!mark) return false;
  const size_t length = (size_t)(mark - name);
  const bool is_name = !strcmp(mark, ".partial-name"); /* good_state.c */
  if (step_in(name, "good-", mark) >= 0) return is_name || is_mark(mark + 9);
  if (is_name && length == 16 && !memcmp(name, "good.safetensors", 16)) return true;
  if (!is_mark(mark + 9)) return false;
  if (step_in(name, "state-", mark) >= 0) return true;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (strlen(files[i]) == length && !memcmp(name, files[i], length)) return true;
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
  const bool made = !folder_is_there(path);
  int status = folder_make(path, "out");
  if (status != STATUS_CONTINUE) return status;
  snprintf(folder->path, sizeof folder->path, "%s", path);
  folder->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool locked;
  if (!lock_take(folder->lock, path, &locked))
    return fail("another run writes into %s; give this one a folder of its own with --out", path);
  folder->made = made; /* only now: the file of a run that holds the lock is not ours to remove */
  if (locked) remove_leftovers(folder); /* else another run may be writing them */
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
static bool list_steps(DIR *directory, const char *prefix, int64_t **steps, size_t *count) {
  struct dirent *entry;
  while (errno = 0, (entry = readdir(directory))) {
    const int64_t step = step_in(entry->d_name, prefix, "");
    if (step >= 0 && !add_step(steps, count, step)) return false;
  }
  return !errno;
}

static int steps_of(const run_folder *folder, const char *prefix, int64_t **steps, size_t *count) {
  *steps = NULL;
  *count = 0;
  DIR *directory = opendir(folder->path);
  if (!directory && (errno == ENOENT || errno == ENOTDIR)) return STATUS_CONTINUE;
  const bool good = directory && list_steps(directory, prefix, steps, count);
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

int run_folder_states(const run_folder *folder, int64_t **steps, size_t *count) {
  return steps_of(folder, "state-", steps, count);
}

int run_folder_good_states(const run_folder *folder, int64_t **steps, size_t *count) {
  return steps_of(folder, "good-", steps, count);
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
