/* Learning rates: a number for each update, in closed form, so that a run can go on anywhere. All
 * is counted in updates, never in micro-batches, from update 0 on. The names in brackets are
 * PyTorch's, whose rates these are, but that what has an end stays there. */
#ifndef ACCRUE_SCHEDULE_H
#define ACCRUE_SCHEDULE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* With t the updates since the warm-up. What a kind goes by stands behind it. */
typedef enum ac_schedule_kind {
  AC_SCHEDULE_CONSTANT = 0,
  /* Half a cosine from lr to min_lr at update `total` [CosineAnnealingLR]: total. */
  AC_SCHEDULE_COSINE,
  /* A line from lr to min_lr at update `total` [LinearLR]: total. */
  AC_SCHEDULE_LINEAR,
  /* Half cosines from lr to min_lr, one after the other, the first `period` updates long, each
   * `period_factor` times as long as the one before, arXiv 1608.03983
   * [CosineAnnealingWarmRestarts]: period, period_factor. */
  AC_SCHEDULE_COSINE_RESTARTS,
  /* Up to lr and down again until update `total`, arXiv 1708.07120 [OneCycleLR]: total, rise,
   * start_divisor, end_divisor, three_phases, anneal, and the momentum. */
  AC_SCHEDULE_ONE_CYCLE,
  /* Between min_lr and lr, up in `period` updates and down in `fall`, arXiv 1506.01186 [CyclicLR]:
   * period, fall, cycle, gamma, and the momentum. */
  AC_SCHEDULE_CYCLIC,
  /* lr gamma^floor(t / period) [StepLR]: period, gamma. */
  AC_SCHEDULE_STEP,
  /* lr gamma^n after n of the milestones [MultiStepLR]: milestones, gamma. */
  AC_SCHEDULE_MULTISTEP,
  /* lr gamma^t [ExponentialLR]: gamma. */
  AC_SCHEDULE_EXPONENTIAL,
  /* lr until the last `decay` updates before `total`, then down to min_lr, arXiv 2404.06395: total,
   * decay, anneal. */
  AC_SCHEDULE_STABLE_DECAY,
  /* lr sqrt((warmup + 1) / (u + 1)) at update u, arXiv 1706.03762: what Noam's schedule is with a
   * warm-up of warmup + 1 steps and lr at its peak. */
  AC_SCHEDULE_INVERSE_SQRT,
  /* lr gamma^n once validation has stopped getting better n times [ReduceLROnPlateau]: gamma,
   * patience, cooldown, threshold. */
  AC_SCHEDULE_PLATEAU,
  AC_SCHEDULE_COUNT
} ac_schedule_kind;

/* The way from one rate to another. With x from 0 to 1: */
typedef enum ac_anneal {
  AC_ANNEAL_DEFAULT = 0, /* one-cycle: cosine; stable-decay: linear */
  AC_ANNEAL_COSINE,      /* half a cosine */
  AC_ANNEAL_LINEAR,
  AC_ANNEAL_SQRT /* as 1 - sqrt(x), arXiv 2405.18392; for AC_SCHEDULE_STABLE_DECAY alone */
} ac_anneal;

/* How high a cycle of AC_SCHEDULE_CYCLIC goes. */
typedef enum ac_cycle {
  AC_CYCLE_TRIANGULAR = 0, /* to lr */
  AC_CYCLE_TRIANGULAR2,    /* half as high above min_lr as the one before */
  AC_CYCLE_EXP_RANGE       /* gamma^t as high */
} ac_cycle;

/* How the rate follows the effective batch, where it was found for another one. */
typedef enum ac_rate_scaling {
  AC_RATE_SCALING_NONE = 0,
  AC_RATE_SCALING_LINEAR, /* by batch / base_batch: SGD, arXiv 1706.02677 */
  AC_RATE_SCALING_SQRT    /* by its square root: AdamW and its like */
} ac_rate_scaling;

#define AC_MAX_MILESTONES 16

/* Zero means default; where a zero makes sense beside that, a negative value asks for it (lr, rise,
 * momenta, patience, cooldown, threshold). Refused when a trainer is made, whatever the kind:
 * numbers that are not finite, other negative ones; and of a kind a min_lr above lr, what has no
 * default and is not given, and lengths that do not fit into total; but a cosine or a line may be
 * all warm-up, and then never gets to lr. */
typedef struct ac_schedule {
  ac_schedule_kind kind;
  double lr;             /* the highest; 0: 1e-3, for SGD 0.1, for Lion 1e-4, for Adafactor
                            1e-2, for Muon 1e-3 or 0.02 (ac_muon_scale) */
  double min_lr;         /* the lowest of all kinds but constant and one-cycle */
  int64_t warmup;        /* updates of linear warm-up to the schedule's first rate r: update u gets
                            r (u + 1) / (warmup + 1) */
  int64_t total;         /* updates of the run, warm-up included; no default */
  int64_t period;        /* updates; no default */
  int64_t period_factor; /* default 1 */
  int64_t fall;          /* updates; default: as the way up */
  double gamma; /* default 0.1; of a cyclic schedule 1, and of an exponential one there is none */
  int64_t milestones[AC_MAX_MILESTONES]; /* updates, warm-up included, in rising order */
  int milestone_count;
  int64_t decay; /* updates; default a tenth of `total` */
  ac_anneal anneal;
  double rise;          /* part of the updates that lead up to lr; default 0.3 */
  double start_divisor; /* the first rate is lr by it; default 25 */
  double end_divisor;   /* the last rate is the first by it; default 1e4 */
  bool three_phases;    /* down as long as up, to the first rate, before the rest of the way */
  ac_cycle cycle;
  /* One-cycle and cyclic schedules move SGD's and Muon's momentum and all others' beta1 between
   * these, highest where the rate is lowest. Default 0.85 and 0.95, of cyclic ones 0.8 and 0.9. */
  double min_momentum, max_momentum;
  bool keep_momentum; /* they do not */
  /* Validations that may be no better than the best one, the rate being reduced by the next; and
   * those after a reduction that do not count. Default 10 and 0. */
  int64_t patience, cooldown;
  double threshold;        /* default 1e-4: part of the best loss by which a better one is lower */
  bool threshold_absolute; /* it is no part, but a loss */
  ac_rate_scaling scaling; /* of all rates, by trainers, which know the batch */
  int64_t base_batch;      /* samples; needed for a scaling */
} ac_schedule;

/* The learning rate of update `update`, counted from 0; a negative one counts as 0. Without scaling
 * and reductions on a plateau. It knows no optimizer, so lr 0 is AdamW's default. 0 where a trainer
 * would refuse the schedule. */
AC_API double ac_schedule_rate(const ac_schedule *schedule, int64_t update);

/* The momentum, or beta1, of an update; -1: the schedule moves none, or would be refused. */
AC_API double ac_schedule_momentum(const ac_schedule *schedule, int64_t update);

#ifdef __cplusplus
}
#endif
#endif
