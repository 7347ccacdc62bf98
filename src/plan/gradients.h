/* The ways of gradients, a row each: what becomes of a window's gradients until their parameters
 * are stepped. A column is a property that other code asks for; nobody asks which way it is. Code
 * that takes a way names it. In the row of AC_GRADIENTS_AUTO is what all ways have in common that
 * it may become. docs/design/one-step.md has the table in words. */
#ifndef AC_PLAN_GRADIENTS_H
#define AC_PLAN_GRADIENTS_H

#include <accrue/storage.h>

enum { AC_GRADIENT_WAYS = AC_GRADIENTS_SHARDED + 1, AC_MOST_PASSES = 2 };

typedef struct ac_gradient_way {
  ac_gradients gradients; /* the row's own */
  const char *constant;   /* "AC_GRADIENTS_FUSED" */
  const char *words;      /* what gradients are: "fused" */

  /* The sequences of a window, main first (passes.c). Of each: the phases, as bits, that have their
   * nodes among those of the micro-batch; 0: all phases that end a window follow it. */
  int passes, phases[AC_MOST_PASSES];
  bool one_micro_batch; /* a window is one */

  /* What there is of a window's gradients. */
  bool keeps;     /* all of them, until it ends: they can be read and written */
  bool folds;     /* parts of optimizer states, in which each micro-batch's share is put */
  bool shards;    /* with several ranks: of each, in this rank's part, the sum of all ranks */
  bool has_noise; /* micro-batches are measured by themselves, not the window alone: so the gradient
                     noise scale can be known */
  bool has_norm;  /* each parameter's whole gradient before its step: it is measured, and may be
                     clipped */

  /* What can still be done. */
  bool can_skip;    /* what a window has come to is known before it changes anything */
  bool can_decide;  /* and the caller can be asked about it */
  bool can_discard; /* a window in progress has changed nothing yet */
  bool steps_alone; /* each parameter is decided on by itself, in a pass that the update runs */
  /* Why nobody may change parameters in the middle of a window; NULL: they may. */
  const char *holds_parameters;

  /* What it needs. */
  bool needs_weights; /* what a window's losses weigh, before its first micro-batch */
  bool between_ranks; /* gradients are there to be summed when a window ends */
  bool moves_state;   /* optimizer state may be in host memory, which is read for a step once */

  /* Choosing it. */
  bool by_auto;            /* the search takes it for AC_GRADIENTS_AUTO */
  bool auto_may_need_less; /* AC_GRADIENTS_AUTO is offered in its place */
} ac_gradient_way;

/* NULL: there is no such way. */
const ac_gradient_way *ac_gradient_way_of(ac_gradients gradients);

#endif
