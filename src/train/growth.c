/* A batch B doubles when |noise scale| of the windows so far, minus its own deviation, is at least
 * the doubled batch: up to there larger batches save updates (arXiv 1812.06162, section 2.2). The
 * averages that the noise scale is computed from do not depend on the batch, so they stay. But
 * enough windows have to be measured between two changes, so that the new ones count.
 *
 * The batches depend only on measurements that repeat, so a run repeats. They are kept as a
 * schedule of batches by window: a run with that schedule from the beginning is the same run. */
#include "train/growth.h"

#include "core/error.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t default_windows = 20;

/* ---- what is refused ------------------------------------------------------------------------- */

static ac_status check_noise(const ac_trainer *trainer, int64_t from) {
  const ac_plan *plan = trainer->instance.plan;
  if (!trainer->desc.noise_every)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches grow by the gradient noise scale, which the trainer was not asked "
                   "to measure (noise_every)");
  if (!plan->way->keeps)
    return ac_fail(AC_ERROR_ARGUMENT, "fit: batches grow by the gradient noise scale, but the plan "
                                      "keeps no gradients to measure it");
  if (!trainer->noise.possible || from <= plan->info.micro_batch)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches grow by the gradient noise scale, which needs two micro-batches: "
                   "the first batch of %lld must be larger than the micro-batch of %lld",
                   (long long)from, (long long)plan->info.micro_batch);
  return AC_OK;
}

ac_status ac_growth_check(const ac_trainer *trainer, const ac_fit_desc *desc) {
  const ac_batch_growth *wish = &desc->growth;
  const int64_t most = trainer->instance.plan->info.batch;
  if (!wish->from) return AC_OK;
  if (desc->batch_count)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches follow a schedule or grow by the gradient noise scale, not both");
  if (wish->from < 1 || wish->from > most)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: batches that grow begin with %lld, but the plan is for 1 to %lld",
                   (long long)wish->from, (long long)most);
  if (wish->windows < 0 || !(wish->factor >= 0) || isinf(wish->factor))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the windows before a batch grows, and its factor, must not be negative");
  return check_noise(trainer, wish->from);
}

/* ---- growing --------------------------------------------------------------------------------- */

ac_status ac_growth_begin(ac_trainer *trainer, const ac_fit_desc *desc) {
  ac_growth *growth = &trainer->growth;
  if (!desc->growth.from || !desc->resume) growth->count = 0;
  if (!desc->growth.from) return AC_OK;
  if (!growth->count) {
    *growth = (ac_growth){.count = 1, .stages = {{.batch = desc->growth.from}}};
    growth->measured = trainer->noise.count;
  }
  const int64_t largest = growth->stages[growth->count - 1].batch,
                most = trainer->instance.plan->info.batch;
  if (largest <= most) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "fit: batches have grown to %lld, but the plan is for %lld",
                 (long long)largest, (long long)most);
}

int64_t ac_growth_take(ac_trainer *trainer, const ac_batch_growth *wish, int64_t windows) {
  ac_growth *growth = &trainer->growth;
  const int64_t most = trainer->instance.plan->info.batch,
                batch = growth->stages[growth->count - 1].batch,
                next = batch < most - batch ? 2 * batch : most;
  const int64_t needed = wish->windows ? wish->windows : default_windows;
  const double factor = wish->factor > 0 ? wish->factor : 1;
  ac_noise_scale noise;
  if (next == batch || growth->count == AC_MAX_BATCH_STAGES) return 0;
  if (trainer->noise.count - growth->measured < needed) return 0;
  if (ac_trainer_noise_scale(trainer, &noise) != AC_OK) return 0;
  if (!(noise.batch - noise.deviation >= factor * (double)next)) return 0;
  growth->stages[growth->count++] =
      (ac_batch_stage){.batch = next, .unit = AC_BATCH_FROM_STEP, .from = windows};
  growth->measured = trainer->noise.count;
  return next;
}

void ac_growth_keep(ac_trainer *trainer, const ac_growth *growth) {
  trainer->growth = *growth;
  if (trainer->growth.measured > trainer->noise.count)
    trainer->growth.measured = trainer->noise.count;
}

ac_status ac_trainer_get_growth(const ac_trainer *trainer,
                                ac_batch_stage stages[AC_MAX_BATCH_STAGES], int *count) {
  AC_REQUIRE(trainer, stages, count);
  *count = trainer->growth.count;
  memcpy(stages, trainer->growth.stages, (size_t)*count * sizeof *stages);
  return AC_OK;
}

/* ---- as text --------------------------------------------------------------------------------- */

void ac_growth_put(const ac_growth *growth, char text[AC_GROWTH_TEXT]) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < growth->count; i++)
    used += (size_t)snprintf(text + used, AC_GROWTH_TEXT - used, "%s%" PRId64 "@%" PRId64,
                             i ? "," : "", growth->stages[i].batch, growth->stages[i].from);
  snprintf(text + used, AC_GROWTH_TEXT - used, " %" PRId64, growth->measured);
}

/* Reads a number in [0, INT64_MAX / 2] and moves *text past it. */
static int64_t take_number(const char **text) {
  char *end;
  const long long number = strtoll(*text, &end, 10);
  *text = end;
  return number >= 0 && number <= INT64_MAX / 2 ? number : -1;
}

bool ac_growth_get(ac_growth *growth, const char *text, int64_t most, int64_t measured) {
  char again[AC_GROWTH_TEXT];
  const char *at = text;
  *growth = (ac_growth){.count = 0};
  do {
    if (growth->count == AC_MAX_BATCH_STAGES) return false;
    ac_batch_stage *stage = &growth->stages[growth->count++];
    at += growth->count > 1;
    stage->batch = take_number(&at);
    at += *at == '@';
    stage->from = take_number(&at);
    if (growth->count > 1 && stage->batch <= stage[-1].batch) return false;
  } while (*at == ',');
  growth->measured = take_number(&at);
  ac_growth_put(growth, again);
  return growth->measured >= 0 && growth->measured <= measured && !strcmp(text, again) &&
         ac_batch_stages_check(growth->stages, growth->count, most) == AC_OK;
}
