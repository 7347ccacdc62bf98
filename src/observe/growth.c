/* A batch B doubles when |noise scale| of the windows so far, minus its own deviation, is at least
 * the doubled batch: up to there larger batches save updates (arXiv 1812.06162, section 2.2). The
 * averages that the noise scale is computed from do not depend on the batch, so they stay. But
 * enough windows have to be measured between two changes, so that the new ones count.
 *
 * The batches depend only on measurements that repeat, so a run repeats. They are kept as a
 * schedule of batches by window: a run with that schedule from the beginning is the same run. */
#include "observe/growth.h"

#include "core/error.h"
#include "observe/noise.h"

#include <math.h>

static const int64_t default_windows = 20;

/* ---- what is refused ------------------------------------------------------------------------- */

static ac_status check_noise(const ac_watch_setup *setup, int64_t from) {
  const ac_plan *plan = setup->plan;
  if (plan->problem.in_sections)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: batches grow by the gradient noise scale, which is not measured with exact "
        "batch norm: the gradient of one micro-batch is not known alone");
  if (!setup->desc->noise_every)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches grow by the gradient noise scale, which the trainer was not asked "
                   "to measure (noise_every)");
  if (AC_WATCHED(setup->run, noise)->possible && ac_noise_has_parts(plan, from)) return AC_OK;
  if (plan->info.ranks > 1)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches grow by the gradient noise scale, which needs samples on two "
                   "ranks, but the first batch is %lld",
                   (long long)from);
  return ac_fail(AC_ERROR_ARGUMENT,
                 "fit: batches grow by the gradient noise scale, which needs two micro-batches: "
                 "the first batch of %lld must be larger than the micro-batch of %lld",
                 (long long)from, (long long)plan->info.micro_batch);
}

static ac_status check_fit(const void *record, const ac_watch_setup *setup,
                           const ac_fit_desc *fit) {
  const ac_batch_growth *wish = &fit->growth;
  const int64_t most = setup->plan->info.batch;
  (void)record;
  if (!wish->from) return AC_OK;
  if (fit->batch_count)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches follow a schedule or grow by the gradient noise scale, not both");
  if (wish->from < 1 || wish->from > most)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches that grow begin with %lld, but the plan is for 1 to %lld",
                   (long long)wish->from, (long long)most);
  if (wish->windows < 0 || !(wish->factor >= 0) || isinf(wish->factor))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the windows before a batch grows, and its factor, must not be negative");
  return check_noise(setup, wish->from);
}

static bool grows(const ac_watch_setup *setup, const ac_fit_desc *fit) {
  (void)setup;
  return fit && fit->growth.from;
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Goes on with the schedule so far, and fails if the plan is too small for that. */
static ac_status begin_fit(void *record, const ac_watch_setup *setup, const ac_fit_desc *fit,
                           bool goes_on) {
  ac_growth *growth = record;
  (void)goes_on; /* a run that had no fit may have grown */
  if (!fit->growth.from || !fit->resume) growth->count = 0;
  if (!fit->growth.from) return AC_OK;
  if (!growth->count)
    *growth = (ac_growth){.count = 1,
                          .stages = {{.batch = fit->growth.from}},
                          .measured = AC_WATCHED(setup->run, noise)->count};
  const int64_t largest = growth->stages[growth->count - 1].batch, most = setup->plan->info.batch;
  if (largest <= most) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "fit: batches have grown to %lld, but the plan is for %lld",
                 (long long)largest, (long long)most);
}

int64_t ac_growth_take(ac_run *run, const ac_batch_growth *wish, int64_t most, int64_t windows) {
  ac_growth *growth = AC_WATCHED(run, growth);
  const ac_noise *noise = AC_WATCHED(run, noise);
  const int64_t batch = growth->stages[growth->count - 1].batch,
                next = batch < most - batch ? 2 * batch : most;
  const int64_t needed = wish->windows ? wish->windows : default_windows;
  const double factor = wish->factor > 0 ? wish->factor : 1;
  if (next == batch || growth->count == AC_MAX_BATCH_STAGES) return 0;
  if (noise->count - growth->measured < needed) return 0;
  const ac_noise_scale scale = ac_noise_scale_of(&noise->averages, noise->count);
  if (!(scale.batch - scale.deviation >= factor * (double)next)) return 0;
  growth->stages[growth->count++] =
      (ac_batch_stage){.batch = next, .unit = AC_BATCH_FROM_STEP, .from = windows};
  growth->measured = noise->count;
  return next;
}

/* The place in the data stays, and so do the batches by window. */
static void went_back(void *record, const void *before, const ac_run *run, int64_t step) {
  ac_growth *growth = record;
  const int64_t measured = AC_WATCHED(run, noise)->count;
  (void)step;
  *growth = *(const ac_growth *)before;
  if (growth->measured > measured) growth->measured = measured;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool is_kept(const void *record) {
  return ((const ac_growth *)record)->count;
}

static void anew(void *record) {
  *(ac_growth *)record = (ac_growth){.count = 0};
}

static const char *check(const void *record, const ac_run *run) {
  const ac_growth *growth = record;
  bool good = growth->measured <= AC_WATCHED(run, noise)->count;
  for (int i = 1; i < growth->count; i++)
    good &= growth->stages[i].batch > growth->stages[i - 1].batch;
  if (good && growth->count)
    good = ac_batch_stages_check(growth->stages, growth->count, AC_MOST_COUNT) == AC_OK;
  return good ? NULL : "growth";
}

/* "32@0,64@120 45": batches at windows, then what was measured before the last. */
static const ac_state_rows schedule = {
    .of = {{AC_COUNT, offsetof(ac_batch_stage, batch), AC_MOST_COUNT, 0},
           {AC_COUNT, offsetof(ac_batch_stage, from), AC_MOST_COUNT, '@'}},
    .between = ',',
    .begin = offsetof(ac_growth, stages),
    .stride = sizeof(ac_batch_stage),
    .count = {.kind = AC_SMALL, .offset = offsetof(ac_growth, count)},
    .most = AC_MAX_BATCH_STAGES,
    .after = {AC_COUNT, offsetof(ac_growth, measured), AC_MOST_COUNT, ' '}};
static const ac_state_field fields[] = {{.key = "accrue.state.growth", .rows = &schedule}, {0}};

const ac_watcher ac_watcher_growth = {
    .record = {.fields = fields, .is_kept = is_kept, .anew = anew, .check = check},
    .bytes = sizeof(ac_growth),
    .needs = AC_NEEDS_NOISE,
    .is_asked = grows,
    .lacking = "fit: batches grow by the gradient noise scale, but the plan keeps no gradients to "
               "measure it",
    .check_fit = check_fit,
    .begin_fit = begin_fit,
    .went_back = went_back};
