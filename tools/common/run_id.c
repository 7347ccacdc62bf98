#include "common/run_id.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void run_id_make(char id[RUN_ID_BYTES]) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  snprintf(id, RUN_ID_BYTES, "%llx-%lx-%lx", (unsigned long long)time.tv_sec,
           (unsigned long)time.tv_nsec, (unsigned long)getpid());
}

/* Three hexadecimal numbers of at most 16 digits. */
bool run_id_is_good(const char *text) {
  for (int part = 0; text && part < 3; part++) {
    const size_t digits = strspn(text, "0123456789abcdef");
    if (digits < 1 || digits > 16) return false;
    text += digits;
    if (*text != (part < 2 ? '-' : 0)) return false;
    text += part < 2;
  }
  return text;
}

/* The first line of a file. It is long if the file does not hold metrics. */
static size_t read_line(const char *path, char *line, size_t room) {
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  size_t length = 0;
  for (int c; length < room && (c = fgetc(file)) != EOF && c != '\n';) line[length++] = (char)c;
  fclose(file);
  return length;
}

metrics_owner metrics_owner_of(const char *path, char id[RUN_ID_BYTES]) {
  enum { ROOM = 1 << 16 };
  struct stat info;
  id[0] = 0;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || !info.st_size) return METRICS_NONE;
  char *line = malloc(ROOM);
  const size_t length = line ? read_line(path, line, ROOM) : 0;
  const bool object = length && line[0] == '{';
  json_t *json = object ? json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL) : NULL;
  const char *run = json_string_value(json_object_get(json, "run"));
  if (run_id_is_good(run)) strcpy(id, run);
  json_decref(json);
  free(line);
  return *id ? METRICS_NAMED : object ? METRICS_UNNAMED : METRICS_STRANGE;
}
