/* The table of optimizers, and what trainers make of a description. */
#include "optimizer/optimizer.h"

#include "core/error.h"
#include "core/floats.h"
#include "optimizer/list.h"

#include <stdio.h>
#include <string.h>

#define DECLARE(kind, name) extern const ac_optimizer_row ac_optimizer_row_##name;
AC_OPTIMIZERS(DECLARE)

#define ROW(kind, name) [kind] = &ac_optimizer_row_##name,
static const ac_optimizer_row *const rows[] = {AC_OPTIMIZERS(ROW)};
#define ONE(kind, name) +1
_Static_assert(sizeof rows / sizeof *rows == AC_OPTIMIZER_COUNT &&
                   (0 AC_OPTIMIZERS(ONE)) == AC_OPTIMIZER_COUNT,
               "each kind has a row");

const ac_optimizer_row *ac_optimizer_row_of(ac_optimizer_kind kind) {
  return (unsigned)kind < AC_OPTIMIZER_COUNT ? rows[kind] : NULL;
}

const char *ac_optimizer_name(ac_optimizer_kind kind) {
  const ac_optimizer_row *row = ac_optimizer_row_of(kind);
  return row ? row->name : "unknown";
}

bool ac_optimizer_has_8bit(ac_optimizer_kind kind) {
  const ac_optimizer_row *row = ac_optimizer_row_of(kind);
  return row && row->eight_bit;
}

bool ac_optimizer_eight_bit(const ac_optimizer_row *row) {
  return row->eight_bit;
}

bool ac_optimizer_folds(const ac_optimizer_row *row) {
  return row->fold != NULL;
}

const char *ac_optimizer_words(char text[AC_OPTIMIZER_WORDS],
                               bool (*has)(const ac_optimizer_row *row)) {
  int left = 0;
  size_t used = 0;
  for (int k = 0; k < AC_OPTIMIZER_COUNT; k++) left += has(rows[k]);
  text[0] = 0;
  for (int k = 0; k < AC_OPTIMIZER_COUNT && used < AC_OPTIMIZER_WORDS; k++) {
    if (!has(rows[k])) continue;
    left--;
    used += (size_t)snprintf(text + used, AC_OPTIMIZER_WORDS - used, "%s%s", rows[k]->words,
                             left > 1    ? ", "
                             : left == 1 ? " and "
                                         : "");
  }
  return text;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* What a plan depends on cannot change after it. */
static bool same_kept(const ac_optimizer_desc *o, const ac_optimizer_desc *planned) {
  const bool other_f32 =
      o->state_f32 && (!planned->state_f32 || strcmp(o->state_f32, planned->state_f32) != 0);
  return (!o->kind || o->kind == planned->kind) && (!o->state || o->state == planned->state) &&
         (!o->sgd_no_momentum || planned->sgd_no_momentum) && !other_f32 &&
         (!o->callback_states || o->callback_states == planned->callback_states) &&
         (!o->callback_part || o->callback_part == planned->callback_part) &&
         (!o->clipping || o->clipping == planned->clipping);
}

/* A member that is 0 is the plan's. */
static ac_status take_planned(ac_optimizer_desc *o, const ac_optimizer_desc *planned) {
  const ac_optimizer_desc own = *o;
  if (!same_kept(o, planned))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the plan depends on the kind of the optimizer, what it keeps and how "
                   "it clips, so a trainer cannot change these");
  *o = *planned;
  if (own.beta1 != 0) o->beta1 = own.beta1;
  if (own.beta2 != 0) o->beta2 = own.beta2;
  if (own.epsilon != 0) o->epsilon = own.epsilon;
  if (own.weight_decay != 0) o->weight_decay = own.weight_decay;
  if (own.momentum != 0) o->momentum = own.momentum;
  if (own.adamw_rate != 0) o->adamw_rate = own.adamw_rate;
  if (own.clip != 0) o->clip = own.clip;
  if (own.muon_scale) o->muon_scale = own.muon_scale;
  if (own.step) o->step = own.step;
  o->nesterov |= own.nesterov;
  o->muon_no_nesterov |= own.muon_no_nesterov;
  return AC_OK;
}

ac_status ac_optimizer_settle(ac_optimizer_desc *o, const ac_optimizer_desc *planned,
                              double *rate) {
  const ac_optimizer_row *row = ac_optimizer_row_of(planned->kind);
  AC_TRY(take_planned(o, planned));
  if (o->epsilon != 0 && !ac_is_positive_float(o->epsilon))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: epsilon %g must be a positive number from 1.2e-38 to 3.4e38",
                   o->epsilon);
  o->beta1 = ac_or_default(o->beta1, 0.9);
  o->beta2 = ac_or_default(o->beta2, row->beta2);
  o->epsilon = ac_or_default(o->epsilon, 1e-8);
  o->momentum = ac_or_default(o->momentum, row->momentum);
  o->weight_decay = ac_or_default(o->weight_decay, 0);
  o->clip = ac_or_default(o->clip, 0);
  if (row->has_betas && (!(o->beta1 < 1) || !(o->beta2 < 1)))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: beta1 %g and beta2 %g must be below 1", o->beta1,
                   o->beta2);
  if (!ac_is_float(o->momentum) || !ac_is_float(o->weight_decay) || isnan(o->clip))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: an optimizer setting is not finite: momentum %g, weight decay %g and "
                   "clip %g must be, and the first two at most 3.4e38",
                   o->momentum, o->weight_decay, o->clip);
  if (o->clip > 0 && o->clip < (double)FLT_MIN)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: clip %g leaves nothing of a gradient", o->clip);
  if (row->check) AC_TRY(row->check(o, rate));
  if (*rate == 0) *rate = row->rate;
  return AC_OK;
}

/* ---- what several share ---------------------------------------------------------------------- */

double ac_optimizer_correction(double beta, double t) {
  return -expm1(t * log1p(beta - 1));
}

/* Products as kernels form them, of floats. */
const char *ac_optimizer_decay_beyond(const ac_step_numbers *n, double *value) {
  *value = n->rate * n->weight_decay;
  return isfinite((float)n->rate * (float)n->weight_decay) ? NULL
                                                           : "learning rate times its weight decay";
}

const char *ac_optimizer_corrected_beyond(const ac_step_numbers *n, double *value) {
  const char *beyond = ac_optimizer_decay_beyond(n, value);
  if (beyond) return beyond;
  *value = n->rate / ac_optimizer_correction(n->optimizer->beta1, n->update);
  return ac_is_float(*value) ? NULL : "learning rate by 1 - beta1^t";
}

double ac_optimizer_beta1(const ac_optimizer_desc *o) {
  return o->beta1;
}

double ac_optimizer_momentum(const ac_optimizer_desc *o) {
  return o->momentum;
}
