/* A training loop of one's own: a small network learns to tell two spirals apart. Every update
 * gathers four batches by ac_trainer_accumulate and ends with ac_trainer_update, so the gradient is
 * that of all 128 points although only 16 are in memory at a time. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { UPDATES = 1500, BATCHES = 4, POINTS = 32, HIDDEN = 64 };

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  char weight[32], bias[32];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  ac_tensor *w = ac_parameter(graph, weight, AC_SHAPE(out, in), &he);
  return ac_linear(x, w, ac_parameter(graph, bias, AC_SHAPE(out), NULL), AC_OUT_IN);
}

static void describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "points", AC_F32, AC_SHAPE(AC_BATCH, 2));
  ac_tensor *target = ac_input(graph, "arms", AC_I32, AC_SHAPE(AC_BATCH));
  x = ac_silu(layer(graph, "first", x, 2, HIDDEN));
  x = ac_silu(layer(graph, "second", x, HIDDEN, HIDDEN));
  x = layer(graph, "last", x, HIDDEN, 2);
  ac_graph_set_loss(graph, ac_cross_entropy(x, target, NULL, NULL));
}

/* Point number `n` of an endless walk along both arms: golden-ratio steps cover them evenly. */
static void spiral(int64_t n, float *point, int32_t *arm) {
  double t = fmod((double)n * 0.6180339887498949, 1), angle = 9 * t;
  *arm = (int32_t)(n & 1);
  double radius = *arm ? -0.2 - t : 0.2 + t;
  point[0] = (float)(radius * cos(angle));
  point[1] = (float)(radius * sin(angle));
}

static ac_status train(ac_trainer *trainer, double *loss) {
  float points[POINTS][2];
  int32_t arms[POINTS];
  const ac_feed feeds[] = {{"points", points}, {"arms", arms}};
  int64_t n = 0;
  for (int update = 1; update <= UPDATES; update++) {
    for (int batch = 0; batch < BATCHES; batch++) {
      for (int i = 0; i < POINTS; i++) spiral(n++, points[i], &arms[i]);
      ac_status status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
      if (status != AC_OK) return status;
    }
    ac_update result;
    ac_status status = ac_trainer_update(trainer, &result);
    if (status != AC_OK) return status;
    *loss = result.loss;
    if (update % 250 == 0) printf("update %d: loss %.4f\n", update, result.loss);
  }
  return AC_OK;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  const ac_plan_desc policy = {.batch = BATCHES * POINTS, .micro_batch = 16};
  const ac_trainer_desc training = {
      .seed = 1, .schedule = {AC_SCHEDULE_COSINE, .lr = 5e-3, .warmup = 50, .total = UPDATES}};
  double loss = INFINITY;

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) {
    describe(graph);
    /* So small a network runs fastest on one thread. */
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  }
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) {
    printf("planned: %llu bytes\n", (unsigned long long)ac_plan_get_info(plan)->bytes.total);
    status = ac_trainer_create(&trainer, plan, &training);
  }
  if (status == AC_OK) status = train(trainer, &loss);
  if (status != AC_OK) fprintf(stderr, "custom_loop: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && loss < 0.1 ? 0 : 1;
}
