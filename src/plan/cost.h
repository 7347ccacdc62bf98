/* How long ops take on a device, predicted from their work:
 *
 *   seconds = launch + flops x per_flop + bytes x per_byte, by op
 *
 * with flops and bytes as the op table has them (ac_op_cost). Ops that do little arithmetic are
 * priced by their bytes alone. Affine in the work, and so in the micro-batch: splitting a batch
 * never looks faster than running it whole. */
#ifndef AC_PLAN_COST_H
#define AC_PLAN_COST_H

#include "backend/device.h"

typedef struct ac_cost_model { /* for one storage type */
  double launch[AC_OP_COUNT];  /* seconds */
  double per_flop[AC_OP_COUNT], per_byte[AC_OP_COUNT];
} ac_cost_model;

/* The device's model for a storage type: measured once (a fraction of a second), kept with the
 * device and on disk beside compiled programs, under a key of device, driver, threads and library
 * version. The dry device has a fixed one. Failing to read or write the disk is no failure; a
 * damaged file is measured anew. */
ac_status ac_cost_model_get(const ac_cost_model **model, ac_device *device, ac_dtype storage);

/* Predicted seconds of one run (handles unset). */
double ac_cost_seconds(const ac_cost_model *model, const ac_op_args *args);

/* The work that one run is priced by. */
ac_cost ac_cost_work(const ac_op_args *args);

/* ---- calibrate.c --------------------------------------------------------------------------------
 */

/* Times the ops on the device; those that it does not support keep what the model holds. The memory
 * is given back, and the account of the device's peak is left as it was. */
ac_status ac_cost_calibrate(ac_cost_model *model, ac_device *device, ac_dtype storage);

/* What is timed: an op with operands of one of these sizes, without handles. False if the device
 * does not run it, or if it is not in the table. */
enum { AC_COST_SIZES = 3 };
bool ac_cost_sample(ac_op_args *args, ac_device *device, ac_dtype storage, ac_op op, int size);
const void *ac_cost_sample_attributes(ac_op op);

#endif
