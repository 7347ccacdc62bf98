/* Flags for the optimizer, and for how and where weights, gradients and optimizer state are stored.
 */
#ifndef TOOLS_COMMON_STORAGE_H
#define TOOLS_COMMON_STORAGE_H

#include "common/options.h"

#include <accrue/plan.h>

/* Values of --gradients after those of ac_gradients: how gradients are stored. */
enum { GRADIENTS_BF16 = AC_GRADIENTS_SHARDED + 1, GRADIENTS_COUNT };

/* A value of --gradients, with what other flags and reports ask of it. The columns are those of the
 * library's table (src/plan/gradients.h), which is not public. */
typedef struct gradient_way {
  const char *name;  /* the value */
  const char *lines; /* of a plan's table; NULL: none */
  int passes;        /* of a window that is one micro-batch; 0: left to the plan */
  bool may_keep, may_have_noise, folds, one_micro_batch, has_norm, can_skip, needs_weights;
} gradient_way;

/* `gradients`: ac_gradients or GRADIENTS_BF16. */
const gradient_way *gradient_way_of(int gradients);

typedef struct storage_flags {
  int optimizer;         /* ac_optimizer_kind */
  int weights;           /* ac_weights */
  int working_copies;    /* ac_working_copies */
  int gradients;         /* ac_gradients or GRADIENTS_BF16 */
  int optimizer_state;   /* ac_optimizer_state */
  const char *state_f32; /* NULL: as the library has it */
  int state_space;       /* ac_state_space */
  uint64_t host_memory;  /* 0: none */
} storage_flags;

void storage_add_options(storage_flags *f, options *o);

/* STATUS_CONTINUE, or STATUS_USAGE if flags contradict each other. */
int storage_check(const storage_flags *f, ac_precision precision);

/* Sets the fields of `plan` that the flags are about. */
void storage_describe(const storage_flags *f, ac_plan_desc *plan);

const char *storage_optimizer_name(int optimizer);

/* The settings that differ from the defaults, each with a comma before it: ", lion, optimizer-state
 * 8bit". */
void storage_words(const storage_flags *f, char *text, size_t size);

#endif
