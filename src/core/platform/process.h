/* This process: its number, forks, environment variables, and an early end. */
#ifndef AC_CORE_PLATFORM_PROCESS_H
#define AC_CORE_PLATFORM_PROCESS_H

#include <stdbool.h>

int ac_process(void); /* which a fork changes; not 0 */

/* From now on `before` is called in a thread that forks the process, before it does. */
void ac_before_fork(void (*before)(void));

/* Between the two calls these environment variables, each as "NAME=value", are set for the whole
 * process. Unlike setenv this neither changes nor frees what another thread may be reading, such as
 * a driver in its own first use. Only one caller at a time; the settings stay the caller's. False:
 * no memory. */
typedef struct ac_variables {
  const char *const *settings;
  int count;
  char **before, **with;
} ac_variables;
bool ac_variables_begin(ac_variables *variables, const char *const *settings, int count);
void ac_variables_end(const ac_variables *variables);

/* Ends the process with status 1 and a sentence as an error, without memory for that: where nobody
 * can be told, as before main, or in a call of another library that does not return. */
_Noreturn void ac_process_end(const char *sentence);

#endif
