/* Memory: pages, and how much of it this process may have. */
#ifndef AC_CORE_PLATFORM_MEMORY_H
#define AC_CORE_PLATFORM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of zeroed memory aligned to at least 4096, or NULL. */
void *ac_pages_allocate(size_t bytes);
void ac_pages_release(void *memory, size_t bytes);

/* Whether so many bytes more could be had now, not all in one piece. */
bool ac_pages_available(uint64_t bytes);

/* Bytes that this process may have: the machine's memory, or what a control group, as of a
 * container, or a limit of the process (ulimit -v, -d) leaves of it. 0: unknown. */
uint64_t ac_physical_memory(void);
/* Bytes that data may still take: three quarters of that memory, less what this process has now.
 * UINT64_MAX: unknown. */
uint64_t ac_memory_left(void);
/* What control groups allow; UINT64_MAX: all. `under` goes before each path: "", but in tests. */
uint64_t ac_group_memory(const char *under);

#endif
