/* The kernel files cl/NAME.cl with all that they include, embedded at build time by
 * cl/embed.cmake. */
#ifndef AC_OPENCL_SOURCES_H
#define AC_OPENCL_SOURCES_H

#include <stddef.h>

typedef struct ac_cl_source {
  const char *name;          /* without folder and extension */
  const unsigned char *text; /* not terminated */
  size_t length;
} ac_cl_source;

extern const ac_cl_source ac_cl_sources[];
extern const int ac_cl_source_count;

#endif
