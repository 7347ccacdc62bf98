#include "common/freed_memory.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void freed_memory_return(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 18); /* which grows by itself otherwise */
  malloc_trim(0);
#endif
}
