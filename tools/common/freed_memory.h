/* Memory that was freed, but is still the process's. */
#ifndef TOOLS_COMMON_FREED_MEMORY_H
#define TOOLS_COMMON_FREED_MEMORY_H

/* Gives it back to the system, and lets large blocks go back at once from now on. The C library
 * would otherwise keep what reading a vocabulary and planning have used for a moment, up to 64 MiB,
 * as long as the program runs. Of use before memory is allocated that stays. */
void freed_memory_return(void);

#endif
