/* From datasets to staging buffers, and the forward-only pass over a dataset. */
#include "core/error.h"
#include "data/dataset.h"
#include "run/instance.h"

#include <stdlib.h>
#include <string.h>

static ac_status match_field(ac_gathering *gather, const ac_instance *instance, int f,
                             const ac_field *field, bool *fed) {
  const ac_graph *graph = instance->plan->graph;
  gather->input[f] = -1;
  gather->bytes[f] = (uint64_t)field->elements * ac_dtype_bytes(field->dtype);
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (strcmp(input->name, field->name) != 0) continue;
    if (!input->shape.batched)
      return ac_fail(
          AC_ERROR_ARGUMENT,
          "input \"%s\" has no batch, so the dataset's field of this name cannot feed it; "
          "set it (ac_trainer_set_input, ac_session_set_input)",
          input->name);
    int64_t elements = ac_shape_count(&input->shape);
    if (input->dtype != field->dtype || elements != field->elements)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "input \"%s\" takes %lld %s a sample, but the dataset's field has %lld %s",
                     input->name, (long long)elements, ac_dtype_name(input->dtype),
                     (long long)field->elements, ac_dtype_name(field->dtype));
    if (instance->plan->problem.fed[i]) gather->input[f] = i;
    fed[i] = true;
  }
  return AC_OK;
}

ac_status ac_gather_open(ac_gathering *gather, ac_instance *instance, ac_dataset *dataset) {
  const ac_graph *graph = instance->plan->graph;
  bool fed[AC_MAX_GRAPH_INPUTS] = {false};
  memset(gather, 0, sizeof *gather);
  gather->dataset = dataset;
  uint64_t unused = 0;
  for (int f = 0; f < ac_dataset_field_count(dataset); f++) {
    AC_TRY(match_field(gather, instance, f, ac_dataset_field(dataset, f), fed));
    if (gather->input[f] < 0 && gather->bytes[f] > unused) unused = gather->bytes[f];
  }
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (fed[i] || instance->given[i] || !instance->plan->problem.fed[i]) continue;
    return ac_fail(
        AC_ERROR_ARGUMENT,
        input->shape.batched
            ? "the dataset has no field for input \"%s\""
            : "input \"%s\" has no batch and no value yet, and a dataset cannot feed it; "
              "set it (ac_trainer_set_input, ac_session_set_input)",
        input->name);
  }
  if (unused <= instance->unused_bytes) return AC_OK;
  void *grown = realloc(instance->unused, unused);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "no memory to read samples");
  instance->unused = grown;
  instance->unused_bytes = unused;
  return AC_OK;
}

ac_status ac_instance_check_reading(const ac_instance *instance, const char *who) {
  if (!ac_dataset_is_read_for(instance)) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "%s: a dataset is reading samples for it; use it once the dataset's function has "
                 "returned",
                 who);
}

ac_status ac_gather_read(ac_gathering *gather, ac_instance *instance, const ac_sample_key *key,
                         int64_t slot) {
  void *fields[AC_MAX_FIELDS];
  AC_TRY(ac_instance_meanwhile(instance));
  for (int f = 0; f < ac_dataset_field_count(gather->dataset); f++) {
    int input = gather->input[f];
    fields[f] = input < 0 ? instance->unused
                          : (char *)instance->staging[input] + (uint64_t)slot * gather->bytes[f];
  }
  return ac_dataset_read_for(instance, gather->dataset, key, fields);
}

/* Samples [begin, end), which may be none; their sums. */
static ac_status evaluate(ac_instance *instance, ac_prepared *prepared, ac_gathering *gather,
                          int64_t begin, int64_t end, ac_stop *stop) {
  double fed[AC_MAX_LOSSES] = {0};
  int64_t micro_batch = instance->plan->info.micro_batch;
  for (int64_t first = begin; first < end; first += micro_batch) {
    int64_t count = end - first < micro_batch ? end - first : micro_batch;
    if (ac_stop_asked(stop)) return AC_OK;
    for (int64_t i = 0; i < count; i++) {
      ac_sample_key key = {.index = first + i};
      AC_TRY(ac_gather_read(gather, instance, &key, i));
    }
    const void *const *staged = (const void *const *)instance->staging;
    AC_TRY(ac_instance_check(instance, staged, 0, count));
    AC_TRY(ac_instance_upload(instance, staged, 0, count));
    ac_instance_add_fed_weights(instance, staged, 0, count, fed);
    instance->run.batch = count;
    AC_TRY(ac_instance_run(instance, prepared, first == begin));
  }
  AC_TRY(ac_instance_fetch_control(instance));
  return ac_instance_check_weights(instance, fed);
}

ac_status ac_instance_sum_up(ac_instance *instance, ac_prepared *prepared, ac_dataset *dataset,
                             int64_t begin, int64_t end, ac_stop *stop, ac_all_sums *sums) {
  ac_gathering gather;
  *sums = (ac_all_sums){0};
  AC_TRY(ac_gather_open(&gather, instance, dataset));
  if (begin >= end) return AC_OK;
  AC_TRY(evaluate(instance, prepared, &gather, begin, end, stop));
  if (!stop->stopped) *sums = ac_instance_all_sums(instance);
  return AC_OK;
}

ac_status ac_instance_count_evaluated(ac_dataset *dataset, int64_t limit, int64_t *samples) {
  *samples = ac_dataset_count(dataset);
  if (limit > 0 && limit < *samples) *samples = limit;
  if (*samples >= 1) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "the dataset to evaluate on is empty");
}

ac_status ac_instance_evaluate(ac_instance *instance, ac_prepared *prepared, ac_dataset *dataset,
                               int64_t limit, ac_stop *stop, ac_evaluation *result) {
  int64_t samples;
  ac_all_sums sums;
  AC_TRY(ac_instance_count_evaluated(dataset, limit, &samples));
  AC_TRY(ac_instance_sum_up(instance, prepared, dataset, 0, samples, stop, &sums));
  if (!stop->stopped) *result = ac_instance_means(instance, &sums, samples);
  return AC_OK;
}
