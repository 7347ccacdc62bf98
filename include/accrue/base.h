/* Status codes, the last error, data types, allocator and log hooks: what every header needs. */
#ifndef ACCRUE_BASE_H
#define ACCRUE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(ACCRUE_SHARED)
#ifdef ACCRUE_BUILDING
#define AC_API __declspec(dllexport)
#else
#define AC_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define AC_API __attribute__((visibility("default")))
#else
#define AC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments, of all functions of all headers.
 *
 * - A description (`desc`, ac_schedule, ac_augmentation) that is NULL is one whose fields are all
 *   zero, which means the defaults, and is checked like any other.
 * - NULL is refused with AC_ERROR_ARGUMENT, and a sentence that names function and argument, where
 *   there should be something to work on, something to read, or room for a result, unless the
 *   function's own text allows it. An array of 0 elements may be NULL.
 * - Functions without a status do nothing then and return what is harmless: NULL, 0, false, -1
 *   where an index is looked for, "" for a text. Those that free or close are meant to take NULL.
 *
 * A function that creates something, and fails, sets its result to NULL.
 *
 * A description begins with AC_DEFAULTS, in C and C++, and then has its fields set:
 *
 *   ac_plan_desc policy = AC_DEFAULTS;
 *   policy.batch = 64;
 *
 * C can write ac_plan_desc policy = {.batch = 64} as well. */
#ifdef __cplusplus
#define AC_DEFAULTS \
  {}
#else
#define AC_DEFAULTS \
  { 0 }
#endif

#define AC_VERSION_MAJOR 0
#define AC_VERSION_MINOR 1
#define AC_VERSION_PATCH 0

/* "0.1.0": of the library in use, not of the header compiled against. */
AC_API const char *ac_version(void);

/* One list yields the enum, the names and the texts. Every function that can fail returns one of
 * these: 0 is success, everything else is negative. */
#define AC_STATUS_LIST(X)                                           \
  X(OK, 0, "success")                                               \
  X(ERROR_ARGUMENT, -1, "invalid argument")                         \
  X(ERROR_MEMORY, -2, "out of memory")                              \
  X(ERROR_BUDGET, -3, "the memory budget cannot be met")            \
  X(ERROR_DEVICE, -4, "device failure or no such device")           \
  X(ERROR_UNSUPPORTED, -5, "not supported by this device or build") \
  X(ERROR_IO, -6, "input or output failed")                         \
  X(ERROR_FORMAT, -7, "malformed data")                             \
  X(ERROR_NOT_FINITE, -8, "a loss or gradient is not finite")       \
  X(ERROR_STATE, -9, "called in the wrong state")                   \
  X(ERROR_STOPPED, -10, "stopped by a callback")                    \
  X(ERROR_INTERNAL, -11, "a fault of Accrue's own, found in time")

typedef enum ac_status {
#define AC_STATUS_ENUM(name, value, text) AC_##name = value,
  AC_STATUS_LIST(AC_STATUS_ENUM)
#undef AC_STATUS_ENUM
} ac_status;

/* "AC_ERROR_BUDGET", and its short text. Static strings, for any value. */
AC_API const char *ac_status_name(ac_status status);
AC_API const char *ac_status_text(ac_status status);

/* One sentence about the last failure in the calling thread: names the op, the shapes, the file or
 * the bytes. Never NULL, "" if nothing has failed; valid until the thread's next failing call. What
 * succeeds leaves it as it was, unless its text says otherwise. */
AC_API const char *ac_last_error(void);

/* Element types. AC_F16 and AC_BF16 are storage types; arithmetic is in float. */
typedef enum ac_dtype { AC_F32 = 0, AC_F16, AC_BF16, AC_I32, AC_U8, AC_DTYPE_COUNT } ac_dtype;

AC_API size_t ac_dtype_bytes(ac_dtype dtype);
AC_API const char *ac_dtype_name(ac_dtype dtype); /* "f32", "f16", "bf16", "i32", "u8" */

/* Where a CPU device takes the memory that tensors live in. `allocate` returns NULL on failure;
 * memory that is not aligned as was asked is released at once, and refused with AC_ERROR_ARGUMENT.
 * `release` is handed the size that was asked for. */
typedef struct ac_allocator {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *memory, size_t bytes);
  void *user;
} ac_allocator;

typedef enum ac_log_level { AC_LOG_DEBUG, AC_LOG_INFO, AC_LOG_WARNING } ac_log_level;

/* Receives one line without a newline. The library itself never prints. A line that ends in "..."
 * announces what may take a while, such as "opencl:0: measuring linear (3 of 45)..."; the next one
 * that does not says that it is done, or that it failed. So do plans, trainers and sessions on
 * devices that compile kernels, when they are made and when they first run. */
typedef void (*ac_log_callback)(void *user, ac_log_level level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
