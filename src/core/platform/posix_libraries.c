/* POSIX. */
#define _GNU_SOURCE /* dladdr */
#include "core/platform/libraries.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *ac_library_open(const char *name, char *why, size_t size) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *error = library ? NULL : dlerror();
  if (error && why) snprintf(why, size, "%s", error);
  return library;
}

bool ac_library_is_open(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library) dlclose(library);
  else (void)dlerror();
  return library != NULL;
}

void *ac_library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}

/* A program that was found in PATH has a name without a folder. */
bool ac_library_folder(char *path, size_t size) {
  Dl_info info;
  char found[PATH_MAX];
  if (!dladdr((void *)(uintptr_t)ac_library_folder, &info) || !info.dli_fname) return false;
  if (strchr(info.dli_fname, '/')) {
    if (!realpath(info.dli_fname, found)) return false;
  } else {
    const ssize_t length = readlink("/proc/self/exe", found, sizeof found - 1);
    if (length <= 0) return false;
    found[length] = 0;
  }
  char *end = strrchr(found, '/');
  if (!end || (size_t)(end - found) >= size) return false;
  *end = 0;
  memcpy(path, found, strlen(found) + 1);
  return true;
}
