/* The environment variables of devices that are Accrue's own, listed in
 * docs/reference/environment.md. */
#ifndef AC_BACKEND_ENVIRONMENT_H
#define AC_BACKEND_ENVIRONMENT_H

#include <accrue/base.h>

/* AC_ERROR_ARGUMENT where one has a value that it cannot have. What is empty counts as not set. */
ac_status ac_environment_check(void);

#endif
