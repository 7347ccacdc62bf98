/* Files that the program reads itself: records, policies, metrics. They must be regular files:
 * pipes, for which it would wait without end, and devices are refused at once. */
#ifndef TOOLS_COMMON_FILE_H
#define TOOLS_COMMON_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* STATUS_CONTINUE; or STATUS_FAILED after a message why `path` cannot be read. */
int file_open(FILE **stream, const char *path);

/* Whether the file's content may be kept in memory: it has at most half of the machine's memory. */
bool file_fits(FILE *stream);

/* Lines of a file that may be of any length, up to 64 MiB, which no line of metrics comes near. */
typedef struct file_lines {
  FILE *stream;
  char *text; /* the line, with its line break */
  size_t length;
  size_t room; /* of `text` */
  int error;   /* an errno; 0: none */
} file_lines;
bool file_next_line(file_lines *lines);
/* Frees the line and leaves the stream open. NULL, or why the file was not read to its end. */
const char *file_end_lines(file_lines *lines);

/* The same as file_open without a message: NULL, and *why has it. */
FILE *file_try(const char *path, const char **why);

#endif
