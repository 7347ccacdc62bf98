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

/* The sentence as it is, and back again: around what may fail without its caller failing, so that
 * the last error stays that of a function that has failed. */
enum { AC_SENTENCE_BYTES = 1024 };
typedef struct ac_kept_error {
  char sentence[AC_SENTENCE_BYTES];
} ac_kept_error;
ac_kept_error ac_error_keep(void);
void ac_error_restore(const ac_kept_error *kept);

#define AC_TRY(expression)                            \
  do {                                                \
    ac_status ac_try_status = (expression);           \
    if (ac_try_status != AC_OK) return ac_try_status; \
  } while (0)

/* Public functions begin with AC_REQUIRE(graph, device): none of these pointers may be NULL.
 * AC_GIVEN is the same as a condition, for functions without a status. The sentence names the first
 * NULL: "ac_plan_create: device is NULL". */
#define AC_GIVEN(...)                                                  \
  ac_given(__func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__}, \
           sizeof((const void *const[]){__VA_ARGS__}) / sizeof(const void *))
#define AC_REQUIRE(...)                                   \
  do {                                                    \
    if (!AC_GIVEN(__VA_ARGS__)) return AC_ERROR_ARGUMENT; \
  } while (0)
/* And those that make something with AC_CREATES(plan): where it fails, the result is NULL. So they
 * make it in a variable of their own, and assign the result last. */
#define AC_CREATES(result) \
  AC_REQUIRE(result);      \
  *(result) = NULL
bool ac_given(const char *function, const char *names, const void *const *pointers, size_t count);

/* What a public function's description says: one that is NULL is one of zeros. */
#define AC_DESCRIBED(type, desc) ((desc) ? *(desc) : (type){0})

/* Whether it is one of the list: a caller's function may return any number. */
bool ac_is_status(ac_status status);

/* "412.6 MiB" into text; returns text. */
char *ac_format_bytes(char *text, size_t size, uint64_t bytes);
/* Rounded up, so that as many bytes as the text says are enough. */
char *ac_format_bytes_needed(char *text, size_t size, uint64_t bytes);

#endif
