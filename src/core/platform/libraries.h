/* Shared libraries. */
#ifndef AC_CORE_PLATFORM_LIBRARIES_H
#define AC_CORE_PLATFORM_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* NULL if it cannot be loaded; `why`, which may be NULL, then has the reason. */
void *ac_library_open(const char *name, char *why, size_t size);
bool ac_library_is_open(const char *name);
void *ac_library_symbol(void *library, const char *name);
/* The folder of the library that has this code, or of the program if it is linked into that. False:
 * unknown, or too long. */
bool ac_library_folder(char *path, size_t size);

#endif
