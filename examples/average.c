/* Averages of weights: with noisy samples and a high learning rate the weights jump around the best
 * ones. Their exponential moving average does not, and is better in evaluation and in a saved file.
 */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 16, SAMPLES = 2048, STEPS = 600 };

static float true_weights[INPUTS];

/* y = x w, with noise for training and without for validation. */
static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  uint32_t state = (uint32_t)key->index * 2654435761u + 12345;
  const float noise = *(const float *)user;
  float *x = fields[0], *y = fields[1], sum = 0;
  for (int i = 0; i < INPUTS; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / (1 << 23) - 1;
    sum += x[i] * true_weights[i];
  }
  state = state * 1664525u + 1013904223u;
  *y = sum + noise * ((float)(state >> 8) / (1 << 23) - 1);
  return AC_OK;
}

static ac_status open_samples(ac_dataset **data, float *noise) {
  const ac_callback_dataset_desc desc = {.count = SAMPLES,
                                         .field_count = 2,
                                         .fields = {{"x", AC_F32, INPUTS}, {"y", AC_F32, 1}},
                                         .read = read_sample,
                                         .concurrent = true,
                                         .user = noise};
  return ac_dataset_from_callback(data, &desc);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, INPUTS)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(1, INPUTS), NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), y, NULL));
  return ac_graph_status(graph);
}

/* The loss without noise: of the weights, of their averages, and of the weights again. */
static ac_status evaluate(ac_trainer *trainer, ac_dataset *validation, const char *path,
                          double loss[3]) {
  ac_evaluation result;
  ac_status status = AC_OK;
  for (int i = 0; i < 3 && status == AC_OK; i++) {
    status = ac_trainer_use_average(trainer, i == 1);
    if (status == AC_OK) status = ac_trainer_evaluate(trainer, validation, 0, &result);
    if (status == AC_OK && i == 1) status = ac_trainer_save(trainer, path, NULL, 0);
    if (status == AC_OK) loss[i] = result.loss;
  }
  return status;
}

int main(void) {
  const char *path = "average.safetensors";
  const ac_plan_desc policy = {.batch = 8, .average = true};
  const ac_trainer_desc training = {.schedule = {.lr = 0.05}, .average_decay = 0.98};
  float noisy = 3, none = 0;
  double loss[3] = {0}, saved = INFINITY;
  ac_dataset *train = NULL, *validation = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_evaluation result;
  for (int i = 0; i < INPUTS; i++) true_weights[i] = sinf((float)i);
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = open_samples(&train, &noisy);
  if (status == AC_OK) status = open_samples(&validation, &none);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  const ac_fit_desc fit = {.train = train, .steps = STEPS};
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = evaluate(trainer, validation, path, loss);
  /* The file has the averages, under the names of the parameters. */
  if (status == AC_OK) status = ac_trainer_load(trainer, path, NULL);
  if (status == AC_OK) status = ac_trainer_evaluate(trainer, validation, 0, &result);
  if (status == AC_OK) saved = result.loss;
  if (status != AC_OK) fprintf(stderr, "average: %s\n", ac_last_error());
  printf("error of the weights %.4f, of their averages %.4f, of the file %.4f\n", loss[0], loss[1],
         saved);
  if (plan)
    printf("averages take %llu of %llu bytes\n",
           (unsigned long long)ac_plan_get_info(plan)->average_bytes,
           (unsigned long long)ac_plan_get_info(plan)->bytes.total);
  remove(path);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_graph_free(graph);
  return status == AC_OK && loss[1] < 0.5 * loss[0] && loss[2] == loss[0] && saved == loss[1] ? 0
                                                                                              : 1;
}
