/** @file
 * Measuring: what a device can do at best (its roofs), and how near single ops come to that at the
 * shapes of a real model. Work is counted by the op table, which plans use as well.
 *
 * How it measures: a sample is a number of runs that are queued one after another and then waited
 * for. Its time is divided by that number. The result is the median of the samples. The runs of an
 * op use several copies of its operands in turn. Together the copies are larger than a cache, so
 * each run finds its operands in memory, as in an update of a model that is larger than the cache.
 * If the copies of an op do not fill a cache, the op is marked `cached`. */
#ifndef ACCRUE_BENCH_H
#define ACCRUE_BENCH_H

#include <accrue/device.h>
#include <accrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/* ---- measuring ------------------------------------------------------------------------------- */

/** How to measure. Zero means the default. */
typedef struct ac_bench_desc {
  /** Seconds to measure for; default 2. After this time only the rounds begin that `rounds` asks
   * for. They have at most five samples each, and samples do not get longer. */
  double seconds;
  double spread; /**< The wanted spread (ac_bench_timing.spread). Default 0.05. */
  int samples;   /**< Samples in a round, 5 to 1000. Default 15. */
  int rounds;    /**< Least number of rounds, 1 to 1000. Default 2. */
  /** Bytes that all copies of an op's operands take, at least 64 KiB. Default: twice the CPU's
   * last-level cache, but at least 256 MiB and at most a quarter of the device. */
  uint64_t footprint;
} ac_bench_desc;

/** The result of a measurement. */
typedef struct ac_bench_timing {
  double median; /**< Seconds of one run. */
  /** (third quartile - first quartile) / median. If the medians of two rounds, or of two visits,
   * are further apart than that, it is their distance. */
  double spread;
  double least; /**< Seconds of one run in the fastest sample. */
  int samples;  /**< How many samples were taken. */
  int64_t runs; /**< Runs in each sample; of several visits, in the first visit's samples. */
  bool noisy;   /**< The wanted spread was not reached: something else used the machine. */
} ac_bench_timing;

/** Runs something `runs` times and waits for the last run. */
typedef ac_status (*ac_bench_run)(void *user, int64_t runs);

/** Measures `run`. It warms up, then takes rounds of samples until the spread is as small as wanted
 * or the time is over. The samples of each round are twice as long as those of the round before.
 * The result is the round with the least spread. `desc` may be NULL. */
AC_API ac_status ac_bench_measure(ac_bench_timing *timing, const ac_bench_desc *desc,
                                  ac_bench_run run, void *user);

/** Limit of ac_bench_combine. */
enum {
  AC_BENCH_MOST_VISITS = 16 /**< Most measurements that can be combined. */
};

/** Combines several measurements of the same thing, made at different times and in different
 * memory. The median is the median of their medians. The spread is the least of their spreads, or
 * the distance between their lowest and highest median if that is larger. The speed of a machine
 * drifts over minutes, and a single measurement does not show this. Fails unless `count` is from 1
 * to AC_BENCH_MOST_VISITS. */
AC_API ac_status ac_bench_combine(ac_bench_timing *timing, const ac_bench_desc *desc,
                                  const ac_bench_timing *visits, int count);

/* ---- roofs ----------------------------------------------------------------------------------- */

/** Length of the arrays of ac_bench_roofs. */
enum {
  AC_BENCH_PRECISIONS = 3 /**< How many values ac_precision has. */
};

/** The best that a device can do. */
typedef struct ac_bench_roofs {
  /** Flops a second of the best product of square matrices, by ac_precision. 0: the device does not
   * multiply this precision. */
  double flops[AC_BENCH_PRECISIONS];
  int64_t size[AC_BENCH_PRECISIONS]; /**< Rows and columns of that product. */
  /** Bytes a second, read and written, when an array is copied that no cache holds. */
  double bytes;
  uint64_t copied; /**< Bytes of the array that was copied. */
  double launch;   /**< Seconds of an op of one element among many that are queued. */
  double latency;  /**< Seconds of an op of one element, alone and waited for. */
  ac_bench_timing product_timing[AC_BENCH_PRECISIONS]; /**< Timing of the products. */
  ac_bench_timing copy_timing;                         /**< Timing of the copy. */
  ac_bench_timing launch_timing;                       /**< Timing of `launch`. */
  ac_bench_timing latency_timing;                      /**< Timing of `latency`. */
} ac_bench_roofs;

/** Measures all roofs of a device. A copy is never of less than the default footprint. It takes a
 * few seconds, and at most half of the device's memory while it runs. Fails on the device `dry`,
 * which computes nothing. */
AC_API ac_status ac_bench_measure_roofs(ac_bench_roofs *roofs, ac_device *device,
                                        const ac_bench_desc *desc);

/** Measures `bytes`, `copied` and `copy_timing` again, and nothing else. This shows whether the
 * machine is still as fast as before. */
AC_API ac_status ac_bench_measure_copy(ac_bench_roofs *roofs, ac_device *device,
                                       const ac_bench_desc *desc);

/** What limits an op. */
typedef enum ac_bench_bound {
  AC_BOUND_COMPUTE = 0, /**< Flops at the rate of the best product. */
  AC_BOUND_MEMORY,      /**< Bytes at the rate of a copy. */
  AC_BOUND_LAUNCH       /**< The time that it takes to begin. */
} ac_bench_bound;

/** The least time for some work, in seconds: the largest of the times that its flops, its bytes and
 * the launch take by the roofs. `bound` (may be NULL) receives the one that was the largest. */
AC_API double ac_bench_limit(const ac_bench_roofs *roofs, ac_precision precision, double flops,
                             double bytes, ac_bench_bound *bound);

/* ---- single ops ------------------------------------------------------------------------------ */

/** A list of ops with shapes, to be run on one device. No two entries are equal. */
typedef struct ac_bench ac_bench;

/** Creates an empty list. `desc` may be NULL. The device must outlive the list. */
AC_API ac_status ac_bench_create(ac_bench **bench, ac_device *device, const ac_bench_desc *desc);
/** Frees a list. */
AC_API void ac_bench_free(ac_bench *bench);

/** Adds the ops of a plan of the same device: those of one micro-batch and, if the plan is for
 * training, those of an update. The micro-batch adds its gradients to those of others, unless it is
 * a whole window (ac_plan_desc.whole_windows). The plan is not needed afterwards. */
AC_API ac_status ac_bench_add_plan(ac_bench *bench, const ac_plan *plan);
/** Adds the ops of a whole window of a plan. Each op counts as often as all micro-batches run it.
 * The first micro-batch overwrites the gradients, and the last may be smaller than the others. The
 * ops of the update are added as well. */
AC_API ac_status ac_bench_add_window(ac_bench *bench, const ac_plan *plan);
/** Adds all ops of the op table that are not in the list yet, and each function of elements, at a
 * middling shape. */
AC_API ac_status ac_bench_add_others(ac_bench *bench, ac_precision precision);
/** Adds the product y[rows, outputs] = x[rows, inputs] w, without a bias. */
AC_API ac_status ac_bench_add_product(ac_bench *bench, ac_precision precision, int64_t rows,
                                      int64_t inputs, int64_t outputs);

/** One entry of the list. */
typedef struct ac_bench_op {
  const char *op; /**< Its name, such as "layer_norm". */
  /** Shapes of the operands, such as "256x768 768 768 -> 256x768 256x2". `-` is an absent operand,
   * and `+` is one that is added to. Attributes that matter to the work follow: ", b transposed".
   */
  const char *shapes;
  ac_precision precision; /**< How its activations are stored. Its roof depends on this. */
  bool backward;          /**< It is part of the backward pass. */
  bool update;            /**< It is part of the update, and runs once a window. */
  int64_t count;          /**< How often the plan runs it. 0: it is in no plan. */
  double flops;           /**< Flops of one run, by the op table. */
  double bytes;           /**< Bytes of one run, by the op table. */
  uint64_t footprint;     /**< Bytes of all copies of its operands. */
  bool cached;            /**< A cache may hold all copies. */
} ac_bench_op;

/** How many ops the list has. */
AC_API int ac_bench_count(const ac_bench *bench);
/** Describes one op of the list. */
AC_API ac_status ac_bench_get(const ac_bench *bench, int index, ac_bench_op *op);

/** Measures one op of the list. Device memory is held only while it runs. */
AC_API ac_status ac_bench_time(ac_bench *bench, int index, ac_bench_timing *timing);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
