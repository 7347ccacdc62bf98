/* Files that belong to a model, such as its tokenizer's, copied from the folder of --init.
 */
#ifndef TOOLS_PROGRAM_CARRY_H
#define TOOLS_PROGRAM_CARRY_H

#include "program/run_folder.h"

#include <stdbool.h>

/* Copies the files of `names` (ends with NULL) that are next to the file `init` into the run's
 * folder. Files of these names in the run's folder stay, unless `replace`. If a file cannot be
 * copied, a message says so, and the run goes on. */
void carry_files(const char *const *names, const char *init, const run_folder *folder,
                 bool replace);

#endif
