/* Looking inside: the gradient of a parameter is compared with finite differences of the loss, is
 * changed before an update, and the optimizer's moments are read and moved to another trainer, as
 * one would do with those of another program. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 16, IN = 3, OUT = 2, COUNT = IN * OUT };

static float x[ROWS][IN], y[ROWS][OUT];
static const ac_feed feeds[] = {{"x", x}, {"y", y}};

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc spread = {.init = {AC_INIT_UNIFORM, .low = -1, .high = 1}};
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, IN)),
            *target = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, OUT)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(OUT, IN), &spread);
  ac_graph_set_loss(
      graph, ac_mean_squared_error(ac_sigmoid(ac_linear(in, w, NULL, AC_OUT_IN)), target, NULL));
  return ac_graph_status(graph);
}

/* The gradient of the *sum* of losses, by backward and by differences: the largest error. */
static ac_status check(ac_trainer *trainer, ac_dataset *data, double *error) {
  const float step = 1e-2f;
  float weight[COUNT], gradient[COUNT];
  ac_evaluation high, low;
  *error = 0;
  ac_status status = ac_trainer_accumulate(trainer, ROWS, feeds, 2);
  if (status == AC_OK) status = ac_trainer_get_gradient(trainer, 0, 0, COUNT, gradient);
  if (status == AC_OK) status = ac_trainer_get_parameter(trainer, 0, 0, COUNT, weight);
  ac_trainer_discard(trainer); /* no update: the window was for its gradient alone */
  for (int i = 0; i < COUNT && status == AC_OK; i++) {
    const float more = weight[i] + step, less = weight[i] - step;
    status = ac_trainer_set_parameter(trainer, 0, i, 1, &more);
    if (status == AC_OK) status = ac_trainer_evaluate(trainer, data, 0, &high);
    if (status == AC_OK) status = ac_trainer_set_parameter(trainer, 0, i, 1, &less);
    if (status == AC_OK) status = ac_trainer_evaluate(trainer, data, 0, &low);
    if (status == AC_OK) status = ac_trainer_set_parameter(trainer, 0, i, 1, &weight[i]);
    if (status != AC_OK) break;
    const double difference = ROWS * (high.loss - low.loss) / (2 * (double)step);
    printf("weight %d: gradient %8.5f, by differences %8.5f\n", i, (double)gradient[i], difference);
    *error = fmax(*error, fabs(difference - (double)gradient[i]));
  }
  return status;
}

/* Removes the gradient of the first row of weights before the update: it does not change. */
static ac_status half_update(ac_trainer *trainer, bool *kept) {
  const float zero[IN] = {0};
  float before[COUNT], after[COUNT];
  ac_status status = ac_trainer_get_parameter(trainer, 0, 0, COUNT, before);
  if (status == AC_OK) status = ac_trainer_accumulate(trainer, ROWS, feeds, 2);
  if (status == AC_OK) status = ac_trainer_set_gradient(trainer, 0, 0, IN, zero);
  if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  if (status == AC_OK) status = ac_trainer_get_parameter(trainer, 0, 0, COUNT, after);
  if (status == AC_OK)
    *kept = memcmp(before, after, sizeof zero) == 0 && memcmp(before, after, sizeof after) != 0;
  return status;
}

/* Weights, moments and the number of updates: with these another trainer goes on with the same
 * bits. */
static ac_status move(ac_trainer *from, ac_trainer *to) {
  float values[COUNT];
  ac_progress progress;
  ac_status status = ac_trainer_get_parameter(from, 0, 0, COUNT, values);
  if (status == AC_OK) status = ac_trainer_set_parameter(to, 0, 0, COUNT, values);
  for (int state = 0; state < ac_trainer_state_count(from) && status == AC_OK; state++) {
    status = ac_trainer_get_state(from, 0, state, 0, COUNT, values);
    if (status == AC_OK) status = ac_trainer_set_state(to, 0, state, 0, COUNT, values);
  }
  if (status == AC_OK) status = ac_trainer_get_progress(from, &progress);
  if (status == AC_OK) status = ac_trainer_set_updates(to, progress.updates);
  return status;
}

static ac_status one_update(ac_trainer *trainer, float weight[COUNT]) {
  ac_status status = ac_trainer_accumulate(trainer, ROWS, feeds, 2);
  if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  return status == AC_OK ? ac_trainer_get_parameter(trainer, 0, 0, COUNT, weight) : status;
}

int main(void) {
  static const ac_field fields[] = {{"x", AC_F32, IN}, {"y", AC_F32, OUT}};
  const void *arrays[] = {x, y};
  float one[COUNT] = {0}, two[COUNT] = {1};
  double error = 1;
  bool kept = false;
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL, *other = NULL;
  for (int row = 0; row < ROWS; row++) {
    for (int i = 0; i < IN; i++) x[row][i] = sinf((float)(row * IN + i));
    for (int i = 0; i < OUT; i++) y[row][i] = 0.5f + 0.4f * cosf((float)(row + i));
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&data, ROWS, 2, fields, arrays);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = ROWS});
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1});
  if (status == AC_OK) status = ac_trainer_create(&other, plan, &(ac_trainer_desc){.seed = 2});
  if (status == AC_OK) status = check(trainer, data, &error);
  if (status == AC_OK) status = half_update(trainer, &kept);
  if (status == AC_OK) status = move(trainer, other);
  if (status == AC_OK) status = one_update(trainer, one);
  if (status == AC_OK) status = one_update(other, two);
  if (status != AC_OK) fprintf(stderr, "gradients: %s\n", ac_last_error());
  const bool same = memcmp(one, two, sizeof one) == 0;
  printf("largest error %.1e; the first row %s; the other trainer goes on with %s bits\n", error,
         kept ? "was kept" : "has changed", same ? "the same" : "other");
  ac_trainer_free(other);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  return status == AC_OK && error < 1e-3 && kept && same ? 0 : 1;
}
