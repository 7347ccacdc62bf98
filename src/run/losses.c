/* Losses: the weight of each, counted on the host from what is fed, to compare it with the device's
 * sum; and the total of several. With sums L_k over weights W_k the total is
 *
 *   sum over k of factor_k L_k / W_k,
 *
 * so the gradient of loss k joins the others with the share factor_k N / W_k, where N is the number
 * of samples of the window, and the update divides by N. If every row has weight one, N / W_k is
 * one divided by the rows of a sample, so nothing has to be known before the window. */
#include "core/elements.h"
#include "core/error.h"
#include "core/integers.h"
#include "run/instance.h"

#include <math.h>
#include <string.h>

/* ---- weights --------------------------------------------------------------------------------- */

static bool is_plain(const ac_loss_rows *rows) {
  return rows->weights < 0 && !rows->ignore;
}

static ac_dtype input_dtype(const ac_instance *instance, int input) {
  const ac_graph *graph = instance->plan->graph;
  return ac_tensor_at(graph, graph->inputs[input])->dtype;
}

/* Of row i, if it is not ignored. */
static double row_weight(const ac_instance *instance, const ac_fed_loss *fed,
                         const void *const *data, int64_t i) {
  if (fed->weights >= 0)
    return (double)ac_number_at(input_dtype(instance, fed->weights), data[fed->weights], i);
  if (fed->lengths < 0) return 1;
  const int64_t length =
      ac_integer_at(input_dtype(instance, fed->lengths), data[fed->lengths], i / fed->columns);
  return i % fed->columns < length;
}

double ac_instance_fed_weight(const ac_instance *instance, int loss, const void *const *data,
                              int64_t first, int64_t count) {
  const ac_fed_loss *fed = &instance->losses[loss];
  const ac_loss_rows *rows = &fed->rows;
  int64_t from = first * rows->per_sample, n = count * rows->per_sample;
  if (rows->ignore && fed->targets < 0) return (double)NAN;
  if (rows->weights >= 0 && fed->weights < 0 && fed->lengths < 0) return (double)NAN;
  if (is_plain(rows)) return (double)n;
  const void *targets = rows->ignore ? data[fed->targets] : NULL;
  const ac_dtype dtype = targets ? input_dtype(instance, fed->targets) : AC_I32;
  const int64_t shared = ac_larger(rows->per_weight, 1);
  double sum = 0;
  if (shared > 1) {
    for (int64_t i = from / shared; i < (from + n) / shared; i++)
      sum += row_weight(instance, fed, data, i);
    return sum * (double)shared;
  }
  for (int64_t i = from; i < from + n; i++)
    if (!targets || ac_integer_at(dtype, targets, i) != rows->ignore_index)
      sum += row_weight(instance, fed, data, i);
  return sum;
}

void ac_instance_add_fed_weights(const ac_instance *instance, const void *const *data,
                                 int64_t first, int64_t count, double fed[AC_MAX_LOSSES]) {
  for (int k = 0; k < instance->plan->graph->loss_count; k++)
    fed[k] += ac_instance_fed_weight(instance, k, data, first, count);
}

/* The device keeps sums in pairs of floats, exact to about 45 bits. */
ac_status ac_instance_check_weights(const ac_instance *instance, const double fed[AC_MAX_LOSSES]) {
  const double tolerance = 1e-6;
  const ac_graph *graph = instance->plan->graph;
  if (instance->device->backend->computes_nothing) return AC_OK;
  for (int k = 0; k < graph->loss_count; k++) {
    double summed = ac_instance_loss_sums(instance, k).weight;
    if (isnan(fed[k]) || !isfinite(summed) || fabs(summed - fed[k]) <= tolerance * fed[k]) continue;
    return ac_fail(AC_ERROR_INTERNAL,
                   "the device counted losses%s%s of weight %.9g, but samples of weight %.9g were "
                   "fed; nothing was changed",
                   *graph->losses[k].name ? " of " : "", graph->losses[k].name, summed, fed[k]);
  }
  return AC_OK;
}

/* ---- several --------------------------------------------------------------------------------- */

bool ac_instance_weighs_inputs(const ac_instance *instance) {
  for (int k = 0; k < instance->plan->graph->loss_count; k++)
    if (!is_plain(&instance->losses[k].rows)) return true;
  return false;
}

ac_loss_division ac_instance_division(const ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  if (plan->graph->loss_count < 2) return AC_DIVIDE_ONE;
  if (plan->problem.desc.loss_means == AC_LOSS_MEANS_PER_SAMPLE) return AC_DIVIDE_SAMPLES;
  if (plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN) return AC_DIVIDE_WEIGHTS;
  return ac_instance_weighs_inputs(instance) ? AC_DIVIDE_WEIGHTS : AC_DIVIDE_SAMPLES;
}

void ac_instance_loss_shares(const ac_instance *instance, int64_t samples, const double *weights,
                             double shares[AC_MAX_LOSSES]) {
  const ac_plan *plan = instance->plan;
  bool rows =
      plan->graph->loss_count > 1 && plan->problem.desc.loss_means != AC_LOSS_MEANS_PER_SAMPLE;
  for (int k = 0; k < plan->graph->loss_count; k++) {
    double factor = plan->graph->losses[k].factor;
    if (weights) shares[k] = weights[k] > 0 ? factor * (double)samples / weights[k] : 0;
    else shares[k] = rows ? factor / (double)instance->losses[k].rows.per_sample : factor;
  }
}

ac_all_sums ac_instance_all_sums(const ac_instance *instance) {
  const ac_graph *graph = instance->plan->graph;
  ac_all_sums all = {0};
  for (int k = 0; k < graph->loss_count; k++) all.of[k] = ac_instance_loss_sums(instance, k);
  for (int i = 0; i < graph->metric_count; i++) {
    const int index = ac_graph_sum_index(graph, graph->metrics[i].tensor);
    all.of[index] = ac_instance_loss_sums(instance, index);
  }
  return all;
}

static ac_total_loss total_of(const ac_instance *instance, const ac_all_sums *all,
                              int64_t samples) {
  const ac_plan *plan = instance->plan;
  const bool several = plan->graph->loss_count > 1;
  const bool per_sample = several && plan->problem.desc.loss_means == AC_LOSS_MEANS_PER_SAMPLE;
  ac_total_loss total = {.weight = (double)samples, .finite = true};
  for (int k = 0; k < plan->graph->loss_count; k++) {
    const ac_loss_sums sums = all->of[k];
    ac_loss_mean *mean = &total.losses[k];
    *mean = (ac_loss_mean){.name = plan->graph->losses[k].name,
                           .weight = per_sample ? (double)samples : sums.weight};
    total.finite &= isfinite(sums.loss) && isfinite(sums.weight);
    total.weighs |= sums.weight > 0;
    if (!several) total.weight = sums.weight;
    mean->accuracy = sums.weight > 0 ? sums.correct / sums.weight : (double)NAN;
    mean->loss = mean->weight > 0 ? sums.loss / mean->weight : (double)NAN;
    if (sums.weight > 0) total.loss += plan->graph->losses[k].factor * mean->loss;
  }
  if (!total.weighs) total.loss = (double)NAN;
  return total;
}

static double value_of(ac_metric_kind kind, const ac_loss_sums *sums) {
  if (!(sums->weight > 0)) return (double)NAN;
  const double mean = sums->loss / sums->weight;
  switch (kind) {
  case AC_METRIC_EXP:
    return exp(mean);
  case AC_METRIC_ROOT:
    return mean >= 0 ? sqrt(mean) : (double)NAN;
  case AC_METRIC_RIGHT:
    return sums->correct / sums->weight;
  default:
    return mean;
  }
}

static void metrics_of(const ac_instance *instance, const ac_all_sums *all,
                       ac_metric metrics[AC_MAX_METRICS]) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->metric_count; i++) {
    const ac_graph_metric *metric = &graph->metrics[i];
    const ac_loss_sums *sums = &all->of[ac_graph_sum_index(graph, metric->tensor)];
    metrics[i] = (ac_metric){metric->name, value_of(metric->kind, sums), sums->weight};
  }
}

void ac_instance_metrics(const ac_instance *instance, ac_metric metrics[AC_MAX_METRICS]) {
  const ac_all_sums all = ac_instance_all_sums(instance);
  metrics_of(instance, &all, metrics);
}

ac_total_loss ac_instance_total_loss(const ac_instance *instance, int64_t samples) {
  const ac_all_sums all = ac_instance_all_sums(instance);
  return total_of(instance, &all, samples);
}

ac_evaluation ac_instance_means(const ac_instance *instance, const ac_all_sums *sums,
                                int64_t samples) {
  const ac_total_loss total = total_of(instance, sums, samples);
  ac_evaluation means = {.loss = total.loss,
                         .accuracy = total.losses[0].accuracy,
                         .weight = total.weight,
                         .loss_count = instance->plan->graph->loss_count,
                         .metric_count = instance->plan->graph->metric_count};
  memcpy(means.losses, total.losses, sizeof means.losses);
  metrics_of(instance, sums, means.metrics);
  return means;
}
