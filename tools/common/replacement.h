/* A file that is written beside its place, under a name of its own, and renamed when it is whole:
 * until then an old one stays, and other runs that write the same file are not disturbed. */
#ifndef TOOLS_COMMON_REPLACEMENT_H
#define TOOLS_COMMON_REPLACEMENT_H

#include <stdbool.h>

typedef struct replacement {
  char path[4096], temporary[4096];
} replacement;

/* Makes the empty temporary file. Like all here, leaves the reason in errno where it fails. */
bool replacement_open(replacement *r, const char *path);

/* Fills it with a line of text and syncs it. */
bool replacement_write(const replacement *r, const char *line);

/* Fills it with what another file holds. */
bool replacement_copy(const replacement *r, const char *from);

/* The temporary is gone afterwards, whether it took its place or not. */
bool replacement_commit(replacement *r);
void replacement_abandon(replacement *r);

#endif
