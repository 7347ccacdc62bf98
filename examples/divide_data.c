/* Dividing data: 4-fold cross-validation of a small classifier, shards for several processes, and
 * the shuffled order, which can be asked for anywhere without a list of it. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 400, FOLDS = 4, RANKS = 3 };

static float x[SAMPLES][2];
static int32_t labels[SAMPLES];

/* Points of a square. Label 1: above the diagonal. */
static ac_status open_points(ac_dataset **data) {
  static const ac_field fields[] = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}};
  const void *arrays[] = {x, labels};
  uint32_t state = 7;
  for (int i = 0; i < SAMPLES; i++) {
    for (int k = 0; k < 2; k++) {
      state = state * 1664525u + 1013904223u;
      x[i][k] = (float)(state >> 8) / (1 << 24) - 0.5f;
    }
    labels[i] = x[i][1] > x[i][0];
  }
  return ac_dataset_from_memory(data, SAMPLES, 2, fields, arrays);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *points = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *classes = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(2, 2), NULL),
            *b = ac_parameter(graph, "bias", AC_SHAPE(2), NULL);
  ac_graph_set_loss(graph,
                    ac_cross_entropy(ac_linear(points, w, b, AC_OUT_IN), classes, NULL, NULL));
  return ac_graph_status(graph);
}

/* Each fold validates once, with a model that was trained on the other three. */
static ac_status cross_validate(const ac_plan *plan, ac_dataset *all, double *mean) {
  *mean = 0;
  for (int64_t fold = 1; fold <= FOLDS; fold++) {
    ac_dataset *train = NULL, *validation = NULL;
    ac_trainer *trainer = NULL;
    ac_fit_result result;
    ac_status status = ac_dataset_fold(&train, &validation, all, fold, FOLDS);
    if (status == AC_OK)
      status = ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.05}});
    const ac_fit_desc fit = {.train = train, .validation = validation, .epochs = 20};
    if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
    if (status == AC_OK) {
      printf("fold %lld: %lld train, %lld validate, accuracy %.2f\n", (long long)fold,
             (long long)ac_dataset_count(train), (long long)ac_dataset_count(validation),
             result.final.accuracy);
      *mean += result.final.accuracy / FOLDS;
    }
    ac_trainer_free(trainer);
    ac_dataset_free(validation);
    ac_dataset_free(train);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* What each of three processes would train on. Together they have every sample once. */
static ac_status shards(ac_dataset *all, int64_t *total) {
  *total = 0;
  for (int64_t rank = 0; rank < RANKS; rank++) {
    ac_dataset *mine = NULL;
    float point[2];
    int32_t label;
    void *const sample[] = {point, &label};
    ac_status status = ac_dataset_shard(&mine, all, rank, RANKS);
    if (status == AC_OK) status = ac_dataset_read(mine, &(ac_sample_key){.index = 1}, sample);
    if (status == AC_OK) {
      /* The shard's sample 1 is sample rank + RANKS of all. */
      if (memcmp(point, x[rank + RANKS], sizeof point) != 0) status = AC_ERROR_FORMAT;
      printf("process %lld: %lld samples\n", (long long)rank, (long long)ac_dataset_count(mine));
      *total += ac_dataset_count(mine);
    }
    ac_dataset_free(mine);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* The order of epoch 0 with seed 1: every sample once. */
static bool shuffled(void) {
  bool seen[SAMPLES] = {false};
  for (int64_t position = 0; position < SAMPLES; position++) {
    const int64_t index = ac_shuffle(1, 0, position, SAMPLES);
    if (index < 0 || seen[index]) return false;
    seen[index] = true;
  }
  return true;
}

int main(void) {
  ac_dataset *all = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  double mean = 0;
  int64_t total = 0;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = open_points(&all);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 30});
  if (status == AC_OK) status = cross_validate(plan, all, &mean);
  if (status == AC_OK) status = shards(all, &total);
  if (status == AC_OK) printf("mean accuracy %.2f\n", mean);
  else fprintf(stderr, "divide_data: %s\n", ac_last_error());

  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_dataset_free(all);
  return status == AC_OK && mean > 0.9 && total == SAMPLES && shuffled() ? 0 : 1;
}
