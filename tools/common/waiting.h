/* Reports work of the library that takes long: a bar on a terminal, otherwise a line now and then.
 */
#ifndef TOOLS_COMMON_WAITING_H
#define TOOLS_COMMON_WAITING_H

#include <accrue/base.h>

/* The log callback of a device; `user` is not used. */
void waiting_log(void *user, ac_log_level level, const char *line);

#endif
