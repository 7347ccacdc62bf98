/* Freezing and groups: a trained body stays as it is, and only a new head learns. Its biases have
 * a learning rate of their own, and its weights lose their weight decay half-way. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 256, HIDDEN = 64, UPDATES = 300 };

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t from,
                        int64_t to) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(to, from), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_linear(in, w, ac_parameter(graph, text, AC_SHAPE(to), NULL), AC_OUT_IN);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *body = ac_tanh(layer(graph, "body", x, 1, HIDDEN));
  ac_graph_set_loss(graph, ac_mean_squared_error(layer(graph, "head", body, HIDDEN, 1), y, NULL));
  return ac_graph_status(graph);
}

/* Learns y = sin(k x). */
static ac_status learn(ac_trainer *trainer, float k, int updates, ac_update *result) {
  float x[POINTS], y[POINTS];
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  for (int i = 0; i < POINTS; i++) {
    x[i] = 2 * ((float)i / POINTS - 0.5f);
    y[i] = sinf(k * x[i]);
  }
  for (int update = 0; update < updates; update++) {
    ac_status status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, result);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* Trains everything, and saves the body alone. */
static ac_status pretrain(const ac_graph *graph, ac_device *device, const char *path) {
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update result;
  ac_status status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = POINTS});
  if (status == AC_OK)
    status = ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.01}});
  if (status == AC_OK) status = learn(trainer, 3, UPDATES, &result);
  if (status == AC_OK) status = ac_trainer_save_part(trainer, path, "body.*", NULL, 0);
  if (status == AC_OK)
    printf("all: %lld weights are trained, loss %.5f\n",
           (long long)ac_plan_get_info(plan)->parameter_count, result.loss);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

static ac_status read_body(ac_trainer *trainer, float weights[HIDDEN]) {
  const int index = ac_trainer_find_parameter(trainer, "body.weight");
  return ac_trainer_get_parameter(trainer, index, 0, HIDDEN, weights);
}

/* Loads the body, which is frozen, and trains a head for another task. */
static ac_status fine_tune(const ac_graph *graph, ac_device *device, const char *path, bool *same,
                           ac_update *result) {
  const ac_plan_desc policy = {.batch = POINTS, .frozen = "body.*"};
  const ac_trainer_desc training = {
      .seed = 9,
      .schedule = {.lr = 0.01},
      .optimizer = {.weight_decay = 0.1},
      /* The first group that matches counts: head.bias is in the first one. */
      .groups = {{"*.bias", {.rate = 2}}, {"head.*", {.rate = 1, .clip = 10}}},
      .group_count = 2};
  float before[HIDDEN], after[HIDDEN];
  ac_group_settings head;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_trainer_load_part(trainer, path, "body.*", NULL);
  if (status == AC_OK) status = read_body(trainer, before);
  if (status == AC_OK) status = learn(trainer, 2, UPDATES / 2, result);
  if (status == AC_OK) status = ac_trainer_get_group(trainer, 1, &head);
  head.weight_decay = -1; /* none; 0 would be the default */
  if (status == AC_OK) status = ac_trainer_set_group(trainer, 1, &head);
  if (status == AC_OK) status = learn(trainer, 2, UPDATES / 2, result);
  if (status == AC_OK) status = read_body(trainer, after);
  if (status == AC_OK) {
    *same = memcmp(before, after, sizeof before) == 0;
    printf("head: %lld weights are trained, %lld are frozen, loss %.5f\n",
           (long long)ac_plan_get_info(plan)->parameter_count,
           (long long)ac_plan_get_info(plan)->frozen_count, result->loss);
    for (int i = 0; i < result->group_count; i++)
      printf("group %d: norm of the gradient %.5f\n", i, result->group_norms[i]);
  }
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

int main(void) {
  const char *path = "groups.safetensors";
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_update result = {.loss = INFINITY};
  bool same = false;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = pretrain(graph, device, path);
  if (status == AC_OK) status = fine_tune(graph, device, path, &same, &result);
  if (status != AC_OK) fprintf(stderr, "groups: %s\n", ac_last_error());
  printf("the body %s\n", same ? "has not changed" : "has changed");
  remove(path);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && same && result.loss < 0.01 ? 0 : 1;
}
