/** @file
 * Learning-rate schedules: a formula gives the rate of each update, so a run can be resumed
 * anywhere. Everything is counted in updates, never in micro-batches, and the first update is 0.
 * Names in brackets are PyTorch's schedulers with the same rates. A schedule that has an end keeps
 * its last rate after it. */
#ifndef ACCRUE_SCHEDULE_H
#define ACCRUE_SCHEDULE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The shape of a schedule. t is the number of updates since the warm-up. Each kind lists the
 * members of ac_schedule that it uses. */
typedef enum ac_schedule_kind {
  AC_SCHEDULE_CONSTANT = 0, /**< lr. */
  /** Half a cosine from lr to min_lr at update `total` [CosineAnnealingLR]. Uses: total. */
  AC_SCHEDULE_COSINE,
  /** A line from lr to min_lr at update `total` [LinearLR]. Uses: total. */
  AC_SCHEDULE_LINEAR,
  /** Half cosines from lr to min_lr, one after another. The first is `period` updates long, and
   * each is `period_factor` times as long as the one before; arXiv 1608.03983
   * [CosineAnnealingWarmRestarts]. Uses: period, period_factor. */
  AC_SCHEDULE_COSINE_RESTARTS,
  /** Up to lr and down again until update `total`; arXiv 1708.07120 [OneCycleLR]. Uses: total,
   * rise, start_divisor, end_divisor, three_phases, anneal, and the momentum. */
  AC_SCHEDULE_ONE_CYCLE,
  /** Between min_lr and lr, up in `period` updates and down in `fall`; arXiv 1506.01186 [CyclicLR].
   * Uses: period, fall, cycle, gamma, and the momentum. */
  AC_SCHEDULE_CYCLIC,
  /** lr gamma^floor(t / period) [StepLR]. Uses: period, gamma. */
  AC_SCHEDULE_STEP,
  /** lr gamma^n after n of the milestones [MultiStepLR]. Uses: milestones, gamma. */
  AC_SCHEDULE_MULTISTEP,
  /** lr gamma^t [ExponentialLR]. Uses: gamma. */
  AC_SCHEDULE_EXPONENTIAL,
  /** lr until the last `decay` updates before `total`, then down to min_lr; arXiv 2404.06395. Uses:
   * total, decay, anneal. */
  AC_SCHEDULE_STABLE_DECAY,
  /** lr sqrt((warmup + 1) / (u + 1)) at update u; arXiv 1706.03762. This is Noam's schedule with a
   * warm-up of warmup + 1 updates and its peak at lr. */
  AC_SCHEDULE_INVERSE_SQRT,
  /** lr gamma^n after validation has stopped improving n times [ReduceLROnPlateau]. Uses: gamma,
   * patience, cooldown, threshold. */
  AC_SCHEDULE_PLATEAU,
  AC_SCHEDULE_COUNT /**< How many kinds there are. */
} ac_schedule_kind;

/** The curve from one rate to another, for x from 0 to 1. */
typedef enum ac_anneal {
  AC_ANNEAL_DEFAULT = 0, /**< One-cycle: cosine. Stable-decay: linear. */
  AC_ANNEAL_COSINE,      /**< Half a cosine. */
  AC_ANNEAL_LINEAR,      /**< A line. */
  AC_ANNEAL_SQRT         /**< 1 - sqrt(x), arXiv 2405.18392. Only for AC_SCHEDULE_STABLE_DECAY. */
} ac_anneal;

/** How high each cycle of AC_SCHEDULE_CYCLIC rises. */
typedef enum ac_cycle {
  AC_CYCLE_TRIANGULAR = 0, /**< To lr. */
  AC_CYCLE_TRIANGULAR2,    /**< Half as high above min_lr as the cycle before. */
  AC_CYCLE_EXP_RANGE       /**< gamma^t times as high above min_lr. */
} ac_cycle;

/** How the rate follows the effective batch, if the rate was found for another batch. */
typedef enum ac_rate_scaling {
  AC_RATE_SCALING_NONE = 0, /**< It does not. */
  AC_RATE_SCALING_LINEAR,   /**< Times batch / base_batch: for SGD, arXiv 1706.02677. */
  AC_RATE_SCALING_SQRT      /**< Times its square root: for AdamW and similar ones. */
} ac_rate_scaling;

/** Most milestones of a schedule. */
#define AC_MAX_MILESTONES 16

/** A learning-rate schedule.
 *
 * 0 means the default. To get a real zero, pass a negative number (lr, rise, momenta, patience,
 * cooldown, threshold).
 *
 * A trainer refuses numbers that are not finite, and other negative numbers, whatever the kind. If
 * the kind uses them it also refuses a min_lr above lr, a missing value without a default, and
 * lengths that do not fit into `total`. There is one exception: a cosine or a line may be nothing
 * but warm-up, and then never reaches lr. */
typedef struct ac_schedule {
  ac_schedule_kind kind; /**< Its shape. */
  /** The highest rate. Default: 1e-3; for SGD 0.1, for Lion 1e-4, for Adafactor 1e-2, for Muon 1e-3
   * or 0.02 (ac_muon_scale). */
  double lr;
  double min_lr; /**< The lowest rate, of all kinds except constant and one-cycle. */
  /** Updates of linear warm-up to the schedule's first rate r. Update u has the rate
   * r (u + 1) / (warmup + 1). */
  int64_t warmup;
  int64_t total;         /**< Updates of the run, with the warm-up. No default. */
  int64_t period;        /**< Updates. No default. */
  int64_t period_factor; /**< How much longer each period is than the one before. Default 1. */
  int64_t fall;          /**< Updates of the way down. Default: as many as the way up. */
  /** Factor on the rate. Default 0.1; for a cyclic schedule 1. An exponential one has no default.
   */
  double gamma;
  int64_t milestones[AC_MAX_MILESTONES]; /**< Updates, with the warm-up, in rising order. */
  int milestone_count;                   /**< How many milestones there are. */
  int64_t decay;                         /**< Updates. Default: a tenth of `total`. */
  ac_anneal anneal;                      /**< The curve of the way down, and up. */
  double rise;          /**< Part of the updates that lead up to lr. Default 0.3. */
  double start_divisor; /**< The first rate is lr / start_divisor. Default 25. */
  double end_divisor;   /**< The last rate is the first rate / end_divisor. Default 1e4. */
  /** Go down to the first rate in as many updates as up, before the rest of the way. */
  bool three_phases;
  ac_cycle cycle; /**< How high each cycle rises. */
  /** One-cycle and cyclic schedules also move SGD's and Muon's momentum, or beta1 of the other
   * optimizers. It is highest where the rate is lowest. This is the lowest value. Default 0.85; for
   * cyclic schedules 0.8. */
  double min_momentum;
  double max_momentum; /**< The highest value of the same. Default 0.95; for cyclic ones 0.9. */
  bool keep_momentum;  /**< Do not move the momentum. */
  /** How many validations in a row may be no better than the best one. The next such validation
   * reduces the rate. Default 10. */
  int64_t patience;
  int64_t cooldown; /**< Validations after a reduction that do not count. Default 0. */
  /** A better loss must be lower than the best loss by this part of it. Default 1e-4. */
  double threshold;
  bool threshold_absolute; /**< `threshold` is a difference of losses, not a part. */
  /** How all rates follow the batch. Only trainers apply it, since they know the batch. */
  ac_rate_scaling scaling;
  int64_t base_batch; /**< Samples. Needed for scaling. */
} ac_schedule;

/** The learning rate of an update. The first update is 0, and a negative number counts as 0.
 * Scaling and reductions on a plateau are left out. It does not know the optimizer, so lr 0 is
 * AdamW's default. 0 if a trainer would refuse the schedule. */
AC_API double ac_schedule_rate(const ac_schedule *schedule, int64_t update);

/** The momentum, or beta1, of an update. -1 if the schedule does not move it, or would be refused.
 */
AC_API double ac_schedule_momentum(const ac_schedule *schedule, int64_t update);

/* ---- may still change ------------------------------------------------------------------------ */

/** A schedule of the caller's own. Returns the learning rate for `update` (the first is 0).
 * `scheduled` is what ac_trainer_desc.schedule would use, with scaling and reductions.
 *
 * If the rate is negative or not finite, as a float and times a group's rate, ac_trainer_update
 * fails with AC_ERROR_ARGUMENT and changes nothing. Each ac_trainer_update and each ac_trainer_rate
 * calls this function. What it keeps is not saved in states: a resumed run has the same bits if the
 * same updates get the same rates. AC_SPIKE_BACK also lowers the rates that it returns. A range
 * test does not use it. */
typedef double (*AC_UNSTABLE(ac_rate_callback))(void *user, int64_t update, double scheduled);

#ifdef __cplusplus
}
#endif
#endif
