/** @file
 * What files seem to be, for sentences such as «photo.png is a PNG picture, not text». Each reader
 * of the library says this itself about a file that it cannot read. */
#ifndef ACCRUE_FORMAT_H
#define ACCRUE_FORMAT_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** The name of a file's format, such as "a NumPy array" or "text". NULL if it is not known.
 *
 * @param data the first `count` bytes of the file
 * @param count 4096 are enough for most formats; formats without a header are easier to tell from
 *        more
 * @param file_bytes size of the whole file; 0: unknown */
AC_API const char *ac_format_name(const void *data, size_t count, uint64_t file_bytes);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
