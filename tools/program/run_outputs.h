/* Checks the files that a command writes against its inputs and the files that are there, before
 * anything is opened for writing. */
#ifndef TOOLS_PROGRAM_RUN_OUTPUTS_H
#define TOOLS_PROGRAM_RUN_OUTPUTS_H

#include "program/setup.h"

/* Checks --metrics, --tensorboard, --svg and --out: none is an input (--data, --images, --labels,
 * --init, --policy, --config); each holds only what its own kind of file may replace
 * (common/outputs.h); and in --out only files have the names of a run's files. Flags without effect
 * do not count. A status of message.h. */
int run_outputs_check(const setup *s);

/* Tells the data of the run's outputs, which are not part of it. */
void run_outputs_leave_out(setup *s);

#endif
