/* POSIX. */
#define _GNU_SOURCE /* environ */
#include "core/platform/process.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ac_process(void) {
  return (int)getpid();
}

void ac_before_fork(void (*before)(void)) {
  pthread_atfork(before, NULL, NULL); /* without memory for that, forks are as they were */
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

void ac_process_end(const char *sentence) {
  const ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
  _exit(written < 0 ? 2 : 1);
}
