/* Flags that contradict each other, or have no meaning with the values of others, as docs/flags
 * says. */
#ifndef TOOLS_COMMON_FLAG_RULES_H
#define TOOLS_COMMON_FLAG_RULES_H

#include "common/options.h"

/* STATUS_CONTINUE, or STATUS_USAGE after one sentence. A flag that only a record gives is left
 * alone: it had a meaning in the run that is recorded. */
int flag_rules_check(const options *o);

#endif
