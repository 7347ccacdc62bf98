/* Your own data: a function reads records of a file, one sample at a time, so the file may be
 * larger than memory. Each sample has a weight. One class is rare: if all samples weigh the same,
 * the model misses most of it. With weights both classes count the same, and it finds most of them.
 */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>

enum { RECORDS = 6000, TRAINED = 5000, STEPS = 600 };

typedef struct record {
  float x[2];
  int32_t label; /* 1: rare */
} record;

typedef struct table {
  FILE *file;
  float weight[2]; /* of a sample, by its label */
} table;

/* Writes one sample. For one key it always writes the same: a sample can be read again. */
static ac_status read_record(void *user, const ac_sample_key *key, void *const *fields) {
  const table *t = user;
  record r;
  if (fseek(t->file, (long)key->index * (long)sizeof r, SEEK_SET) != 0 ||
      fread(&r, sizeof r, 1, t->file) != 1)
    return AC_ERROR_IO;
  memcpy(fields[0], r.x, sizeof r.x);
  memcpy(fields[1], &r.label, sizeof r.label);
  memcpy(fields[2], &t->weight[r.label], sizeof(float));
  return AC_OK;
}

static ac_status open_table(ac_dataset **data, table *t) {
  const ac_callback_dataset_desc desc = {
      .count = RECORDS,
      .field_count = 3,
      .fields = {{"x", AC_F32, 2}, {"labels", AC_I32, 1}, {"weights", AC_F32, 1}},
      .read = read_record, /* not concurrent: the file has one position */
      .user = t};
  return ac_dataset_from_callback(data, &desc);
}

/* Roughly normal numbers: the sum of four that are uniform. */
static float noise(uint32_t *state) {
  float sum = -2;
  for (int i = 0; i < 4; i++) {
    *state = *state * 1664525u + 1013904223u;
    sum += (float)(*state >> 8) / (1 << 24);
  }
  return sum * 1.7f;
}

static bool write_table(FILE *file) {
  uint32_t state = 1;
  for (int i = 0; i < RECORDS; i++) {
    record r = {.label = i % 20 == 0};
    r.x[0] = noise(&state) + (r.label ? 1.5f : 0);
    r.x[1] = noise(&state);
    if (fwrite(&r, sizeof r, 1, file) != 1) return false;
  }
  return fflush(file) == 0;
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH)),
            *weights = ac_input(graph, "weights", AC_F32, AC_SHAPE(AC_BATCH)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(2, 2), NULL),
            *b = ac_parameter(graph, "bias", AC_SHAPE(2), NULL);
  ac_graph_set_loss(graph, ac_cross_entropy(ac_linear(x, w, b, AC_OUT_IN), labels, weights, NULL));
  return ac_graph_status(graph);
}

/* Trains with the weights of `t` and tells which part of the rare samples the model finds. */
static ac_status train(const ac_plan *plan, table t, double *found) {
  table rare_only = {t.file, {0, 1}}; /* other samples weigh nothing in the evaluation */
  ac_dataset *all = NULL, *rare = NULL, *first = NULL, *last = NULL;
  ac_trainer *trainer = NULL;
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};
  ac_evaluation result = {.accuracy = 0};
  ac_status status = open_table(&all, &t);
  if (status == AC_OK) status = open_table(&rare, &rare_only);
  if (status == AC_OK) status = ac_dataset_check_labels(all, 2); /* reads every sample once */
  if (status == AC_OK) status = ac_dataset_slice(&first, all, 0, TRAINED);
  if (status == AC_OK) status = ac_dataset_slice(&last, rare, TRAINED, RECORDS);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  const ac_fit_desc fit = {.train = first, .steps = STEPS};
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_evaluate(trainer, last, 0, &result);
  *found = result.accuracy;
  ac_trainer_free(trainer);
  ac_dataset_free(last);
  ac_dataset_free(first);
  ac_dataset_free(rare);
  ac_dataset_free(all);
  return status;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  double plain = 1, weighted = 0;
  FILE *file = tmpfile();
  if (!file || !write_table(file)) {
    perror("own_data: cannot write a temporary file");
    return 1;
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 100});
  if (status == AC_OK) status = train(plan, (table){file, {1, 1}}, &plain);
  if (status == AC_OK) status = train(plan, (table){file, {1, 19}}, &weighted);
  if (status != AC_OK) fprintf(stderr, "own_data: %s\n", ac_last_error());
  printf("rare samples found: %.0f %% with equal weights, %.0f %% with weights 1 and 19\n",
         100 * plain, 100 * weighted);

  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  fclose(file);
  return status == AC_OK && plain < 0.4 && weighted > 0.7 ? 0 : 1;
}
