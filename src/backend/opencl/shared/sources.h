/* The files of cl/, embedded at build time by cl/embed.cmake. */
#ifndef AC_OPENCL_SOURCES_H
#define AC_OPENCL_SOURCES_H

#include <stddef.h>

typedef struct ac_cl_text {
  const unsigned char *bytes; /* not terminated */
  size_t length;
} ac_cl_text;

enum { AC_CL_MAX_PARTS = 8 };

/* A kernel file: what it includes, and then its own text. */
typedef struct ac_cl_source {
  const char *name; /* without folder and extension */
  const ac_cl_text *parts[AC_CL_MAX_PARTS];
  int part_count;
} ac_cl_source;

extern const ac_cl_source ac_cl_sources[];
extern const int ac_cl_source_count;

#endif
