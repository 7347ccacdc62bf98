/* Single ops in device memory, to time them: what calibration and the bench share.
 *
 * A placed op has its operands and workspace one after the other within a chunk of the caller's.
 * They hold valid values, so that an op does what it does in training: ids are below the size of
 * the table that they index; all other values are in [0.5, 1.5), which is an ordinary magnitude in
 * every type. */
#ifndef AC_PLAN_PLACED_OP_H
#define AC_PLAN_PLACED_OP_H

#include "backend/device.h"

enum { AC_TIMING_SLOTS = AC_MAX_INPUTS + AC_MAX_OUTPUTS + 1 };

/* What operands are filled with, by dtype; repeated over an operand. */
typedef struct ac_timing_pattern {
  void *data[AC_DTYPE_COUNT];
  int64_t id_limit; /* of the ids it holds now */
} ac_timing_pattern;

ac_status ac_timing_pattern_create(ac_timing_pattern *pattern);
void ac_timing_pattern_free(ac_timing_pattern *pattern);

typedef struct ac_placed_op {
  ac_op_args args;
  void *view[AC_TIMING_SLOTS];
} ac_placed_op;

/* Bytes that an op takes when it is placed; args->workspace_bytes must be set. */
uint64_t ac_placed_bytes(const ac_device *device, const ac_op_args *args);

/* Lays the op down at an aligned offset of a chunk and fills its operands. On failure too it must
 * be lifted. */
ac_status ac_op_place(ac_placed_op *placed, ac_device *device, const ac_op_args *args, void *chunk,
                      uint64_t offset, ac_timing_pattern *pattern);
void ac_op_lift(ac_placed_op *placed, ac_device *device);

/* Queues `runs` runs, going round among `count` placed ops from *next on, and waits for the last.
 */
ac_status ac_placed_run(ac_device *device, const ac_placed_op *placed, int count, int *next,
                        int64_t runs);

#endif
