/* Corrects checksums of safetensors files that were changed, so that the checks after them meet the
 * change. */
#ifndef AC_TESTS_CHECKSUMS_H
#define AC_TESTS_CHECKSUMS_H

#include <stddef.h>

/* Whatever the file is; what has no room for checksums stays as it is. */
void put_checksums_right(unsigned char *file, size_t bytes);

#endif
