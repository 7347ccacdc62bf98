/* The last error: one sentence per thread. */
#ifndef AC_CORE_ERROR_H
#define AC_CORE_ERROR_H

#include <accrue/base.h>

#if defined(__GNUC__)
#define AC_PRINTF(index, first) __attribute__((format(printf, index, first)))
#else
#define AC_PRINTF(index, first)
#endif

/* Sets the sentence and returns `status`, so that a failing function can end with
 * `return ac_fail(AC_ERROR_ARGUMENT, "linear: ...", ...)`. */
ac_status ac_fail(ac_status status, const char *format, ...) AC_PRINTF(2, 3);

/* Puts "prefix: " before the sentence that is there, and returns `status`. */
ac_status ac_fail_prefix(ac_status status, const char *format, ...) AC_PRINTF(2, 3);

#define AC_TRY(expression)                            \
  do {                                                \
    ac_status ac_try_status = (expression);           \
    if (ac_try_status != AC_OK) return ac_try_status; \
  } while (0)

/* "412.6 MiB" into text; returns text. */
char *ac_format_bytes(char *text, size_t size, uint64_t bytes);

#endif
