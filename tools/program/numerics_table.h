/* What --debug-numerics prints: by layer and direction, how many values were stored in 16 bits and
 * how many of them were lost. */
#ifndef TOOLS_PROGRAM_NUMERICS_TABLE_H
#define TOOLS_PROGRAM_NUMERICS_TABLE_H

#include <accrue/accrue.h>

/* Writes to stderr; says so where nothing is stored in 16 bits. */
void numerics_table(const ac_trainer *trainer);

#endif
