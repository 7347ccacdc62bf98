/* The memory plan as a table for people. */
#ifndef TOOLS_PROGRAM_PLAN_TABLE_H
#define TOOLS_PROGRAM_PLAN_TABLE_H

#include <accrue/plan.h>

/* On stderr. `picture_bytes`: what data_picture_bytes says. */
void plan_table(const ac_device_info *device, const ac_plan_info *plan, uint64_t picture_bytes);

/* As lines of text; returns `text`. */
enum { PLAN_TABLE_BYTES = 2048 };
const char *plan_table_text(char *text, size_t size, const ac_device_info *device,
                            const ac_plan_info *plan, uint64_t picture_bytes);

#endif
