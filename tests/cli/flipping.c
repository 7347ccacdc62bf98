/* Loaded before the program: one bit of what it writes to a file is another, as on a bad disk. FLIP
 * is the name of the file, or the beginning of it, and a number after a colon which 1024th of the
 * write it is in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t write_at(int file, const void *data, size_t bytes, off64_t at);

static int is_meant(int file, const char *flip) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(flip, ":"), flip);
  return strstr(path, name) != NULL;
}

static ssize_t flipped(int file, const void *data, size_t bytes, off64_t at) {
  write_at *next;
  *(void **)&next = dlsym(RTLD_NEXT, "pwrite64");
  const char *flip = getenv("FLIP");
  if (!flip || bytes < 4096 || !is_meant(file, flip)) return next(file, data, bytes, at);
  unsigned char *changed = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  memcpy(changed, data, bytes);
  /* The high byte of a float. */
  const size_t place = bytes / 1024 * (size_t)atoi(strchr(flip, ':') + 1) / 4 * 4 + 3;
  changed[place] ^= 0x40;
  const ssize_t done = next(file, changed, bytes, at);
  free(changed);
  return done;
}

/* With 64-bit offsets in files, as here, this is pwrite64. */
ssize_t pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
  return flipped(file, data, bytes, at);
}
