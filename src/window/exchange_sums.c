/* What ranks add up of a window or an evaluation besides gradients: numbers that are told at one
 * point. */
#include "core/error.h"
#include "ranks/transport.h"
#include "window/chunks.h"
#include "window/trainer.h"

#include <math.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

/* Measures of gradients, one a cell; and whether this rank answers for one: of a gradient for its
 * part, and of what is pooled, which all have, if it is rank 0. */
static bool measures(const ac_trainer *trainer, const ac_cell *cell) {
  int64_t first, count;
  if (!ac_trainer_trains(trainer, cell->owner)) return trainer->exchange.rank == 0;
  ac_shards_own(&trainer->instance.plan->problem, cell->owner, &first, &count);
  return count > 0;
}

/* Without `values` it only counts. */
static int64_t get_measures(const ac_trainer *trainer, double *values) {
  const ac_plan *plan = trainer->instance.plan;
  int64_t count = 0;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS) continue;
    if (values && measures(trainer, cell)) values[count] = ac_trainer_squares(trainer, cell);
    count++;
  }
  return count;
}

static void set_measures(ac_trainer *trainer, const double *values) {
  const ac_plan *plan = trainer->instance.plan;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].role == AC_ROLE_STATISTICS)
      ac_trainer_set_squares(trainer, &plan->cells[i], *values++);
}

int64_t ac_exchange_window_values(const ac_trainer *trainer) {
  return 1 + 3 * AC_MAX_SUMS + AC_MAX_LOSSES + AC_RANK_REPORT * trainer->exchange.ranks +
         ac_watchers_get_sums(&trainer->run, NULL) + get_measures(trainer, NULL);
}

static void put_values(double *values, const ac_all_sums *sums) {
  for (int k = 0; k < AC_MAX_SUMS; k++) {
    values[3 * k] = sums->of[k].loss;
    values[3 * k + 1] = sums->of[k].weight;
    values[3 * k + 2] = sums->of[k].correct;
  }
}

static void take_values(const double *values, ac_all_sums *sums) {
  for (int k = 0; k < AC_MAX_SUMS; k++)
    sums->of[k] = (ac_loss_sums){values[3 * k], values[3 * k + 1], values[3 * k + 2]};
}

/* As the device has them: two floats each, which together have the digits of most of a double. */
static void put_pair(float *pair, double x) {
  pair[0] = (float)x;
  pair[1] = isfinite(pair[0]) ? (float)(x - (double)pair[0]) : 0;
}

/* The sums of all ranks in the place of this one's, on the device and in the host's copy. */
static ac_status put_sums(ac_instance *instance, const ac_all_sums *sums) {
  const ac_plan *plan = instance->plan;
  const ac_device *device = instance->device;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_LOSS) continue;
    const ac_loss_sums *own = &sums->of[cell->owner];
    float pairs[AC_LOSS_SUMS] = {0};
    put_pair(pairs, own->loss);
    put_pair(pairs + 2, own->weight);
    put_pair(pairs + 4, own->correct);
    AC_TRY(device->backend->upload(device->state, instance->persistent[cell->tensor], 0, pairs,
                                   sizeof pairs));
    memcpy(instance->control_copy + (cell->address - plan->control) / sizeof(float), pairs,
           sizeof pairs);
  }
  return AC_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Measured as it passed (chunks.c). */
ac_status ac_exchange_show_first(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const double scale = (double)trainer->instance.run.loss_scale;
  AC_TRY(ac_instance_fetch_control(&trainer->instance));
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role == AC_ROLE_STATISTICS)
      ac_trainer_set_squares(trainer, cell,
                             trainer->exchange.squares[cell->owner] / (scale * scale));
  }
  ac_trainer_show_first(trainer);
  return AC_OK;
}

/* What this rank has measured, also if it had no sample: it may own sums of the others'. */
static ac_status put_window(ac_trainer *trainer, double *losses, double *fed, double *watched,
                            double *measured) {
  const ac_run *run = &trainer->run;
  if (trainer->exchange.measures) AC_TRY(ac_exchange_show_first(trainer));
  AC_TRY(ac_instance_measure_shards(&trainer->instance));
  AC_TRY(ac_instance_fetch_control(&trainer->instance));
  get_measures(trainer, measured);
  if (!run->samples) return AC_OK;
  const ac_all_sums sums = ac_instance_all_sums(&trainer->instance);
  put_values(losses, &sums);
  memcpy(fed, run->fed_weight, sizeof run->fed_weight);
  ac_watchers_get_sums(run, watched);
  return AC_OK;
}

/* Once more, where gradients were written since. */
ac_status ac_exchange_measures(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const int64_t count = get_measures(trainer, NULL);
  memset(e->values, 0, (size_t)count * sizeof *e->values);
  ac_status status = ac_instance_measure_shards(&trainer->instance);
  if (status == AC_OK) status = ac_instance_fetch_control(&trainer->instance);
  if (status == AC_OK) get_measures(trainer, e->values);
  AC_TRY(ac_exchange_sum(trainer, AC_MEET_MEASURES, status, e->values, count));
  set_measures(trainer, e->values);
  return AC_OK;
}

static ac_status sum_window(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_run *run = &trainer->run;
  ac_all_sums sums;
  const int64_t summed = e->window_values - AC_RANK_REPORT * e->ranks;
  double *values = e->values, *losses = values + 1, *fed = losses + 3 * AC_MAX_SUMS,
         *measured = fed + AC_MAX_LOSSES, *watched = measured + get_measures(trainer, NULL),
         *reports = values + summed;
  const ac_transport_counts counts = ac_transport_count(e->transport);
  memset(values, 0, (size_t)e->window_values * sizeof *values);
  if (!run->samples) ac_trainer_begin(trainer);
  values[0] = (double)run->samples;
  reports[0] = (double)counts.bytes;
  reports[1] = counts.waited + ac_overlap_waited(trainer);
  const ac_status status = put_window(trainer, losses, fed, watched, measured);
  AC_TRY(ac_exchange_sum_and_list(trainer, AC_MEET_WINDOW, status, values, summed, AC_RANK_REPORT));
  run->samples = (int64_t)values[0];
  if (!run->samples) return AC_OK;
  take_values(losses, &sums);
  memcpy(e->reports, reports, AC_RANK_REPORT * (size_t)e->ranks * sizeof *reports);
  memcpy(run->fed_weight, fed, sizeof run->fed_weight);
  ac_watchers_set_sums(run, watched);
  set_measures(trainer, measured);
  return put_sums(&trainer->instance, &sums);
}

ac_status ac_exchange_counts(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_run *run = &trainer->run;
  double values[AC_MAX_LOSSES + 1];
  if (ac_exchange_is_alone(e) || !ac_trainer_knows_weights(trainer)) return AC_OK;
  values[0] = (double)run->whole_samples;
  memcpy(values + 1, run->whole_weight, sizeof run->whole_weight);
  AC_TRY(ac_exchange_sum(trainer, AC_MEET_COUNTS, AC_OK, values, AC_MAX_LOSSES + 1));
  run->whole_samples = (int64_t)values[0];
  memcpy(run->whole_weight, values + 1, sizeof run->whole_weight);
  return AC_OK;
}

static bool overlaps(const ac_exchange *e) {
  return e->overlap.thread && !e->overlap.never;
}

void ac_exchange_begin_last(ac_trainer *trainer, bool measures) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e)) return;
  e->measures = measures;
  if (!overlaps(e)) return;
  e->empty = false;
  ac_overlap_start(trainer);
}

void ac_exchange_leave_last(ac_trainer *trainer) {
  if (!trainer->exchange.overlap.on) return;
  const ac_kept_error own = ac_error_keep();
  const ac_status status = ac_overlap_end(trainer);
  /* Where the exchange itself has failed this is why the micro-batch did. */
  if (status == AC_OK) ac_error_restore(&own);
}

static ac_status reduce(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (e->overlap.on) return ac_overlap_end(trainer);
  e->empty = trainer->run.samples == 0;
  return ac_chunks_reduce(trainer);
}

ac_status ac_exchange_window(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e) || e->summed) return AC_OK;
  ac_status status = ac_exchange_take_transport(trainer);
  if (status == AC_OK) status = ac_exchange_idle_norms(trainer);
  if (status == AC_OK) status = ac_sharded_finish(trainer);
  if (status == AC_OK) status = reduce(trainer);
  e->reduced = status == AC_OK;
  if (status == AC_OK) status = sum_window(trainer);
  e->summed = status == AC_OK && trainer->run.samples > 0;
  e->reduced &= trainer->run.samples > 0; /* else there was no window */
  if (status != AC_OK) trainer->window.broken = true;
  return status;
}

ac_status ac_exchange_gather_gradients(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  if (ac_exchange_is_alone(e) || e->gathered || ac_sharded_is_on(&e->sharded)) return AC_OK;
  AC_TRY(ac_chunks_gather_gradients(trainer));
  e->gathered = true;
  return AC_OK;
}

/* Another caller of the transport has to wait; a failure is told where it is asked for. */
static void take_back(void *user) {
  ac_trainer *trainer = user;
  ac_overlap *o = &trainer->exchange.overlap;
  const ac_status status = ac_exchange_settle(trainer);
  if (status == AC_OK) return;
  o->late = status;
  o->late_error = ac_error_keep();
}

static ac_status gather_weights(ac_trainer *trainer) {
  AC_TRY(ac_chunks_gather_weights(trainer));
  return ac_instance_run_averages(&trainer->instance);
}

/* A trainer that lends its parameters to this one does not ask it for them. */
ac_status ac_exchange_weights(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  const ac_device *device = trainer->instance.device;
  if (!overlaps(e) || trainer->instance.shares) return gather_weights(trainer);
  AC_TRY(device->backend->finish(device->state));
  ac_overlap_start_weights(trainer);
  ac_transport_lend(e->transport, take_back, trainer);
  return AC_OK;
}

static ac_status end_weights(ac_trainer *trainer) {
  const ac_status status = ac_overlap_end_weights(trainer);
  ac_transport_lend(trainer->exchange.transport, NULL, NULL);
  return status == AC_OK ? ac_instance_run_averages(&trainer->instance) : status;
}

ac_status ac_exchange_settle(ac_trainer *trainer) {
  ac_overlap *o = &trainer->exchange.overlap;
  ac_status status = o->late;
  if (status != AC_OK) ac_error_restore(&o->late_error);
  o->late = AC_OK;
  if (!o->owed) return status;
  status = end_weights(trainer);
  if (status != AC_OK) ac_trainer_give_up(trainer);
  return ac_exchange_end_transfers(&trainer->exchange, status);
}

ac_status ac_exchange_take_transport(ac_trainer *trainer) {
  AC_TRY(ac_exchange_settle(trainer));
  if (trainer->exchange.transport) ac_transport_take_back(trainer->exchange.transport);
  return AC_OK;
}

ac_status ac_exchange_decision(ac_trainer *trainer, ac_decision *decision) {
  double values[] = {decision->factor, decision->skip};
  AC_TRY(ac_exchange_take(trainer, AC_MEET_DECISION, values, 2));
  decision->factor = values[0];
  decision->skip = values[1] != 0;
  return AC_OK;
}

ac_status ac_exchange_evaluation(ac_trainer *trainer, ac_status status, ac_all_sums *sums,
                                 bool *stopped) {
  double values[3 * AC_MAX_SUMS + 1];
  if (ac_exchange_is_alone(&trainer->exchange)) return status;
  put_values(values, sums);
  values[3 * AC_MAX_SUMS] = *stopped;
  AC_TRY(ac_exchange_sum(trainer, AC_MEET_EVALUATION, status, values, 3 * AC_MAX_SUMS + 1));
  take_values(values, sums);
  *stopped = values[3 * AC_MAX_SUMS] != 0;
  return AC_OK;
}

ac_status ac_trainer_rank_report(const ac_trainer *trainer, int rank, ac_rank_report *result) {
  AC_REQUIRE(trainer, result);
  const ac_exchange *e = &trainer->exchange;
  const int ranks = trainer->instance.plan->info.ranks;
  *result = (ac_rank_report){0};
  if (rank < 0 || rank >= ranks)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: there is no rank %d of %d", rank, ranks);
  if (ac_exchange_is_alone(e)) return AC_OK;
  *result = (ac_rank_report){.bytes = (uint64_t)e->reports[AC_RANK_REPORT * rank],
                             .waited = e->reports[AC_RANK_REPORT * rank + 1]};
  return AC_OK;
}
