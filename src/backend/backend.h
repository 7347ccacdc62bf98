/* The backend interface: a versioned table of functions. A backend knows ops and memory; it knows
 * nothing of graphs, plans or trainers.
 *
 * Calls on one state come from one thread, but for those on a lane. Work is queued in order: `run`,
 * `run_all`, `upload`, `zero` and `copy` may return before the work is done, but the host memory
 * that they got may be reused at once; `download` and `finish` wait, `finish` for all queues. No
 * call but open, allocate, allocate_host, view, open_lane and prepare may allocate memory, on the
 * host or on the device. */
#ifndef AC_BACKEND_BACKEND_H
#define AC_BACKEND_BACKEND_H

#include <accrue/device.h>

#include "ops/arguments.h"

enum { AC_BACKEND_VERSION = 1 };

/* Queues run at the same time; each keeps the order of its calls. */
typedef enum ac_queue {
  AC_QUEUE_RUN, /* everything but: */
  AC_QUEUE_IN,  /* transfer_in */
  AC_QUEUE_OUT, /* transfer_out */
  AC_QUEUE_COUNT
} ac_queue;

/* Transfers of host memory to and from a device while it computes. */
typedef struct ac_host_memory {
  void *data;
  uint64_t bytes;
  void *owner; /* the backend's */
} ac_host_memory;

typedef struct ac_backend {
  uint32_t version;
  const char *name;
  bool computes_nothing; /* counts memory and calls alone: for planning, no hardware to be listed */
  bool compiles;         /* kernels, in `prepare` or, as drivers may, in a first run */
  bool is_host;          /* computes with the program's own processors and memory */

  /* Number of devices, and the description of one, which costs little. 0 devices (for example
   * because there is no driver) is not an error. */
  int (*count)(void);
  ac_status (*describe)(int index, ac_device_info *info);
  /* Says why, for each driver that offers no device; "": there is no such driver. NULL: nothing. */
  void (*explain)(char *text, size_t size);
  /* Adds to a description what only an open device knows; NULL: nothing. */
  ac_status (*examine)(int index, ac_device_info *info);

  /* `index` < count(). Fills in `info` as describe and examine do. */
  ac_status (*open)(void **state, int index, const ac_device_desc *desc, ac_device_info *info);
  void (*close)(void *state);

  /* One chunk of at most info.max_allocation bytes. Contents undefined. */
  ac_status (*allocate)(void *state, uint64_t bytes, void **chunk);
  void (*release)(void *state, void *chunk, uint64_t bytes);

  /* A handle of [offset, offset + bytes) of a chunk, offset a multiple of info.alignment: what
   * operands hold. */
  ac_status (*view)(void *state, void *chunk, uint64_t offset, uint64_t bytes, void **handle);
  void (*release_view)(void *state, void *handle);

  /* Offsets and sizes in bytes within a view. */
  ac_status (*upload)(void *state, void *handle, uint64_t offset, const void *data, uint64_t bytes);
  ac_status (*download)(void *state, const void *handle, uint64_t offset, void *data,
                        uint64_t bytes);
  ac_status (*zero)(void *state, void *handle, uint64_t bytes);
  ac_status (*copy)(void *state, void *destination, const void *source, uint64_t bytes);

  /* For a device with memory of its own (info.own_memory): host memory of this size, and its
   * transfer to a view and back. A queue waits for another one only if `order` says so: what is
   * queued in `then` from now on waits for all that is queued in `first`, and for what that queue
   * was told to wait for. */
  ac_status (*allocate_host)(void *state, uint64_t bytes, ac_host_memory *memory);
  void (*release_host)(void *state, ac_host_memory *memory);
  ac_status (*transfer_in)(void *state, void *handle, const void *data, uint64_t bytes);
  ac_status (*transfer_out)(void *state, const void *handle, void *data, uint64_t bytes);
  ac_status (*order)(void *state, ac_queue first, ac_queue then);

  /* For a device with memory of its own: a lane, which is the queue of a second thread that moves
   * views while what is queued otherwise runs. It has so many marks. NULL, or a failure: there is
   * none. `mark` is called by the first thread: it means all that it has queued so far. The others
   * are the second thread's: `has_passed` tells whether that has run, and does not wait; a mark
   * that was not set since it last passed has passed. The transfers wait until they are done. */
  ac_status (*open_lane)(void *state, int marks, void **lane);
  void (*close_lane)(void *lane);
  ac_status (*mark)(void *lane, int mark);
  ac_status (*has_passed)(void *lane, int mark, bool *passed);
  ac_status (*lane_upload)(void *lane, void *handle, uint64_t offset, const void *data,
                           uint64_t bytes);
  ac_status (*lane_download)(void *lane, const void *handle, uint64_t offset, void *data,
                             uint64_t bytes);

  /* Whether the op runs here with operands of these dtypes (handles unset). */
  bool (*supports)(void *state, const ac_op_args *args);
  /* Inputs of kind s, as bits, that the op also takes in f32 when the others are stored in
   * `storage`, 16 bits. It rounds them while it reads them, to the same bits. NULL: none. */
  uint32_t (*rounds)(void *state, ac_op op, ac_dtype storage);
  /* Inputs of kind s, as bits, that the op also takes in blocks when the others are stored in
   * `storage`. It decodes them while it reads them. NULL: none; the op cast takes blocks on all
   * backends. */
  uint32_t (*decodes)(void *state, ac_op op, ac_dtype storage);
  /* Scratch bytes for the op at these shapes (handles unset, run->batch the largest micro-batch);
   * must not shrink when a shape grows. */
  uint64_t (*workspace)(void *state, const ac_op_args *args);
  /* Compiles what the op needs, so that the first run does not stall; with handles unset, what does
   * not hang on them. */
  ac_status (*prepare)(void *state, const ac_op_args *args);
  ac_status (*run)(void *state, const ac_op_args *args);
  /* Runs all of these, in any order, some of them at once. They share `run`, and what one writes no
   * other reads or writes, except for workspace. NULL: they are handed to `run`. */
  ac_status (*run_all)(void *state, const ac_op_args *args, int count);
  ac_status (*finish)(void *state);

  /* Device memory objects made so far, and bytes that libraries hold outside the account (0:
   * unknown). */
  uint64_t (*objects)(void *state);
  uint64_t (*library_bytes)(void *state);
} ac_backend;

/* The list of backends. The first one is there on every machine. */
#ifdef AC_HAVE_OPENCL
#define AC_BACKEND_LIST_OPENCL(X) X(opencl)
#else
#define AC_BACKEND_LIST_OPENCL(X)
#endif
#define AC_BACKEND_LIST(X) X(cpu) AC_BACKEND_LIST_OPENCL(X) X(dry)

#define AC_BACKEND_DECLARE(name) extern const ac_backend ac_backend_##name;
AC_BACKEND_LIST(AC_BACKEND_DECLARE)
#undef AC_BACKEND_DECLARE

#endif
