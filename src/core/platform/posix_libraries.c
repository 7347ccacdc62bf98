/* POSIX. */
#include "core/platform/libraries.h"

#include <dlfcn.h>
#include <stdio.h>

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
