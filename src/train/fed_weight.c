/* The weight of a loss, counted on the host from what is fed: the device's sum must agree, or some
 * row was counted twice or not at all. Known where targets and weights are inputs. */
#include "core/error.h"
#include "ops/loss.h"
#include "train/instance.h"

#include <math.h>

/* The input whose elements an operand of the loss holds; -1: none. */
static int input_of(const ac_graph *graph, const ac_node *loss, int operand) {
  for (int i = 0; operand >= 0 && i < graph->input_count; i++)
    if (ac_tensor_at(graph, loss->in[operand])->storage == graph->inputs[i]) return i;
  return -1;
}

double ac_instance_fed_weight(const ac_instance *instance, const void *const *data, int64_t first,
                              int64_t count) {
  const ac_graph *graph = instance->plan->graph;
  const ac_tensor *sums = ac_tensor_at(graph, graph->loss);
  const ac_node *loss = ac_node_at(graph, sums ? sums->producer : -1);
  ac_loss_rows rows;
  if (!loss || !ac_loss_rows_of(graph, loss, &rows)) return NAN;
  int64_t from = first * rows.per_sample, n = count * rows.per_sample;
  if (rows.weights < 0 && !rows.ignore) return (double)n;

  int target_input = input_of(graph, loss, rows.targets);
  int weight_input = input_of(graph, loss, rows.weights);
  if ((rows.ignore && target_input < 0) || (rows.weights >= 0 && weight_input < 0)) return NAN;
  const int32_t *targets = rows.ignore ? (const int32_t *)data[target_input] + from : NULL;
  const float *weights = rows.weights >= 0 ? (const float *)data[weight_input] + from : NULL;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (!targets || targets[i] != rows.ignore_index) sum += weights ? (double)weights[i] : 1;
  return sum;
}

/* The device keeps sums in pairs of floats, exact to some 45 bits. */
ac_status ac_instance_check_weight(const ac_instance *instance, double summed, double fed) {
  const double tolerance = 1e-6;
  if (instance->device->backend->computes_nothing) return AC_OK;
  if (isnan(fed) || !isfinite(summed) || fabs(summed - fed) <= tolerance * fed) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL,
                 "the device counted losses of weight %.9g where samples of weight %.9g were fed; "
                 "nothing was changed",
                 summed, fed);
}
