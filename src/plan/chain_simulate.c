/* Checks chains, and measures schedules by the lifetimes of what they make.
 *
 * A schedule is scanned once, from its end: what an operation reads is held from there up to the
 * operation that makes it. So this does not depend on how the schedule was found, and nothing is
 * held longer than needed. O(operations + stages). */
#include "plan/chain.h"

#include "core/error.h"
#include "core/integers.h"

#include <math.h>
#include <stdlib.h>

/* ---- input ----------------------------------------------------------------------------------- */

static bool bad_seconds(double seconds) {
  return !isfinite(seconds) || seconds < 0;
}

static ac_status check_variant(const ac_chain_stage *stage, int l, int k) {
  const ac_chain_variant *variant = &stage->variant[k];
  if (bad_seconds(variant->extra) || bad_seconds(variant->backward))
    return ac_fail(AC_ERROR_ARGUMENT, "chain: stage %d, variant %d: seconds must be finite, >= 0",
                   l, k);
  if (variant->saved > AC_CHAIN_MAX_BYTES || variant->forward_peak > AC_CHAIN_MAX_BYTES ||
      variant->backward_peak > AC_CHAIN_MAX_BYTES)
    return ac_fail(AC_ERROR_ARGUMENT, "chain: stage %d, variant %d: a size exceeds 2^48 bytes", l,
                   k);
  if (variant->saved < stage->output)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "chain: stage %d, variant %d saves %llu bytes, less than its output of %llu", l,
                   k, (unsigned long long)variant->saved, (unsigned long long)stage->output);
  return AC_OK;
}

ac_status ac_chain_check(const ac_chain *chain) {
  if (chain->stages < 1 || chain->stages > AC_CHAIN_MAX_STAGES)
    return ac_fail(AC_ERROR_ARGUMENT, "chain: %d stages; there must be 1 to %d", chain->stages,
                   AC_CHAIN_MAX_STAGES);
  if (chain->input > AC_CHAIN_MAX_BYTES)
    return ac_fail(AC_ERROR_ARGUMENT, "chain: the input exceeds 2^48 bytes");
  for (int l = 1; l <= chain->stages; l++) {
    const ac_chain_stage *stage = &chain->stage[l - 1];
    if (stage->variants < 1)
      return ac_fail(AC_ERROR_ARGUMENT, "chain: stage %d has no variants", l);
    if (bad_seconds(stage->forward))
      return ac_fail(AC_ERROR_ARGUMENT, "chain: stage %d: seconds must be finite, >= 0", l);
    if (stage->output > AC_CHAIN_MAX_BYTES || stage->forward_peak > AC_CHAIN_MAX_BYTES)
      return ac_fail(AC_ERROR_ARGUMENT, "chain: stage %d: a size exceeds 2^48 bytes", l);
    for (int k = 0; k < stage->variants; k++) AC_TRY(check_variant(stage, l, k));
  }
  return AC_OK;
}

static const ac_chain_stage *stage_at(const ac_chain *chain, int l) {
  return &chain->stage[l - 1];
}

static uint64_t boundary(const ac_chain *chain, int l) {
  return l ? stage_at(chain, l)->output : chain->input;
}

/* ---- measuring a schedule -------------------------------------------------------------------- */

/* What later operations read, while the schedule is scanned from its end, and what was measured. */
typedef struct lifetimes {
  const ac_chain *chain;
  bool *boundary; /* by l: a[l] is read */
  int *saved;     /* by l: the variant that has saved what is read, -1: none */
  uint64_t bytes; /* held: all of these, and the gradient that waits */
  int backward;   /* the stage with the next backward pass in the scan */
  uint64_t peak;
  double seconds;
} lifetimes;

static void hold_boundary(lifetimes *held, int l) {
  if (!held->boundary[l]) held->bytes += boundary(held->chain, l);
  held->boundary[l] = true;
}

static void release_boundary(lifetimes *held, int l) {
  if (held->boundary[l]) held->bytes -= boundary(held->chain, l);
  held->boundary[l] = false;
}

static void measure(lifetimes *held, uint64_t transient, double seconds) {
  held->peak = ac_larger_bytes(held->peak, held->bytes + transient);
  held->seconds += seconds;
}

static ac_status scan_forward(lifetimes *held, const ac_chain_operation *operation) {
  int l = operation->stage;
  const ac_chain_stage *stage = stage_at(held->chain, l);
  if (l == held->chain->stages && (operation->kind != AC_CHAIN_SAVE || held->saved[l] < 0))
    return ac_fail(AC_ERROR_ARGUMENT, "schedule: the last stage must run forward once, by SAVE");
  release_boundary(held, l);
  uint64_t made = stage->output + stage->forward_peak;
  if (operation->kind == AC_CHAIN_SAVE) {
    const ac_chain_variant *variant = &stage->variant[operation->variant];
    if (held->saved[l] >= 0 && held->saved[l] != operation->variant)
      return ac_fail(AC_ERROR_ARGUMENT, "schedule: stage %d is saved by variant %d, not %d", l,
                     operation->variant, held->saved[l]);
    if (held->saved[l] >= 0) held->bytes -= variant->saved - stage->output;
    held->saved[l] = -1;
    made = variant->saved + variant->forward_peak;
  }
  hold_boundary(held, l - 1);
  measure(held, made, stage->forward);
  return AC_OK;
}

static ac_status scan_backward(lifetimes *held, const ac_chain_operation *operation,
                               const ac_chain_operation *previous) {
  int l = operation->stage;
  bool last = l == held->chain->stages;
  const ac_chain_stage *stage = stage_at(held->chain, l);
  const ac_chain_variant *variant = &stage->variant[operation->variant];
  if (l != held->backward)
    return ac_fail(AC_ERROR_ARGUMENT, "schedule: backward pass of stage %d where %d is due", l,
                   held->backward);
  if (last && (!previous || previous->kind != AC_CHAIN_SAVE || previous->stage != l))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "schedule: the last stage's backward pass does not follow its forward pass");
  held->backward = l + 1;
  if (l > 1) held->bytes -= boundary(held->chain, l - 1); /* the gradient that it makes */
  held->bytes += stage->output;                           /* the gradient that it reads */
  held->bytes += variant->saved - stage->output;
  held->saved[l] = operation->variant;
  hold_boundary(held, l - 1);
  if (!variant->drops_output) hold_boundary(held, l);
  measure(held, variant->backward_peak, variant->extra + variant->backward);
  if (last) held->bytes -= stage->output; /* nothing made the gradient of the loss */
  return AC_OK;
}

static bool is_operation(const ac_chain *chain, const ac_chain_operation *operation) {
  int l = operation->stage;
  return l >= 1 && l <= chain->stages && operation->variant >= 0 &&
         operation->variant < stage_at(chain, l)->variants;
}

static ac_status scan(lifetimes *held, const ac_chain_operation *operations, int count) {
  for (int i = count - 1; i >= 0; i--) {
    const ac_chain_operation *operation = &operations[i];
    if (!is_operation(held->chain, operation))
      return ac_fail(AC_ERROR_ARGUMENT, "schedule: there is no stage %d with a variant %d",
                     operation->stage, operation->variant);
    if (operation->kind == AC_CHAIN_BACKWARD)
      AC_TRY(scan_backward(held, operation, i ? operation - 1 : NULL));
    else AC_TRY(scan_forward(held, operation));
  }
  if (held->backward != held->chain->stages + 1)
    return ac_fail(AC_ERROR_ARGUMENT, "schedule: stage %d has no backward pass", held->backward);
  for (int l = 1; l <= held->chain->stages; l++)
    if (held->boundary[l] || held->saved[l] >= 0)
      return ac_fail(AC_ERROR_ARGUMENT, "schedule: what stage %d makes is read but not made", l);
  return AC_OK;
}

ac_status ac_chain_simulate(const ac_chain *chain, const ac_chain_operation *operations, int count,
                            uint64_t *peak, double *seconds) {
  AC_TRY(ac_chain_check(chain));
  size_t room = (size_t)chain->stages + 1;
  lifetimes held = {.chain = chain, .backward = 1};
  held.boundary = calloc(room, sizeof *held.boundary);
  held.saved = malloc(room * sizeof *held.saved);
  ac_status status;
  if (held.boundary && held.saved) {
    for (size_t l = 0; l < room; l++) held.saved[l] = -1;
    hold_boundary(&held, 0);
    status = scan(&held, operations, count);
  } else {
    status = ac_fail(AC_ERROR_MEMORY, "no memory to simulate a schedule");
  }
  free(held.boundary);
  free(held.saved);
  *peak = held.peak;
  *seconds = held.seconds;
  return status;
}
