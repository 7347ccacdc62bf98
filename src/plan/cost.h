/* How long ops take on a device, predicted from their work: seconds = launch + work x per_unit, by
 * op. Affine in the work, and so in the micro-batch: splitting a batch never looks faster than
 * running it whole.
 *
 * Work is flops for the ops that multiply matrices (linear*, matmul, attention*), else bytes moved,
 * both from the op table (ac_op_cost). The two constants of an op come from timing it at two sizes.
 */
#ifndef AC_PLAN_COST_H
#define AC_PLAN_COST_H

#include "backend/device.h"

typedef struct ac_cost_model {
  double launch[AC_OP_COUNT]; /* seconds */
  double per_flop[AC_OP_COUNT], per_byte[AC_OP_COUNT];
} ac_cost_model;

/* The device's model: measured once (a fraction of a second), kept with the device and on disk
 * beside compiled programs, under a key of device, driver, threads and library version. The dry
 * device has a fixed one. Failing to read or write the disk is no failure; a damaged file is
 * measured anew. */
ac_status ac_cost_model_get(const ac_cost_model **model, ac_device *device);

/* Predicted seconds of one run (handles unset). */
double ac_cost_seconds(const ac_cost_model *model, const ac_op_args *args);

/* The work that one run is priced by. */
ac_cost ac_cost_work(const ac_op_args *args);

/* ---- calibrate.c ----------------------------------------------------------------------------- */

/* Times every op on the device, in one chunk of memory that is given back before it returns; the
 * device's account of the peak is as it was. */
ac_status ac_cost_calibrate(ac_cost_model *model, ac_device *device);

#endif
