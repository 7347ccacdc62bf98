/* Which stages of a chain keep what their backward pass needs, and which run again.
 *
 * A chain is L stages, a[0] -> stage 1 -> a[1] -> ... -> stage L -> a[L]. The boundary a[l] is the
 * only thing stage l+1 takes from those before it, and the last stage holds the loss. Nothing here
 * knows of graphs or devices: a stage is seconds and bytes, a schedule is a list of operations.
 *
 * What an operation needs while it runs, in addition to what is held for later operations:
 *
 *   FORWARD l       a[l-1], a[l], the stage's forward_peak
 *   SAVE l by k     a[l-1], saved, the variant's forward_peak
 *   BACKWARD l by k a[l-1], saved (without a[l] if the variant drops it), the gradient of a[l],
 *                   the variant's backward_peak
 *
 * A boundary is held as long as a later operation reads it before it is computed anew, a[0] always.
 * The gradient of a[l] is as large as a[l]; it is held from BACKWARD l+1 to BACKWARD l, that of
 * a[L] only during BACKWARD L. */
#ifndef AC_PLAN_CHAIN_H
#define AC_PLAN_CHAIN_H

#include <accrue/base.h>

/* One way of keeping what a stage's backward pass needs. */
typedef struct ac_chain_variant {
  uint64_t saved; /* kept from SAVE to BACKWARD, without a[l-1]: a[l] and all else; >= output */
  uint64_t forward_peak;  /* of SAVE, beyond a[l-1] and saved */
  uint64_t backward_peak; /* of BACKWARD, beyond a[l-1], saved and the gradient of a[l]. It counts
                           * the gradient of a[l-1], unless that takes the place of another. */
  double extra;           /* seconds of recomputation within the stage, part of BACKWARD */
  double backward;        /* seconds of the backward pass itself */
  bool drops_output;      /* BACKWARD l does not read a[l]: it goes once BACKWARD l+1 has run */
} ac_chain_variant;

typedef struct ac_chain_stage {
  double forward;        /* seconds */
  uint64_t output;       /* bytes of a[l] */
  uint64_t forward_peak; /* of FORWARD, beyond a[l-1] and a[l] */
  int variants;          /* at least one */
  const ac_chain_variant *variant;
} ac_chain_stage;

typedef struct ac_chain {
  int stages;
  const ac_chain_stage *stage; /* stage l is stage[l - 1] */
  uint64_t input;              /* bytes of a[0] */
} ac_chain;

#define AC_CHAIN_MAX_STAGES 1024
#define AC_CHAIN_MAX_BYTES (UINT64_C(1) << 48) /* of any size in a chain */
#define AC_CHAIN_MAX_SLOTS (1 << 20)

typedef enum ac_chain_kind {
  AC_CHAIN_FORWARD, /* computes a[l] and keeps nothing else; variant is 0 */
  AC_CHAIN_SAVE,    /* computes a[l] and keeps what BACKWARD by the same variant needs */
  AC_CHAIN_BACKWARD
} ac_chain_kind;

typedef struct ac_chain_operation {
  ac_chain_kind kind;
  int stage; /* from 1 */
  int variant;
} ac_chain_operation;

/* Fails with AC_ERROR_ARGUMENT, naming the stage, on what the other functions cannot take. */
ac_status ac_chain_check(const ac_chain *chain);

/* Schedules of a chain, from the least memory to the fastest: each is faster than those that need
 * less. Does not refer to the chain. */
typedef struct ac_chain_solution ac_chain_solution;

typedef struct ac_chain_choice {
  uint64_t memory; /* bytes the schedule needs, exactly, a[0] included */
  double seconds;
} ac_chain_choice;

/* Finds the schedules for limits up to max_memory (UINT64_MAX: for any limit). Memory is counted in
 * at most `slots` equal slots; chain.c says what that costs and what is proved. If no schedule fits
 * into max_memory, that is not an error: the solution then knows the least memory, and has no
 * schedule. Fails with AC_ERROR_ARGUMENT on a malformed chain. */
ac_status ac_chain_solve(ac_chain_solution **solution, const ac_chain *chain, uint64_t max_memory,
                         int slots);
void ac_chain_free(ac_chain_solution *solution);

/* Bytes that the most frugal schedule needs. Exact, whatever the slots and max_memory. */
uint64_t ac_chain_least_memory(const ac_chain_solution *solution);

/* Seconds of the fastest schedule found that needs at most `memory` bytes; INFINITY: none. */
double ac_chain_seconds(const ac_chain_solution *solution, uint64_t memory);

/* The schedule for a limit; it belongs to the solution. Fails with AC_ERROR_BUDGET, naming the
 * least memory. */
ac_status ac_chain_schedule(const ac_chain_solution *solution, uint64_t memory,
                            const ac_chain_operation **operations, int *count);

/* All schedules found, by rising memory and falling seconds; returns how many. */
int ac_chain_choices(const ac_chain_solution *solution, const ac_chain_choice **choices);

/* Goes through a schedule and measures it, by lifetimes alone. Fails with AC_ERROR_ARGUMENT if an
 * operation reads what was not computed, if backward passes do not run once each from the last
 * stage to the first, or if the last stage's forward is run but once right before its backward. */
ac_status ac_chain_simulate(const ac_chain *chain, const ac_chain_operation *operations, int count,
                            uint64_t *peak, double *seconds);

#endif
