/* `accrue plan --largest`: the largest images, or the longest context, that a budget has room for.
 */
#ifndef TOOLS_PROGRAM_PLAN_LARGEST_H
#define TOOLS_PROGRAM_PLAN_LARGEST_H

#include "program/setup.h"

void plan_largest_flags(options *o);

/* Whether --largest is given, so that there is no plan to make. */
bool plan_largest_is_asked(const options *o);

/* Makes plans of many sizes, and prints the largest that fits, with some that are smaller and the
 * next one. `change` as in setup_plan. A status of message.h. */
int plan_largest(setup *s, void (*change)(ac_plan_desc *desc), bool json);

#endif
