/* What files seem to be, for sentences such as «photo.png is a PNG picture, not text». Each reader
 * of the library says so itself of a file that it cannot take. May still change. */
#ifndef ACCRUE_FORMAT_H
#define ACCRUE_FORMAT_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a file's format, such as "a NumPy array" or "text"; NULL where it is not known.
 * `data` holds the first `count` bytes of the file: 4096 are enough for all formats but those
 * without a header, which show better in more. `file_bytes` is the size of the whole file; 0:
 * unknown. */
AC_API const char *ac_format_name(const void *data, size_t count, uint64_t file_bytes);

#ifdef __cplusplus
}
#endif
#endif
