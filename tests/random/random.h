/* Random graphs, trained under random plans, against a reference in double.
 *
 *   recipe      a seed's list of steps, each an op family and a key (draw.c)
 *   graph       what the recipe builds through the public builders, with values for its leaves
 *   reference   forward and backward in double, by a tape over the graph (reference.c, ties.c)
 *   choice      how the library is to train it: plan, device, optimizer (choices.c)
 *   trial       what the library did under a choice (trial.c)
 *   verdict     the two compared (compare.c)
 *
 * Every graph is a pure function of (seed, index), and so are its choices: a failure is repeated by
 * its two numbers. */
#ifndef AC_TESTS_RANDOM_H
#define AC_TESTS_RANDOM_H

#include "ops/driver.h"
#include "ops/generator.h"
#include "optimizer/nodes.h"
#include "window/trainer.h"

#include <stdio.h>

/* ---- recipes and graphs: draw.c -------------------------------------------------------------- */

enum { RANDOM_STEPS = 20, RANDOM_FAMILIES = 64, RANDOM_WINDOWS = 2 };

typedef struct random_step {
  int family; /* in AC_OP_FAMILY_LIST */
  uint64_t key;
} random_step;

typedef struct random_recipe {
  uint64_t key; /* of the first results, the head and the values */
  int64_t batch;
  int step_count;
  random_step steps[RANDOM_STEPS], loss;
} random_recipe;

const char *random_family_name(int family);
int random_family_count(void);
/* The generator of a forward op's gradients. */
const op_generator *random_generator_of(ac_op op);

/* `wanted[family]`: every graph has one of these, if any is set. */
random_recipe random_draw(uint64_t seed, int64_t index, const bool *wanted);

typedef struct random_values { /* of a leaf */
  float *reals;
  int32_t *integers; /* one of the two is NULL */
  void *fed;         /* the same in the type that is fed; NULL: that is theirs */
  int64_t count;     /* of an input, in one sample */
} random_values;

typedef struct random_graph {
  random_recipe recipe;
  op_draw draw;
  ac_graph *graph;
  int *leaf; /* by tensor: its leaf, or -1 */
  random_values values[OP_DRAW_LEAVES];
  int parameter_leaf[OP_DRAW_LEAVES]; /* by the graph's parameter */
  bool couples;                       /* batch norm: how a batch is split matters */
  double rate;                        /* of the updates: the model stays small with it */
} random_graph;

/* False, with ac_last_error, if the recipe builds nothing that can be trained. */
bool random_build(random_graph *g, const random_recipe *recipe, bool hints);
/* Values by the recipe's key and the number of the attempt; RANDOM_WINDOWS windows of samples. */
void random_fill(random_graph *g, int attempt);
void random_free(random_graph *g);
void random_print(FILE *to, const random_graph *g);

/* ---- the reference: reference.c ------------------------------------------------------------ */

typedef struct random_run {
  int64_t first, count, micro_batch; /* samples of the inputs' values */
  uint32_t update;
  bool training;
  /* One rounding of what is stored as the precision says, relative, and of gradients absolute; one
   * of floats. All stored values, leaves included, are off by up to that, drawn by `noise`. 0: none
   * are. */
  double unit, smallest, smallest_gradient;
  uint64_t noise;
  /* By the graph's parameters: all of them a step along a direction; NULL: none. */
  double *const *direction;
  double step;
} random_run;

enum { RANDOM_SEED = 77 }; /* of dropout, and of rounding by chance */

typedef struct random_reference {
  double loss, weight, correct; /* sums */
  double hits, hits_of;         /* of the graph's metric */
  double norm;                  /* of the sum's gradient */
  int parameters;
  int64_t *count;    /* by parameter */
  double **gradient; /* by parameter, of the sum; NULL: the loss does not depend on it */
  double **running;  /* by parameter: batch norm's running statistics after an update; or NULL */
  op_ties ties;
  double largest; /* magnitude of a result or gradient */
} random_reference;

/* `parameters`: values by the graph's parameters, in place of the leaves' own; or NULL. */
void random_evaluate(random_reference *r, const random_graph *g, const random_run *run,
                     float *const *parameters);
/* Holds the reference's gradients against differences of its losses; a sentence if they disagree.
 */
void random_check_reference(const random_graph *g, char *text, size_t size);
void random_reference_free(random_reference *r);

/* ---- choices: choices.c ---------------------------------------------------------------------- */

/* clang-format off */
#define RANDOM_DIMENSIONS(X)                                                                       \
  X(recompute, "none", "all", "low budget", "middle budget", "high budget", "hints")               \
  X(micro_batch, "1", "odd", "whole", "planned")                                                   \
  X(norms, "micro", "exact where they can be")                                                     \
  X(windows, "any", "whole", "fused", "fused locally", "folded")                                   \
  X(read_ahead, "no", "yes", "if room")                                                            \
  X(fit, "no", "yes")                                                                              \
  X(precision, "f32", "f16", "bf16")                                                               \
  X(isa, "base", "v3", "v4")                                                                       \
  X(threads, "1", "2", "3 for all")                                                                \
  X(stream, "no", "yes")                                                                           \
  X(products, "widened", "tiles", "vdpbf16ps", "bfmmla")                                           \
  X(weights, "f32", "bf16 where they can be")                                                      \
  X(copies, "kept", "none", "planned")                                                             \
  X(gradients, "f32", "bf16 where they can be")                                                    \
  X(optimizer, "sgd", "momentum", "nesterov", "adamw", "adamw clipped", "lion", "adafactor",       \
    "muon", "adam-mini", "callback")                                                               \
  X(schedule, "constant", "warm-up", "cosine")                                                     \
  X(scaling, "default", "none", "static")                                                          \
  X(clipping, "norm", "each", "value", "adaptive")                                                 \
  X(frozen, "none", "some", "most")                                                                \
  X(groups, "none", "some")                                                                        \
  X(average, "no", "where it can be")                                                              \
  X(habit, "plain", "discards", "splits calls", "evaluates between", "watches numbers", "session",  \
    "shares weights")
/* clang-format on */

enum random_dimension {
#define RANDOM_DIMENSION(name, ...) RANDOM_##name,
  RANDOM_DIMENSIONS(RANDOM_DIMENSION)
#undef RANDOM_DIMENSION
      RANDOM_DIMENSION_COUNT
};
enum { RANDOM_MOST_LEVELS = 10, RANDOM_CHOICES = 8, RANDOM_BLOCK = 200 };

enum {
  HABIT_PLAIN,
  HABIT_DISCARDS,  /* begins windows with others that it throws away */
  HABIT_SPLITS,    /* accumulates in two calls */
  HABIT_EVALUATES, /* in the middle of windows */
  HABIT_WATCHES,   /* what 16 bits lose */
  HABIT_SESSION,   /* evaluates in a session of its own */
  HABIT_SHARES     /* evaluates in a session that has the trainer's weights */
};
enum {
  RECOMPUTE_NONE,
  RECOMPUTE_ALL,
  RECOMPUTE_LOW,
  RECOMPUTE_MIDDLE,
  RECOMPUTE_HIGH,
  RECOMPUTE_HINTS
};
enum { MICRO_ONE, MICRO_ODD, MICRO_WHOLE, MICRO_PLANNED };
/* Fused if they are micro-batches; locally where nothing is clipped and little overflows, else so.
 * Folded where that is exact and little overflows, else any. */
enum { WINDOWS_ANY, WINDOWS_WHOLE, WINDOWS_FUSED, WINDOWS_LOCAL, WINDOWS_FOLDED };
enum { AHEAD_NO, AHEAD_YES, AHEAD_IF_ROOM };
enum { THREADS_ONE, THREADS_TWO, THREADS_FOR_ALL /* three, and small loops are shared out too */ };
enum { SCHEDULE_CONSTANT, SCHEDULE_WARM_UP, SCHEDULE_COSINE };
enum { SCALING_DEFAULT, SCALING_NONE, SCALING_STATIC };
enum { COPIES_KEPT, COPIES_NONE, COPIES_PLANNED };
enum { FROZEN_NONE, FROZEN_SOME /* each other parameter */, FROZEN_MOST /* three of four */ };
enum {
  OPTIMIZER_SGD,
  OPTIMIZER_MOMENTUM,
  OPTIMIZER_NESTEROV,
  OPTIMIZER_ADAMW,
  OPTIMIZER_CLIPPED,
  OPTIMIZER_LION,
  OPTIMIZER_ADAFACTOR,
  OPTIMIZER_MUON,
  OPTIMIZER_ADAM_MINI, /* it and those before it take weights and gradients in bf16 */
  OPTIMIZER_CALLBACK   /* AdamW */
};

typedef struct random_choice {
  bool hinted; /* the graph has its hints, whatever the policy */
  int level[RANDOM_DIMENSION_COUNT];
  int64_t micro_batch; /* in place of the level's; 0: the level's */
} random_choice;

/* The choices of the index-th graph: over RANDOM_BLOCK graphs every two levels of two dimensions
 * meet. `opencl`: the dimensions that are a CPU's stay at 0. */
void random_choose(random_choice choices[RANDOM_CHOICES], uint64_t seed, int64_t index,
                   bool opencl);
typedef struct random_pairs {
  int seen[RANDOM_DIMENSION_COUNT][RANDOM_MOST_LEVELS][RANDOM_DIMENSION_COUNT][RANDOM_MOST_LEVELS];
} random_pairs;

void random_note(random_pairs *pairs, const random_choice *choice);
/* Prints the pairs of levels that have not met, and returns how many they are. */
int random_print_uncovered(FILE *to, const random_pairs *pairs, bool opencl);
void random_print_choice(FILE *to, const random_choice *choice, bool opencl);
ac_dtype random_storage(const random_choice *choice);

/* ---- groups: groups.c ------------------------------------------------------------------------ */

enum { RANDOM_GROUPS = 2 };

/* The group that a parameter is drawn into; -1: none. */
int random_group_of(const random_choice *choice, const random_graph *g, int parameter);
/* What that has of its own; of none what is so without groups. `clip`: the optimizer's. */
ac_group_settings random_group_settings(int group, double clip);
typedef struct random_names {
  char text[RANDOM_GROUPS][4096];
} random_names;
/* Into a description with an optimizer, which takes its patterns from `names`. */
void random_groups(const random_choice *choice, const random_graph *g, random_names *names,
                   ac_trainer_desc *desc);

/* ---- trials: trial.c, devices.c -------------------------------------------------------------- */

/* Opened when first asked for; the speeds that steer plans are drawn from `key`. NULL, with
 * ac_last_error. */
enum { RANDOM_MOST_RANKS = 4 }; /* each has devices of its own */
ac_device *random_device(const random_choice *choice, bool opencl, uint64_t key, int rank);
void random_close_devices(void);

typedef struct random_window {
  ac_update update;
  float **gradient; /* by parameter; NULL: none */
  float **weights;  /* by parameter, after the update */
} random_window;

typedef struct random_trial {
  ac_status status;
  char message[512];  /* the reason, if status says that it failed */
  random_choice took; /* the choice less what came to nothing */
  int parameters;
  int64_t *count;
  int64_t micro_batch;
  int64_t normalised; /* samples that a batch norm sees at once */
  bool whole_window, rounds_anew;
  ac_gradients gradients;
  bool rounded[OP_DRAW_LEAVES]; /* by parameter: stored in bf16 alone */
  bool summed[OP_DRAW_LEAVES];  /* its gradient is */
  bool frozen[OP_DRAW_LEAVES];  /* by the choice */
  ac_stepping stepping[OP_DRAW_LEAVES];
  ac_dtype factors; /* of Muon's products */
  int64_t recomputed;
  float **start; /* weights before the first update */
  random_window windows[RANDOM_WINDOWS];
  ac_evaluation evaluation;
} random_trial;

/* Trains two windows and evaluates all samples. `hinted` is the same graph with hints. */
void random_try(random_trial *t, const random_graph *g, const random_graph *hinted,
                const random_choice *choice, bool opencl);
/* The same windows, which so many ranks of this process share out: what rank 0 has, if all have the
 * same. Only of what ranks can share out. */
bool random_can_share(const random_graph *g, const random_trial *alone);
void random_try_ranks(random_trial *t, const random_graph *g, const random_graph *hinted,
                      const random_choice *choice, bool opencl, int ranks);
void random_trial_free(random_trial *t);

/* ---- comparing: compare.c, step.c ------------------------------------------------------------ */

typedef struct random_verdict {
  char text[1024]; /* what is wrong; empty: nothing */
} random_verdict;

typedef struct random_counts {
  int64_t graphs, undrawable, trials, near_ties, second_looks, twins, recomputed;
  int64_t without_copies;                /* as a plan chose for a budget */
  int64_t shared[RANDOM_MOST_RANKS + 1]; /* trials by so many ranks */
  int64_t divided;                       /* of these with gradients that ranks divide */
  double worst[3]; /* by precision: the largest error in units of what is allowed */
  char worst_text[3][160];
  random_pairs pairs; /* of the choices that took effect */
} random_counts;

/* A trial against the reference. */
void random_compare(random_verdict *v, random_counts *counts, const random_graph *g,
                    const random_choice *choice, const random_trial *t);
/* Two trials that are to be the same to the bit. */
void random_compare_bits(random_verdict *v, const char *what, const random_graph *g,
                         const random_trial *a, const random_trial *b);
/* Whether the graph's values are far enough from every tie at this precision, and of sensible size;
 * sets the rate of updates. */
bool random_is_far_from_ties(random_graph *g, ac_dtype storage);

/* One step of one parameter in double. */
typedef struct random_stepping {
  int optimizer;
  ac_stepping kind;
  double rate;
  double factor; /* of the gradient: clip / weight */
  double decay;  /* 0: none */
  bool folded;
  ac_dtype factors; /* of Muon's products */
  int update;       /* from 0 */
} random_stepping;
/* Optimizer, schedule and loss scaling; `rate` is the schedule's. */
void random_optimizer(const random_choice *choice, double rate, ac_plan_desc *plan,
                      ac_trainer_desc *trainer);
/* The optimizer's weight decay of a parameter that is in no group. */
double random_decay(const ac_trainer_desc *trainer, const ac_tensor *parameter);
/* What clipping leaves of a parameter's gradient but for a norm of all, and the factor that is then
 * left: 1 where each element was changed. */
void random_clip(const ac_plan_desc *plan, double clip, const ac_tensor *parameter,
                 const float *weights, float *gradient, double *factor);
/* The schedule's at an update, from 0. */
double random_rate(const random_choice *choice, double rate, int update);
/* Weights become those after the step; state[2] has room for as many moments each. `tolerance`: by
 * how much floats may differ. */
void random_step_parameter(const random_stepping *s, const ac_tensor *parameter,
                           const float *gradient, double *weights, double *const state[2],
                           double *tolerance);

/* ---- all of it: check.c, shrink.c ------------------------------------------------------------ */

/* Everything about one recipe. Choices without their bit in `mask` are left out. */
void random_check(random_verdict *v, random_counts *counts, const random_recipe *recipe,
                  const random_choice *choices, unsigned mask, bool opencl, volatile int *at);

#endif
