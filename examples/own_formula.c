/* A formula with parameters: the height, place and width of a peak are fitted to noisy points. The
 * formula is differentiated by the library, and each parameter is repeated for all points, so its
 * gradient is a sum over them. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, UPDATES = 400 };

/* What is to be found: y = height exp(-((x - place) / width)^2) + ground. */
static const float truth[] = {2.5f, 0.3f, 0.4f, -0.5f};
static const char *const names[] = {"height", "place", "width", "ground"};

static ac_status describe(ac_graph *graph) {
  static const float start[] = {1, 0, 1, 0};
  ac_tensor *operands[5] = {ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1))};
  for (int i = 0; i < 4; i++) {
    const ac_parameter_desc from = {.init = {.kind = AC_INIT_CONSTANT, .value = start[i]}};
    operands[i + 1] = ac_parameter(graph, names[i], AC_SHAPE(1), &from);
  }
  ac_tensor *y = ac_formula(graph, "b * exp(-((a - c) / d)^2) + e", operands, 5);
  ac_tensor *measured = ac_input(graph, "measured", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_graph_set_loss(graph, ac_mean_squared_error(y, measured, NULL));
  return ac_graph_status(graph);
}

/* Points from -2 to 2, with noise of up to 0.1. */
static void measure(float *x, float *measured) {
  uint32_t state = 1;
  for (int i = 0; i < POINTS; i++) {
    state = state * 1664525u + 1013904223u;
    float noise = 0.2f * ((float)(state >> 8) / (1 << 24) - 0.5f);
    x[i] = 4.0f * (float)i / POINTS - 2;
    float distance = (x[i] - truth[1]) / truth[2];
    measured[i] = truth[0] * expf(-distance * distance) + truth[3] + noise;
  }
}

static ac_status train(ac_trainer *trainer) {
  static float x[POINTS], measured[POINTS];
  measure(x, measured);
  const ac_feed feeds[] = {{"x", x}, {"measured", measured}};
  ac_update result;
  for (int update = 1; update <= UPDATES; update++) {
    ac_status status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, &result);
    if (status != AC_OK) return status;
    if (update % 100 == 0) printf("update %d: loss %.4f\n", update, result.loss);
  }
  return AC_OK;
}

/* Whether all four are near the truth. */
static bool found(ac_trainer *trainer) {
  bool all = true;
  for (int i = 0; i < 4; i++) {
    float value;
    if (ac_trainer_get_parameter(trainer, i, 0, 1, &value) != AC_OK) return false;
    printf("%s %.3f (truth: %g)\n", names[i], value, truth[i]);
    all = all && fabsf(value - truth[i]) < 0.03f;
  }
  return all;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  const ac_plan_desc policy = {.batch = POINTS};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.02}};

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_device_open(&device, NULL);
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = train(trainer);
  if (status != AC_OK) fprintf(stderr, "own_formula: %s\n", ac_last_error());
  bool good = status == AC_OK && found(trainer);

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return good ? 0 : 1;
}
