/** @file
 * What every header needs: status codes, the last error, data types, and hooks for memory and logs.
 *
 * Rules for the arguments of all functions of all headers:
 *
 * - A description (`desc`, ac_schedule, ac_augmentation) may be NULL. It then counts as one with
 *   all members zero, which means the defaults, and is checked like any other.
 * - Any other NULL is refused with AC_ERROR_ARGUMENT and a sentence that names the function and the
 *   argument, unless the text of the function allows it. An array of 0 elements may be NULL.
 * - Functions without a status do nothing on NULL. They return something harmless: NULL, 0, false,
 *   "" for a text, or -1 for an index that was looked for. Functions that free or close accept
 *   NULL.
 *
 * A function that creates something sets its result to NULL if it fails.
 *
 * Start a description with AC_DEFAULTS, in C and in C++. Then set its members:
 *
 *     ac_plan_desc policy = AC_DEFAULTS;
 *     policy.batch = 64;
 *
 * C can also write `ac_plan_desc policy = {.batch = 64}`. */
#ifndef ACCRUE_BASE_H
#define ACCRUE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** @def AC_API
 * Marks the functions that the library exports. Programs do not need it. */
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

/** @def AC_UNSTABLE
 * Around a name that may still change, if the layout of a type needs it. With AC_STABLE_ONLY it
 * makes another name of it. Programs do not need it. */
#ifdef AC_STABLE_ONLY
#define AC_UNSTABLE(name) name##_may_still_change
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#endif
#else
#define AC_UNSTABLE(name) name
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** @def AC_DEFAULTS
 * Initialises a description: all members are zero, which means the defaults. */
#ifdef __cplusplus
#define AC_DEFAULTS \
  {}
#else
#define AC_DEFAULTS \
  { 0 }
#endif

#define AC_VERSION_MAJOR 0 /**< First number of the version of these headers. */
#define AC_VERSION_MINOR 1 /**< Second number of the version of these headers. */
#define AC_VERSION_PATCH 0 /**< Third number of the version of these headers. */

/** The version of the library in use, such as "0.1.0". It may differ from the headers' version. */
AC_API const char *ac_version(void);

/** All status codes: X(name, value, text) for each. The enum, the names and the texts are made from
 * this list. */
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

/** What every function that can fail returns: 0 is success, everything else is negative. */
typedef enum ac_status {
#define AC_STATUS_ENUM(name, value, text) AC_##name = value,
  AC_STATUS_LIST(AC_STATUS_ENUM)
#undef AC_STATUS_ENUM
} ac_status;

/** @def AC_STATUS_ENUM
 * Makes an enumerator from an entry of the list. It exists only within this header. */
/** @var ac_status AC_OK
 * Success. */
/** @var ac_status AC_ERROR_ARGUMENT
 * An argument is wrong. */
/** @var ac_status AC_ERROR_MEMORY
 * There is not enough memory on the host or on the device. */
/** @var ac_status AC_ERROR_BUDGET
 * No plan fits the memory budget. */
/** @var ac_status AC_ERROR_DEVICE
 * The device failed, or there is no such device. */
/** @var ac_status AC_ERROR_UNSUPPORTED
 * This device or this build cannot do it. */
/** @var ac_status AC_ERROR_IO
 * Reading or writing a file failed. */
/** @var ac_status AC_ERROR_FORMAT
 * The data are malformed: damaged, or in another format. */
/** @var ac_status AC_ERROR_NOT_FINITE
 * A loss, gradient or parameter is infinite or NaN. */
/** @var ac_status AC_ERROR_STATE
 * The function cannot be called now. */
/** @var ac_status AC_ERROR_STOPPED
 * A callback of the caller stopped it. */
/** @var ac_status AC_ERROR_INTERNAL
 * Accrue found a fault of its own. */

/** The name of a status, such as "AC_ERROR_BUDGET". A static string for any value. */
AC_API const char *ac_status_name(ac_status status);
/** The short text of a status, such as "out of memory". A static string for any value. */
AC_API const char *ac_status_text(ac_status status);

/** One sentence about the last failure in the calling thread. It names the op, the shapes, the file
 * or the bytes. Never NULL; "" if nothing has failed. It is valid until the next call that fails in
 * this thread. A call that succeeds leaves it as it is, unless its text says otherwise. */
AC_API const char *ac_last_error(void);

/** Types of elements. AC_F16 and AC_BF16 are for storage; arithmetic is in float. */
typedef enum ac_dtype {
  AC_F32 = 0,    /**< 32-bit floats. */
  AC_F16,        /**< 16-bit floats: IEEE half precision. */
  AC_BF16,       /**< 16-bit floats: the upper half of an f32. */
  AC_I32,        /**< 32-bit signed integers. */
  AC_U8,         /**< Bytes. */
  AC_I64,        /**< 64-bit signed integers: what is fed or given may be. */
  AC_DTYPE_COUNT /**< How many types there are. Where a type is shown, it means «none». */
} ac_dtype;

/** Bytes of one element. 0 if there is no such type. */
AC_API size_t ac_dtype_bytes(ac_dtype dtype);
/** The name of a type: "f32", "f16", "bf16", "i32", "u8", "i64". */
AC_API const char *ac_dtype_name(ac_dtype dtype);

/** Where a CPU device takes the memory of tensors from. */
typedef struct ac_allocator {
  /** Returns memory with this alignment, or NULL on failure. Memory that is not aligned as asked is
   * released at once, and the call fails with AC_ERROR_ARGUMENT. */
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  /** Takes memory back. `bytes` is the size that was asked for. */
  void (*release)(void *user, void *memory, size_t bytes);
  void *user; /**< Passed to both functions. */
} ac_allocator;

/** How important a line of the log is. */
typedef enum ac_log_level {
  AC_LOG_DEBUG,  /**< Details for developers. */
  AC_LOG_INFO,   /**< Progress of what may take long. */
  AC_LOG_WARNING /**< Something works less well than it could. */
} ac_log_level;

/** Receives one line without a newline. The library itself never prints.
 *
 * A line that ends in "..." announces work that may take a while, such as "opencl:0: measuring
 * linear (3 of 45)...". The next line without "..." says that the work is done, or has failed.
 * Plans, trainers and sessions on devices that compile kernels also announce this work, when they
 * are made and when they first run. */
typedef void (*ac_log_callback)(void *user, ac_log_level level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
