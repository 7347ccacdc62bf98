/* Files that a model goes with, such as its tokenizer's, carried along from the folder of --init.
 */
#ifndef TOOLS_PROGRAM_CARRY_H
#define TOOLS_PROGRAM_CARRY_H

#include "program/run_folder.h"

#include <stdbool.h>

/* Copies those of `names` (ends with NULL) that lie beside the file `init` into the run's folder.
 * Others of these names that are there stay, unless `replace`. What cannot be copied is said, and
 * costs the run nothing else. */
void carry_files(const char *const *names, const char *init, const run_folder *folder,
                 bool replace);

#endif
