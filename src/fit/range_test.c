/* A range test: ac_fit at rates that rise exponentially, and then its losses are examined. Before
 * the test the cells of a state are copied to the host, with all that the host counts. After the
 * test all is restored, also after a failure.
 *
 * Losses are smoothed by means over points on both sides, which do not move the place of a fall. A
 * running mean would move it; it only decides when the test ends. */
#include "core/error.h"
#include "core/floats.h"
#include "state/cells.h"
#include "window/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the trainer was -------------------------------------------------------------------- */

typedef struct kept {
  void **cells; /* by cell; NULL of those that nothing holds */
  ac_run run;
  ac_schedule schedule;
  ac_rate_callback rate;
} kept;

static void drop(kept *k, const ac_plan *plan) {
  ac_run_drop(&k->run);
  for (int i = 0; k->cells && i < plan->cell_count; i++) free(k->cells[i]);
  free(k->cells);
}

static ac_status keep_cells(const ac_trainer *trainer, kept *k) {
  const ac_plan *plan = trainer->instance.plan;
  k->cells = calloc((size_t)plan->cell_count + 1, sizeof *k->cells);
  bool room = k->cells;
  for (int i = 0; i < plan->cell_count && room; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (!ac_state_holds(trainer, cell, false) || ac_state_is_constant(trainer, cell)) continue;
    k->cells[i] = malloc((size_t)cell->count * ac_dtype_bytes(cell->dtype) + 1);
    room = k->cells[i];
    if (room)
      AC_TRY(ac_instance_read_elements(&trainer->instance, cell, 0, cell->count, k->cells[i]));
  }
  return room ? AC_OK
              : ac_fail(AC_ERROR_MEMORY, "range test: no memory to keep the trainer's state");
}

static ac_status keep(const ac_trainer *trainer, kept *k) {
  *k = (kept){.schedule = trainer->desc.schedule, .rate = trainer->desc.rate};
  AC_TRY(ac_run_copy(&k->run, &trainer->run));
  return keep_cells(trainer, k);
}

static ac_status put_back(ac_trainer *trainer, const kept *k) {
  const ac_plan *plan = trainer->instance.plan;
  ac_trainer_leave_window(trainer);
  trainer->desc.schedule = k->schedule;
  trainer->desc.rate = k->rate;
  trainer->schedule_begin = 0;
  ac_run_put_back(&trainer->run, &k->run);
  trainer->window.reduced_weight = 0; /* gradients' norms were those of the test */
  trainer->window.nonfinite = -1;
  ac_trainer_set_window_scale(trainer);
  ac_status status = AC_OK;
  for (int i = 0; i < plan->cell_count && status == AC_OK; i++)
    if (k->cells[i])
      status = ac_instance_write_elements(&trainer->instance, &plan->cells[i], 0,
                                          plan->cells[i].count, k->cells[i]);
  trainer->instance.unusable =
      status == AC_OK ? NULL : "its state from before a range test could not be restored";
  return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

typedef struct range_test {
  const ac_rate_test_desc *desc;
  double divergence;
  ac_rate_point *points;
  ac_rate_test *result;
  double mean, least; /* the running mean, its weight left out, and the least one so far */
} range_test;

/* Whether the mean of about ten losses is far above the best that it was. */
static bool has_diverged(range_test *t, double loss) {
  const double stays = 0.9;
  t->mean = stays * t->mean + (1 - stays) * loss;
  const double mean = t->mean / (1 - pow(stays, (double)t->result->count));
  if (t->result->count == 1 || mean < t->least) t->least = mean;
  return mean > t->least + (t->divergence - 1) * fabs(t->least);
}

static bool on_event(void *user, const ac_fit_event *event) {
  range_test *t = user;
  const bool goes_on = !t->desc->callback || t->desc->callback(t->desc->user, event);
  if (!goes_on) t->result->stopped = true;
  if (event->kind != AC_FIT_STEP || event->update.skipped) return goes_on;
  t->points[t->result->count++] =
      (ac_rate_point){.rate = event->update.lr, .loss = event->update.loss};
  t->result->diverged = has_diverged(t, event->update.loss);
  return goes_on && !t->result->diverged;
}

static bool on_micro_batch(void *user) {
  range_test *t = user;
  if (!t->desc->stop || !t->desc->stop(t->desc->user)) return false;
  t->result->stopped = true;
  return true;
}

static ac_status run(ac_trainer *trainer, range_test *t, double least, double most,
                     int64_t updates) {
  trainer->desc.schedule = (ac_schedule){.kind = AC_SCHEDULE_EXPONENTIAL,
                                         .lr = least,
                                         .gamma = pow(most / least, 1 / (double)(updates - 1))};
  trainer->schedule_begin = trainer->run.updates;
  trainer->desc.rate = NULL;
  ac_watchers_rest(&trainer->run);
  const ac_batch_stage batch = {.batch = t->desc->batch};
  const ac_fit_desc fit = {.train = t->desc->train,
                           .batches = &batch,
                           .batch_count = t->desc->batch != 0,
                           .steps = updates,
                           .seed = t->desc->seed,
                           .loader_threads = t->desc->loader_threads,
                           .replay = true,
                           .callback = on_event,
                           .stop = on_micro_batch,
                           .user = t};
  const ac_status status = ac_fit(trainer, &fit, NULL);
  if (status != AC_ERROR_NOT_FINITE || !t->result->count) return status;
  t->result->diverged = true;
  return AC_OK;
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* The points around one, as many on both sides as there are. */
typedef struct around {
  int64_t begin, end;
} around;

static around points_around(int64_t at, int64_t count, int64_t updates) {
  const int64_t side = updates / 20 > 2 ? updates / 20 : 2;
  return (around){at > side ? at - side : 0, at + side < count ? at + side + 1 : count};
}

static double mean_of(const ac_rate_point *points, around a) {
  double sum = 0;
  for (int64_t i = a.begin; i < a.end; i++) sum += points[i].loss;
  return sum / (double)(a.end - a.begin);
}

/* The slope of a line through the losses over the logarithms of rates, which are one unit apart. */
static double slope_of(const ac_rate_point *points, around a) {
  const double middle = (double)(a.begin + a.end - 1) / 2, mean = mean_of(points, a);
  double products = 0, squares = 0;
  for (int64_t i = a.begin; i < a.end; i++) {
    products += ((double)i - middle) * (points[i].loss - mean);
    squares += ((double)i - middle) * ((double)i - middle);
  }
  return squares > 0 ? products / squares : 0;
}

static bool falls(const ac_rate_point *points, int64_t lowest) {
  double squares = 0;
  for (int64_t i = 0; i <= lowest; i++)
    squares += (points[i].loss - points[i].smoothed) * (points[i].loss - points[i].smoothed);
  const double deviation = sqrt(squares / (double)(lowest + 1));
  return points[0].smoothed - points[lowest].smoothed > 2 * deviation;
}

static void judge(range_test *t, int64_t updates) {
  ac_rate_point *points = t->points;
  ac_rate_test *result = t->result;
  result->lowest = result->steepest = -1;
  for (int64_t i = 0; i < result->count; i++) {
    points[i].smoothed = mean_of(points, points_around(i, result->count, updates));
    if (result->lowest < 0 || points[i].smoothed < points[result->lowest].smoothed)
      result->lowest = i;
  }
  if (result->lowest < 1 || !falls(points, result->lowest)) return;
  double steepest = 0;
  for (int64_t i = 0; i < result->lowest; i++) {
    const double slope = slope_of(points, points_around(i, result->count, updates));
    if (slope >= steepest) continue;
    steepest = slope;
    result->steepest = i;
  }
}

/* ---- both ------------------------------------------------------------------------------------ */

static ac_status test_rates(ac_trainer *trainer, range_test *t) {
  const ac_rate_test_desc *desc = t->desc;
  const double least = ac_or_default(desc->least, 1e-7), most = ac_or_default(desc->most, 10);
  const int64_t updates = desc->updates ? desc->updates : 100;
  t->divergence = ac_or_default(desc->divergence, 4);
  if (!(ac_is_positive_float(least) && least < most && ac_is_float(most)))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "range test: rates must be positive and rise; they go from %g to %g", least,
                   most);
  if (updates < 10)
    return ac_fail(AC_ERROR_ARGUMENT, "range test: updates must be at least 10; they are %lld",
                   (long long)updates);
  if (!(t->divergence > 1))
    return ac_fail(AC_ERROR_ARGUMENT, "range test: divergence must be greater than 1; it is %g",
                   t->divergence);
  if (trainer->run.samples > 0)
    return ac_fail(AC_ERROR_STATE, "range test: a window is in progress; update or discard it");
  AC_TRY(ac_trainer_check_usable(trainer));
  kept k;
  ac_status status = keep(trainer, &k);
  if (status == AC_OK) {
    status = run(trainer, t, least, most, updates);
    const ac_status back = put_back(trainer, &k);
    if (back != AC_OK) status = back;
  }
  drop(&k, trainer->instance.plan);
  if (status == AC_OK) judge(t, updates);
  return status;
}

ac_status ac_trainer_test_rates(ac_trainer *trainer, const ac_rate_test_desc *desc,
                                ac_rate_point *points, ac_rate_test *result) {
  static const ac_rate_test_desc nothing = {0};
  AC_REQUIRE(trainer, points, result);
  *result = (ac_rate_test){.lowest = -1, .steepest = -1};
  range_test t = {.desc = desc ? desc : &nothing, .points = points, .result = result};
  return test_rates(trainer, &t);
}
