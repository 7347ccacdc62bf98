/* Good states in a run's folder: good.safetensors, which --on-spike back goes back to, and with
 * each state of the run the good state of that time, under another name for the same file. */
#ifndef TOOLS_PROGRAM_GOOD_STATE_H
#define TOOLS_PROGRAM_GOOD_STATE_H

#include "program/run_folder.h"

#include <stdbool.h>

#define GOOD_STATE "good.safetensors"

/* Keeps the present good state for the state of an update, or brings back that of an update. If
 * there is none, they do nothing. False, with the reason in errno. */
bool good_state_keep(const run_folder *folder, int64_t step);
bool good_state_restore(const run_folder *folder, int64_t step);

#endif
