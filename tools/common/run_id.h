/* The name that tells one run, or pilot, from all others. run.json, states, models and metrics have
 * it, so that files of one run are not taken for those of another. */
#ifndef TOOLS_COMMON_RUN_ID_H
#define TOOLS_COMMON_RUN_ID_H

#include <stdbool.h>

enum { RUN_ID_BYTES = 52 };

/* A new one, such as 6b1c4f2a-1d3f5a7-3e9: seconds, nanoseconds and the process. */
void run_id_make(char id[RUN_ID_BYTES]);

/* Whether a text, which may be NULL, has the form of one. */
bool run_id_is_good(const char *text);

/* The run that wrote the metrics of a file. */
typedef enum metrics_owner {
  METRICS_NONE,    /* there is no such file, it is empty, or it cannot be read */
  METRICS_UNNAMED, /* objects of JSON without an id, as older versions wrote them */
  METRICS_NAMED,   /* `id` is set */
  METRICS_STRANGE  /* it holds something else */
} metrics_owner;

/* Looks at the first line. Anything but a regular file is METRICS_NONE. */
metrics_owner metrics_owner_of(const char *path, char id[RUN_ID_BYTES]);

#endif
