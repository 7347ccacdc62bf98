/* `accrue plan --names`: the model's parameters, for patterns of --freeze and --group. */
#ifndef TOOLS_PROGRAM_PLAN_NAMES_H
#define TOOLS_PROGRAM_PLAN_NAMES_H

#include "program/setup.h"

/* A table on stdout. A group that matches no parameter is told. A status of message.h. */
int plan_names_print(const setup *s);

/* The same as a list; NULL for want of memory. */
json_t *plan_names_json(const setup *s);

#endif
