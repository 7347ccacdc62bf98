/* Loss scaling (Micikevicius et al., arXiv 1710.03740). The state of a dynamic scale is (scale,
 * clean):
 *
 *   overflow:  scale = max(backoff scale, floor);  clean = 0
 *   else:      clean + 1 < interval:  clean = clean + 1
 *              else:                  scale = growth scale, unless that is infinite;  clean = 0
 *
 * Scales are floats and products are rounded once from double. The states are the same as those of
 * PyTorch's GradScaler, except for the floor. */
#include "observe/scaler.h"

#include "core/error.h"

#include <float.h>
#include <math.h>

/* Small scales are divided by the weight of a window, and devices may flush what is then below the
 * normal floats: 1e-18 leaves room for 2^66 losses. */
static ac_status check_scale(const char *name, double x) {
  if (x >= 1e-18 && x <= (double)FLT_MAX) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: the %s %g must be a positive number from 1e-18 to 3.4e38", name, x);
}

static ac_status check(const ac_loss_scaling_desc *d) {
  if ((unsigned)d->kind > AC_LOSS_SCALING_DYNAMIC)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown kind of loss scaling %d", (int)d->kind);
  AC_TRY(check_scale("loss scale", d->scale));
  AC_TRY(check_scale("floor of the loss scale", d->floor));
  if (!(d->growth > 1) || isinf(d->growth))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the growth %g of the loss scale must be above 1 and finite",
                   d->growth);
  if (!(d->backoff > 0 && d->backoff < 1))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the backoff %g of the loss scale must be above 0 and below 1",
                   d->backoff);
  if (d->interval < 1)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the interval at which the loss scale grows is %lld updates; it must "
                   "be at least 1",
                   (long long)d->interval);
  if (d->kind == AC_LOSS_SCALING_DYNAMIC && d->scale < d->floor)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the loss scale %g starts below its floor of %g",
                   d->scale, d->floor);
  return AC_OK;
}

static ac_loss_scaling kind_of(const ac_loss_scaling_desc *desc, ac_precision precision) {
  if (desc->kind != AC_LOSS_SCALING_DEFAULT) return desc->kind;
  return precision == AC_PRECISION_F16 ? AC_LOSS_SCALING_DYNAMIC : AC_LOSS_SCALING_NONE;
}

ac_status ac_scaler_init(ac_scaler *scaler, const ac_loss_scaling_desc *desc,
                         ac_precision precision) {
  *scaler = (ac_scaler){.desc = *desc};
  ac_loss_scaling_desc *d = &scaler->desc;
  d->kind = kind_of(desc, precision);
  if (d->scale == 0) d->scale = 65536;
  if (d->growth == 0) d->growth = 2;
  if (d->backoff == 0) d->backoff = 0.5;
  if (d->interval == 0) d->interval = 2000;
  if (d->floor == 0) d->floor = 1;
  AC_TRY(check(d));
  scaler->scale = d->kind == AC_LOSS_SCALING_NONE ? 1 : (float)d->scale;
  return AC_OK;
}

static void back_off(ac_scaler *scaler) {
  float before = scaler->scale, floor = (float)scaler->desc.floor;
  float lower = (float)((double)before * scaler->desc.backoff);
  scaler->scale = lower < floor ? floor : lower;
  scaler->clean = 0;
  scaler->stuck = !(scaler->scale < before);
}

static void grow(ac_scaler *scaler) {
  float higher = (float)((double)scaler->scale * scaler->desc.growth);
  if (isfinite(higher)) scaler->scale = higher;
  scaler->clean = 0;
}

void ac_scaler_update(ac_scaler *scaler, bool overflow) {
  bool dynamic = scaler->desc.kind == AC_LOSS_SCALING_DYNAMIC;
  scaler->overflows = overflow ? scaler->overflows + 1 : 0;
  scaler->stuck = false;
  if (!overflow) {
    scaler->clean++;
    if (dynamic && scaler->clean >= scaler->desc.interval) grow(scaler);
  } else if (dynamic) {
    back_off(scaler);
  } else {
    scaler->clean = 0;
    scaler->stuck =
        scaler->desc.kind == AC_LOSS_SCALING_NONE || scaler->overflows >= AC_MAX_OVERFLOWS;
  }
}

float ac_scaler_factor(const ac_scaler *scaler, double weight) {
  if (scaler->desc.kind == AC_LOSS_SCALING_NONE) return 1;
  int exponent;
  double fraction = frexp(weight, &exponent);
  return ldexpf(scaler->scale, fraction == 0.5 ? 1 - exponent : -exponent);
}

/* ---- as a watcher ---------------------------------------------------------------------------- */

static ac_status begin(void *record, const ac_watch_setup *setup) {
  return ac_scaler_init(record, &setup->desc->loss_scaling, setup->plan->problem.desc.precision);
}

/* Called after a window that is not finite. Without loss scaling, training is stuck when the first
 * window is skipped; a window that was stepped in part may be a single bad batch. */
static bool is_stuck(const ac_scaler *scaler, bool skipped) {
  if (skipped || scaler->desc.kind != AC_LOSS_SCALING_NONE) return scaler->stuck;
  return scaler->overflows >= AC_MAX_OVERFLOWS;
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_scaler *scaler = record;
  const bool finite = update->finite_loss && update->finite_gradient;
  const bool overflow = !view->light && !finite;
  if (overflow || !update->skipped) ac_scaler_update(scaler, overflow);
  update->stuck =
      overflow ? is_stuck(scaler, update->skipped) : !(finite && view->divides) && view->weighs;
}

/* A loss scale is of use only to its own kind of scaling, and a static one is what the description
 * says. */
static void settle(void *read, const void *own_record) {
  const ac_scaler *own = own_record;
  ac_scaler *scaler = read;
  if (scaler->desc.kind != own->desc.kind) *scaler = *own;
  else if (own->desc.kind == AC_LOSS_SCALING_DYNAMIC)
    scaler->scale = fmaxf(scaler->scale, (float)own->desc.floor);
  else scaler->scale = own->scale;
}

static bool is_dynamic(const ac_watch_setup *setup, const ac_fit_desc *fit) {
  const ac_loss_scaling_desc *desc = &setup->desc->loss_scaling;
  return !fit && kind_of(desc, setup->plan->problem.desc.precision) == AC_LOSS_SCALING_DYNAMIC;
}

#define FIELD(key, kind, member, most) AC_STATE_FIELD(key, kind, ac_scaler, member, most)
static const ac_state_field fields[] = {
    FIELD("loss_scaling", AC_SMALL, desc.kind, AC_LOSS_SCALING_DYNAMIC),
    FIELD("loss_scale", AC_SCALE, scale, 0),
    FIELD("loss_scale.clean", AC_COUNT, clean, AC_MOST_COUNT),
    FIELD("loss_scale.overflows", AC_COUNT, overflows, AC_MOST_COUNT),
    FIELD("loss_scale.stuck", AC_FLAG, stuck, 0),
    {0}};

const ac_watcher ac_watcher_scaler = {.record = {.fields = fields, .settle = settle},
                                      .bytes = sizeof(ac_scaler),
                                      .needs = AC_NEEDS_LEAVE_OUT,
                                      .is_asked = is_dynamic,
                                      .lacking =
                                          "trainer: the plan folds gradients as they come, but a "
                                          "dynamic loss scale needs windows that can be skipped",
                                      .begin = begin,
                                      .after = after};
