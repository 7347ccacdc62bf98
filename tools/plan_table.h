/* The memory plan as a table for people, on stderr. */
#ifndef TOOLS_PLAN_TABLE_H
#define TOOLS_PLAN_TABLE_H

#include <accrue/plan.h>

void plan_table(const ac_device_info *device, const ac_plan_info *plan);

#endif
