/* Inputs: what may be fed to them, finding and checking it, and bringing it to the device. */
#include "core/align.h"
#include "core/elements.h"
#include "core/error.h"
#include "run/instance.h"

#include <math.h>
#include <string.h>

/* For one sample, without handles. */
static ac_op_args arguments_of(const ac_graph *graph, int index) {
  static const ac_run_state one = {.batch = 1};
  ac_op_args args;
  ac_node_arguments(index, graph, &one, &args);
  return args;
}

/* The integers of an input must be below `limit`; `loss`: or be what it ignores, if all that read
 * the input do, or have a limit above it. */
static void limit_ids(ac_instance *instance, int input, int64_t limit, const ac_loss_rows *loss) {
  ac_input_check *check = &instance->checks[input];
  bool first = !check->limit, ignore = loss && loss->ignore;
  if (first || limit < check->limit) check->limit = limit;
  if (first && ignore) check->ignore_index = loss->ignore_index;
  const bool ignores = ignore && check->ignore_index == loss->ignore_index,
             takes = check->ignore_index >= 0 && check->ignore_index < limit;
  check->ignore = first ? ignore : check->ignore && (ignores || takes);
}

/* The same of each input that the integers of an operand may be of. */
static void limit_operand(ac_instance *instance, const ac_node *node, int operand, int64_t limit,
                          const ac_loss_rows *loss) {
  const ac_graph *graph = instance->plan->graph;
  if (node->in[operand] < 0) return;
  const ac_tensor *ids = ac_tensor_at(graph, node->in[operand]);
  const uint32_t fed_by = ac_tensor_at(graph, ids->storage)->fed_by;
  for (int input = 0; input < AC_MAX_GRAPH_INPUTS; input++)
    if (fed_by >> input & 1) limit_ids(instance, input, limit, loss);
}

static void check_others(ac_instance *instance, const ac_node *node, const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(node->op);
  for (int i = 0; desc->limit && i < AC_MAX_INPUTS; i++) {
    const int64_t limit = node->in[i] < 0 ? 0 : desc->limit(args, i);
    if (limit) limit_operand(instance, node, i, limit, NULL);
  }
}

static void check_loss(ac_instance *instance, int index) {
  const ac_graph *graph = instance->plan->graph;
  const ac_node *node = ac_node_at(graph, index);
  const ac_op_desc *desc = ac_op_describe(node->op);
  const int loss = ac_graph_sum_index(graph, node->out[0]);
  if (!desc->loss_rows || loss < 0) return; /* others do not run */
  ac_op_args args = arguments_of(graph, index);
  ac_loss_rows rows = desc->loss_rows(&args);
  int targets = desc->id_limit ? ac_node_input(graph, node, desc->ids) : -1;
  int weights = ac_node_input(graph, node, rows.weights);
  int64_t columns = 0;
  const int lengths = ac_node_lengths(graph, node, rows.weights, &columns);
  if (desc->id_limit) limit_operand(instance, node, desc->ids, desc->id_limit(&args), &rows);
  check_others(instance, node, &args);
  if (weights >= 0) instance->checks[weights].weights = true;
  if (loss < AC_MAX_LOSSES)
    instance->losses[loss] = (ac_fed_loss){rows, targets, weights, lengths, columns};
}

static void check_ids(ac_instance *instance, int index) {
  const ac_graph *graph = instance->plan->graph;
  const ac_node *node = ac_node_at(graph, index);
  const ac_op_desc *desc = ac_op_describe(node->op);
  if ((!desc->id_limit && !desc->limit) || desc->loss_rows || node->backward) return;
  ac_op_args args = arguments_of(graph, index);
  if (desc->id_limit) limit_operand(instance, node, desc->ids, desc->id_limit(&args), NULL);
  check_others(instance, node, &args);
}

/* What a loss ignores another op may not be fed: losses come first. */
void ac_instance_find_checks(ac_instance *instance) {
  const ac_graph *graph = instance->plan->graph;
  for (int n = 0; n < graph->node_count; n++) check_loss(instance, n);
  for (int n = 0; n < graph->node_count; n++) check_ids(instance, n);
}

static ac_status check_integers(const ac_input_check *check, const ac_tensor *input,
                                const void *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t id = ac_integer_at(input->dtype, data, i);
    if (id < INT32_MIN || id > INT32_MAX)
      return ac_fail(AC_ERROR_ARGUMENT, "input \"%s\" holds %lld at position %lld, beyond 32 bits",
                     input->name, (long long)id, (long long)i);
    if (check->limit && (id < 0 || id >= check->limit) &&
        !(check->ignore && id == check->ignore_index))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "input \"%s\" holds %lld at position %lld, outside [0, %lld)", input->name,
                     (long long)id, (long long)i, (long long)check->limit);
  }
  return AC_OK;
}

static ac_status check_data(const ac_input_check *check, const ac_tensor *input, const void *data,
                            int64_t count) {
  if (input->dtype == AC_I64 || check->limit) return check_integers(check, input, data, count);
  for (int64_t i = 0; check->weights && i < count; i++) {
    const float weight = ac_number_at(input->dtype, data, i);
    if (!(weight >= 0) || isinf(weight))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "input \"%s\" holds the weight %g at position %lld; weights are finite and "
                     "not negative",
                     input->name, (double)weight, (long long)i);
  }
  return AC_OK;
}

/* Elements of so many samples; one tensor, whatever they are, without the batch. */
static int64_t elements_of(const ac_tensor *input, int64_t samples) {
  return ac_shape_count(&input->shape) * (input->shape.batched ? samples : 1);
}

/* Samples that are in memory take fewer bytes than there are addresses. */
static ac_status check_count(const ac_tensor *input, int64_t count) {
  const uint64_t bytes = (uint64_t)ac_shape_count(&input->shape) * ac_dtype_bytes(input->dtype);
  if ((uint64_t)count <= PTRDIFF_MAX / bytes) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "%lld samples of input \"%s\", %llu bytes each, are more than memory can hold",
                 (long long)count, input->name, (unsigned long long)bytes);
}

ac_status ac_instance_match_feeds(const ac_instance *instance, const bool *needs, int64_t count,
                                  const ac_feed *feeds, int feed_count,
                                  const void *data[AC_MAX_GRAPH_INPUTS]) {
  const ac_graph *graph = instance->plan->graph;
  if (!needs) needs = instance->plan->problem.fed;
  if (count < 1) return ac_fail(AC_ERROR_ARGUMENT, "%lld samples were fed", (long long)count);
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    data[i] = NULL;
    if (!needs[i]) continue;
    for (int f = 0; f < feed_count; f++)
      if (feeds[f].name && !strcmp(feeds[f].name, input->name)) data[i] = feeds[f].data;
    if (!data[i] && !instance->given[i])
      return ac_fail(AC_ERROR_ARGUMENT, "input \"%s\" was not fed", input->name);
    if (input->shape.batched) AC_TRY(check_count(input, count));
  }
  return ac_instance_check(instance, data, 0, count);
}

static bool is_fed(const ac_instance *instance, const void *const *data, int i) {
  const ac_graph *graph = instance->plan->graph;
  return data[i] && instance->persistent[graph->inputs[i]];
}

/* The data of samples from number `first` on. */
static const char *data_from(const ac_tensor *input, const void *data, int64_t first) {
  const uint64_t bytes = (uint64_t)ac_shape_count(&input->shape) * ac_dtype_bytes(input->dtype);
  return (const char *)data + (input->shape.batched ? (uint64_t)first * bytes : 0);
}

ac_status ac_instance_check(const ac_instance *instance, const void *const *data, int64_t first,
                            int64_t count) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (!is_fed(instance, data, i)) continue;
    AC_TRY(check_data(&instance->checks[i], input, data_from(input, data[i], first),
                      elements_of(input, count)));
  }
  return AC_OK;
}

/* The samples of each micro-batch begin where a view may: there is more than one of these if a
 * window comes at once. */
static ac_status upload(ac_instance *instance, int i, const void *from, int64_t count) {
  const ac_plan *plan = instance->plan;
  const ac_tensor *input = ac_tensor_at(plan->graph, plan->graph->inputs[i]);
  const int64_t most = plan->problem.in_sections ? plan->info.micro_batch : count;
  const uint64_t whole = (uint64_t)elements_of(input, most) * ac_dtype_bytes(input->dtype);
  uint64_t left = (uint64_t)elements_of(input, count) * ac_dtype_bytes(input->dtype), at = 0;
  instance->given[i] = !input->shape.batched;
  for (const char *next = from; left;
       next += whole, at += ac_align(whole, plan->device->info.alignment)) {
    const uint64_t bytes = left < whole ? left : whole;
    AC_TRY(instance->device->backend->upload(instance->device->state,
                                             instance->persistent[input->id], at, next, bytes));
    left -= bytes;
  }
  return AC_OK;
}

/* One value for all samples is there from the first of them on. */
ac_status ac_instance_upload(ac_instance *instance, const void *const *data, int64_t first,
                             int64_t count) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (!is_fed(instance, data, i) || (!input->shape.batched && first > 0)) continue;
    AC_TRY(upload(instance, i, data_from(input, data[i], first), count));
  }
  return AC_OK;
}

ac_status ac_instance_set_input(ac_instance *instance, const char *name, const void *data,
                                const char *caller) {
  const ac_graph *graph = instance->plan->graph;
  int found = -1;
  for (int i = 0; i < graph->input_count; i++)
    if (!strcmp(ac_tensor_at(graph, graph->inputs[i])->name, name)) found = i;
  if (found < 0) return ac_fail(AC_ERROR_ARGUMENT, "%s: no input \"%s\"", caller, name);
  const ac_tensor *input = ac_tensor_at(graph, graph->inputs[found]);
  if (input->shape.batched)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: input \"%s\" has the batch, so it is fed with samples and cannot be set",
                   caller, name);
  AC_TRY(check_data(&instance->checks[found], input, data, elements_of(input, 1)));
  return instance->persistent[input->id] ? upload(instance, found, data, 1) : AC_OK;
}
