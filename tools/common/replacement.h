/* A file that is written next to its place, under a name of its own, and renamed when it is whole:
 * until then an old one stays, and other runs that write the same file are not disturbed.
 *
 * What is at the path decides how:
 *   nothing, or a regular file   the new file takes the place
 *   a symbolic link              stays; what it leads to is replaced, or made where it is missing
 *   a device, a pipe, a socket,  stays; it gets the bytes once they are whole
 *   or what standard output is
 *   a folder                     is refused */
#ifndef TOOLS_COMMON_REPLACEMENT_H
#define TOOLS_COMMON_REPLACEMENT_H

#include <stdbool.h>

enum { REPLACEMENT_PATH = 4096 };

typedef struct replacement {
  char path[REPLACEMENT_PATH];   /* as given */
  char target[REPLACEMENT_PATH]; /* links followed */
  char temporary[REPLACEMENT_PATH];
  bool copied;    /* the target stays, and gets the content of the temporary file */
  int descriptor; /* standard output or error, if the target is that; else -1 */
} replacement;

/* Replaces the path of a symbolic link by its target, which need not exist. */
bool replacement_follow(char path[REPLACEMENT_PATH]);

/* Looks at the path and makes the empty temporary file. Like all functions here, leaves the reason
 * in errno if it fails. */
bool replacement_open(replacement *r, const char *path);

/* Fills it with a line of text and syncs it. */
bool replacement_write(const replacement *r, const char *line);

/* Fills it with the content of another file. */
bool replacement_copy(const replacement *r, const char *from);

/* The temporary file is gone afterwards, whether it replaced the target or not. */
bool replacement_commit(replacement *r);
void replacement_abandon(replacement *r);

/* Does all of that: `to` becomes a copy of `from`, or stays as it is. */
bool replacement_of_file(const char *from, const char *to);

#endif
