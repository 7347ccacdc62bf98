/* A run's flags as hyperparameters: numbers, texts and booleans that say what was trained, without
 * those that say only where files are or how the run is watched. */
#ifndef TOOLS_PROGRAM_HYPERPARAMETERS_H
#define TOOLS_PROGRAM_HYPERPARAMETERS_H

#include <accrue/plan.h>
#include <jansson.h>

/* Of a run's record. NULL for want of memory. */
json_t *hyperparameters(const json_t *record, const ac_plan_info *plan);

#endif
