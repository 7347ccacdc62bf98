/* The optimizers, a row each: what others ask of an optimizer is a column, and nobody asks which
 * one it is. A row is in the file of its optimizer, and list.h names the files. */
#ifndef AC_OPTIMIZER_OPTIMIZER_H
#define AC_OPTIMIZER_OPTIMIZER_H

#include <accrue/plan.h>

#include "graph/graph.h"

#include <stddef.h>

enum { AC_MAX_STATES = AC_MAX_CALLBACK_STATES, AC_STEP_BYTES = 64 };

struct ac_fold_attributes; /* ops/update/fold.h */
typedef struct ac_optimizer_row ac_optimizer_row;

/* How one parameter is stepped, and what is kept for it from window to window. */
typedef struct ac_stepping {
  const ac_optimizer_row *row; /* not that of the plan where this leaves the parameter to another */
  bool folds;                  /* what is folded goes into its first state, by which it is then
                                  stepped */
  int states;
  struct {
    ac_dtype dtype;
    ac_shape shape;
  } state[AC_MAX_STATES];
} ac_stepping;

/* What the arguments of a step are computed from, in double. They are rounded to a float once: a
 * difference such as 1 - beta of two floats would have few correct digits, or none. */
typedef struct ac_step_numbers {
  const ac_optimizer_desc *optimizer; /* with the momentum of the schedule */
  const ac_tensor *parameter;
  ac_precision precision;
  double update; /* from 1 on */
  double factor; /* of the gradient: unscale, clip and divide in one */
  double rate, weight_decay;
} ac_step_numbers;

/* Which elements of a parameter a step may take alone. */
typedef enum ac_step_part {
  AC_STEP_RANGE, /* any range; of state in 8 bits whole blocks */
  AC_STEP_ROWS,  /* all that makes some of a layer's outputs: rows, or columns
                    (ac_optimizer_by_column); of a vector all */
  AC_STEP_WHOLE
} ac_step_part;

/* How a gradient becomes part of the state when it comes, instead of being kept (window/folded.c).
 */
typedef struct ac_fold_rule {
  const char *(*refuses)(const ac_optimizer_desc *o); /* says why it cannot; NULL: it can */
  bool (*looks_ahead)(const ac_optimizer_desc *o);    /* it then needs the gradient; NULL: never */
  /* Changes a fold that adds gradients to the first state and keeps all of it. `first`: of a
   * window's micro-batches. */
  void (*fold)(const ac_optimizer_desc *o, bool first, struct ac_fold_attributes *fold);
  void (*step)(void *arguments); /* makes them those of a step by what was folded */
} ac_fold_rule;

struct ac_optimizer_row {
  const char *name, *words; /* "adam-mini", and in sentences "Adam-mini" */

  /* Its step. */
  ac_op step;            /* of a caller's own: the op that leaves the gradient to step by */
  size_t argument_bytes; /* AC_STEP_ARGUMENTS of their type */
  bool hands_over;       /* the caller computes the step, in double */
  ac_step_part part;     /* what a step may take alone */
  bool keeps_squares;    /* of gradients as they come to the step */
  /* The parameters that it steps itself; the others are left to AdamW. NULL: all. */
  bool (*steps)(const ac_tensor *parameter);
  /* What a node of the step has from the plan already. NULL: nothing. */
  void (*prepare)(ac_precision precision, void *arguments);
  void (*arguments)(const ac_step_numbers *n, void *arguments);
  /* The number that would not be finite as a float, and what it is; NULL: all are. */
  const char *(*beyond)(const ac_step_numbers *n, double *value);

  /* What is kept: of most, so many states of the parameter's shape. */
  int states;
  bool eight_bit; /* they may be stored in 8 bits */
  /* Changes number and shapes. NULL: nothing. */
  void (*keep)(const ac_optimizer_desc *o, const ac_tensor *parameter, ac_stepping *s);
  const ac_fold_rule *fold; /* NULL: gradients cannot be folded */

  /* Its settings. */
  double rate, beta2, momentum; /* defaults */
  bool has_betas;               /* so they must be below 1 */
  /* Fills in further defaults, also of the rate, where they are 0, and checks. NULL: nothing. */
  ac_status (*check)(ac_optimizer_desc *o, double *rate);
  double (*moves)(const ac_optimizer_desc *o); /* what a schedule moves. NULL: nothing */
};

/* Bytes of arguments, which have to fit. */
#define AC_STEP_ARGUMENTS(type) (sizeof(type) / (size_t)(sizeof(type) <= AC_STEP_BYTES))

/* What a caller's own optimizer is told of one parameter. */
typedef struct ac_callback_arguments {
  double rate, weight_decay;
} ac_callback_arguments;

/* ---- optimizer.c ----------------------------------------------------------------------------- */

/* NULL: there is no such optimizer. */
const ac_optimizer_row *ac_optimizer_row_of(ac_optimizer_kind kind);

/* Which of them have something, as words: "AdamW, SGD and Lion". */
enum { AC_OPTIMIZER_WORDS = 256 };
const char *ac_optimizer_words(char text[AC_OPTIMIZER_WORDS],
                               bool (*has)(const ac_optimizer_row *row));
bool ac_optimizer_eight_bit(const ac_optimizer_row *row);
bool ac_optimizer_folds(const ac_optimizer_row *row);

/* Makes a trainer's settings of what it was given and what the plan has: all filled in, and
 * checked. A *rate of 0 becomes the optimizer's default. */
ac_status ac_optimizer_settle(ac_optimizer_desc *own, const ac_optimizer_desc *planned,
                              double *rate);

/* ---- what several share ---------------------------------------------------------------------- */

/* 1 - beta^t, with all digits where beta is near 1. */
double ac_optimizer_correction(double beta, double t);
/* Of decoupled weight decay: the rate times it. */
const char *ac_optimizer_decay_beyond(const ac_step_numbers *n, double *value);
/* And the rate by the correction of the first moment. */
const char *ac_optimizer_corrected_beyond(const ac_step_numbers *n, double *value);
double ac_optimizer_beta1(const ac_optimizer_desc *o);
double ac_optimizer_momentum(const ac_optimizer_desc *o);

#endif
