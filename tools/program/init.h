/* The files of examples/template, which the build puts into the program. */
#ifndef TOOLS_PROGRAM_INIT_H
#define TOOLS_PROGRAM_INIT_H

#include <stddef.h>

typedef struct project_file {
  const char *name;
  const unsigned char *bytes;
  size_t size;
} project_file;

extern const project_file project_files[];
extern const int project_file_count;

#endif
