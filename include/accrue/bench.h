/* Measuring: what a device can do at best (its roofs), and how near to that single ops come at the
 * shapes of a real model. Every count of work is the op table's, the one that plans are measured
 * by.
 *
 * What is measured: the median of samples, each a number of runs queued one after another and
 * waited for, divided by that number. The runs of an op go round among copies of its operands that
 * together are larger than a cache, so each run finds its operands in memory, as in a training step
 * of a model larger than the cache. Ops so small that their copies do not fill a cache are marked
 * `cached`.
 *
 * May still change. */
#ifndef ACCRUE_BENCH_H
#define ACCRUE_BENCH_H

#include <accrue/device.h>
#include <accrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- measuring ------------------------------------------------------------------------------- */

/* Zero means the default. */
typedef struct ac_bench_desc {
  double seconds; /* after which only rounds begin that there are at least, and no round has more
                     than five samples nor longer ones than the round before; default 2 */
  double spread;  /* wanted; default 0.05 */
  int samples;    /* in a round, 5 to 1000; default 15 */
  int rounds;     /* at least, 1 to 1000; default 2 */
  uint64_t
      footprint; /* bytes that an op's runs go round in, 64 KiB or more; default: twice the
                    CPU's last-level cache, 256 MiB at least; a quarter of the device at most */
} ac_bench_desc;

typedef struct ac_bench_timing {
  double median; /* seconds of one run */
  double spread; /* (third quartile - first quartile) / median, or, if that is more, how far the
                    medians of two rounds of samples, or of visits, are apart */
  double least;
  int samples;
  int64_t runs; /* in each sample; of several visits, in the first's */
  bool noisy;   /* the wanted spread was not reached: something else used the machine */
} ac_bench_timing;

/* Runs something `runs` times and waits for the last. */
typedef ac_status (*ac_bench_run)(void *user, int64_t runs);

/* Warms up, then takes rounds of samples until the spread is as small as wanted or the time is
 * over; until then each round's samples are twice as long as those of the one before. The timing is
 * that of the round with the least spread. `desc` may be NULL. */
AC_API ac_status ac_bench_measure(ac_bench_timing *timing, const ac_bench_desc *desc,
                                  ac_bench_run run, void *user);

enum { AC_BENCH_MOST_VISITS = 16 };

/* What several measurements of the same, made at different times and in different memory, say
 * together: the median of their medians; the least of their spreads or, if that is more, how far
 * the lowest and the highest of their medians are apart. The speed of a machine drifts over
 * minutes, which no single measurement shows. Fails unless there are 1 to AC_BENCH_MOST_VISITS. */
AC_API ac_status ac_bench_combine(ac_bench_timing *timing, const ac_bench_desc *desc,
                                  const ac_bench_timing *visits, int count);

/* ---- roofs ----------------------------------------------------------------------------------- */

enum { AC_BENCH_PRECISIONS = 3 }; /* those of ac_precision */

typedef struct ac_bench_roofs {
  /* The best product of square matrices, by ac_precision; 0: the device does not multiply it. */
  double flops[AC_BENCH_PRECISIONS]; /* a second */
  int64_t size[AC_BENCH_PRECISIONS]; /* rows and columns of that product */
  double bytes;                      /* a second, read and written, copying what no cache holds */
  uint64_t copied;                   /* bytes of the array that was copied */
  double launch;  /* seconds that an op of one element takes among many that are queued */
  double latency; /* and alone, waited for */
  ac_bench_timing product_timing[AC_BENCH_PRECISIONS], copy_timing, launch_timing, latency_timing;
} ac_bench_roofs;

/* Copies are never of less than the default footprint. Takes some seconds and at most half of the
 * device's memory, for that long. Fails on the device `dry`, which computes nothing. */
AC_API ac_status ac_bench_measure_roofs(ac_bench_roofs *roofs, ac_device *device,
                                        const ac_bench_desc *desc);

/* Measures `bytes`, `copied` and `copy_timing` alone anew, for instance to see whether the machine
 * still is as it was. */
AC_API ac_status ac_bench_measure_copy(ac_bench_roofs *roofs, ac_device *device,
                                       const ac_bench_desc *desc);

typedef enum ac_bench_bound {
  AC_BOUND_COMPUTE = 0, /* flops at the rate of the best product */
  AC_BOUND_MEMORY,      /* bytes at the rate of a copy */
  AC_BOUND_LAUNCH       /* the time that it takes to begin */
} ac_bench_bound;

/* The least time for some work: the largest of what flops, bytes and the launch take by the roofs.
 * `bound` (may be NULL) receives which it is. */
AC_API double ac_bench_limit(const ac_bench_roofs *roofs, ac_precision precision, double flops,
                             double bytes, ac_bench_bound *bound);

/* ---- single ops ------------------------------------------------------------------------------ */

/* A list of ops at shapes, each different from the others, to be run on one device. */
typedef struct ac_bench ac_bench;

/* `desc` may be NULL. The device must outlive the list. */
AC_API ac_status ac_bench_create(ac_bench **bench, ac_device *device, const ac_bench_desc *desc);
AC_API void ac_bench_free(ac_bench *bench);

/* The ops of a plan of the same device: of one micro-batch, which adds its gradients to those of
 * others unless it is a whole window (ac_plan_desc.whole_windows), and, if it is for training, of
 * an update. The plan is not needed afterwards. */
AC_API ac_status ac_bench_add_plan(ac_bench *bench, const ac_plan *plan);
/* The same of a whole window: each op as often as all its micro-batches run it, of which the first
 * overwrites the gradients and the last may be smaller than the others, and of its update. */
AC_API ac_status ac_bench_add_window(ac_bench *bench, const ac_plan *plan);
/* Those ops of the op table that are not in the list yet, at a middling shape. */
AC_API ac_status ac_bench_add_others(ac_bench *bench, ac_precision precision);
/* y[rows, outputs] = x[rows, inputs] w, without a bias. */
AC_API ac_status ac_bench_add_product(ac_bench *bench, ac_precision precision, int64_t rows,
                                      int64_t inputs, int64_t outputs);

typedef struct ac_bench_op {
  const char *op;         /* "layer_norm" */
  const char *shapes;     /* "256x768 768 768 -> 256x768 256x2"; -: absent, +: added to; then
                             attributes that matter to the work: ", b transposed" */
  ac_precision precision; /* how its activations are stored, which its roof depends on */
  bool backward, update;  /* an update's op runs once a window */
  int64_t count;          /* times that the plan runs it; 0: in no plan */
  double flops, bytes;    /* of one run, by the op table */
  uint64_t footprint;     /* bytes that the runs go round in */
  bool cached;            /* a cache may hold these */
} ac_bench_op;

AC_API int ac_bench_count(const ac_bench *bench);
AC_API ac_status ac_bench_get(const ac_bench *bench, int index, ac_bench_op *op);

/* Measures one of them; device memory is held only meanwhile. */
AC_API ac_status ac_bench_time(ac_bench *bench, int index, ac_bench_timing *timing);

#ifdef __cplusplus
}
#endif
#endif
