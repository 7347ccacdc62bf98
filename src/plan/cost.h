/* How long ops take on a device, predicted from their work:
 *
 *   seconds = launch + flops x per_flop + bytes x per_byte, by op
 *
 * with flops and bytes as the op table has them (ac_op_cost). Ops that do little arithmetic are
 * predicted by their bytes alone (ac_op_work). Affine in the work, and so in the micro-batch:
 * splitting a batch never looks faster than running it whole. */
#ifndef AC_PLAN_COST_H
#define AC_PLAN_COST_H

#include "backend/device.h"
#include "ops/description.h"
#include "plan/plan.h"

typedef struct ac_cost_model { /* for one storage type */
  double launch[AC_OP_COUNT];  /* seconds */
  double per_flop[AC_OP_COUNT], per_byte[AC_OP_COUNT];
  uint64_t known[AC_OP_COUNT]; /* an ac_cost_knowledge */
} ac_cost_model;

/* ESTIMATED: a guess, scaled by what is known of other ops, because there was no time to measure
 * it. */
typedef enum ac_cost_knowledge {
  AC_COST_GUESSED,
  AC_COST_MEASURED,
  AC_COST_ESTIMATED
} ac_cost_knowledge;

/* What is known of the speed of an open device. */
typedef struct ac_cost_account {
  ac_cost_model *models[AC_DTYPE_COUNT]; /* by storage type; NULL until asked for */
  double (*clock)(void);                 /* ac_clock; another in tests of what measures time */
  double spent;                          /* seconds that measuring took, without compiling */
  double per_transferred_byte;           /* 0 until asked for */
} ac_cost_account;

/* The device's, made when first asked for and freed with the device; NULL: there is no memory. */
ac_cost_account *ac_cost_account_of(ac_device *device);

/* How long all measuring of an open device may take, without compiling. */
#define AC_COST_SECONDS 5.0

/* The device's model for a storage type. It knows the ops in `wanted` (NULL: all): they are
 * measured once (together a fraction of a second), and kept with the device and on disk next to
 * compiled programs, under a key of device, driver, threads and library version. What is known does
 * not change while the device is open, so that plans repeat. Estimates are not kept on disk: a
 * device that is opened later measures those ops. The dry device has a fixed model. If the disk
 * cannot be read or written, that is not a failure; if a file is damaged, its ops are measured
 * anew. */
ac_status ac_cost_model_get(const ac_cost_model **model, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT]);

/* What is measured of the ops that are wanted, in this process or by the file on disk, as
 * ac_cost_model_get would find it: nothing is measured. False: some of them are missing. */
bool ac_cost_model_recall(ac_cost_model *model, ac_device *device, ac_dtype storage,
                          const bool wanted[AC_OP_COUNT]);

/* Predicted seconds of one run (handles unset). */
double ac_cost_seconds(const ac_cost_model *model, const ac_op_args *args);
double ac_cost_of_work(const ac_cost_model *model, ac_op op, ac_cost work);
/* Seconds of one run of a step of a training graph with `batch` samples. */
double ac_cost_step_seconds(const ac_cost_model *model, const ac_graph *graph, const ac_step *step,
                            int64_t batch);

/* A middling CPU: 2 microseconds to begin an op, 200 GFLOP/s, 20 GB/s. What the dry device has. */
void ac_cost_guess(ac_cost_model *model);

/* Seconds that a byte takes from host memory to a device with its own, while another goes back:
 * measured once for an open device, with 16 MiB on either side. */
ac_status ac_cost_of_transfers(double *seconds, ac_device *device);

/* ---- calibrate.c --------------------------------------------------------------------------------
 */

/* Times the wanted ops, in at most about `seconds` without compiling. Ops that there is no time for
 * are estimated from the others and from what the device's models know already. Ops that the device
 * does not support keep what the model has. After that all of them are known. The memory is freed,
 * and the device's peak is counted as before. */
ac_status ac_cost_calibrate(ac_cost_model *model, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT], double seconds);

/* What is timed: an op's sample in one of its sizes, without handles. False if the device does not
 * run it, or if it has none. */
bool ac_cost_sample(ac_op_args *args, ac_device *device, ac_dtype storage, ac_op op, int size);
const void *ac_cost_sample_attributes(ac_op op);

#endif
