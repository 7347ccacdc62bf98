/* An optimizer of one's own: LAMB (arXiv 1904.00962), which steps each layer by a part of its size.
 * The library keeps its two moments, in the plan's memory and in states, and hands over gradients
 * that are divided and clipped. A small network learns a sine by it. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 32, UPDATES = 2000 };

/* Element i's part of the step, by the moments that it moves. */
static double direction(const ac_parameter_step *s, int64_t i) {
  const double b1 = s->optimizer.beta1, b2 = s->optimizer.beta2, g = (double)s->gradient[i];
  const double m = s->state[0][i] = (float)(b1 * (double)s->state[0][i] + (1 - b1) * g);
  const double v = s->state[1][i] = (float)(b2 * (double)s->state[1][i] + (1 - b2) * g * g);
  const double t = (double)s->update;
  return m / (1 - pow(b1, t)) / (sqrt(v / (1 - pow(b2, t))) + s->optimizer.epsilon) +
         s->weight_decay * (double)s->weights[i];
}

/* Whole layers are handed over, so that they can be measured. */
static const char *lamb(void *user, const ac_parameter_step *s) {
  static double step[HIDDEN * HIDDEN];
  double of_weights = 0, of_step = 0;
  (void)user;
  if (s->count > HIDDEN * HIDDEN) return "the layer is larger than this example knows";
  for (int64_t i = 0; i < s->count; i++) {
    step[i] = direction(s, i);
    of_step += step[i] * step[i];
    of_weights += (double)s->weights[i] * (double)s->weights[i];
  }
  const double trust = of_weights > 0 && of_step > 0 ? sqrt(of_weights / of_step) : 1;
  for (int64_t i = 0; i < s->count; i++) s->weights[i] -= (float)(s->rate * trust * step[i]);
  return NULL;
}

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  char weight[32], bias[32];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  const ac_parameter_desc spread = {.init = {AC_INIT_NORMAL, .deviation = 0.7f}};
  ac_tensor *w = ac_parameter(graph, weight, AC_SHAPE(out, in), &spread);
  return ac_linear(x, w, ac_parameter(graph, bias, AC_SHAPE(out), &spread), AC_OUT_IN);
}

static ac_tensor *describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1));
  x = ac_tanh(layer(graph, "first", x, 1, HIDDEN));
  x = ac_tanh(layer(graph, "second", x, HIDDEN, HIDDEN));
  return ac_mean_squared_error(layer(graph, "last", x, HIDDEN, 1), y, NULL);
}

static ac_status fit(ac_trainer *trainer, ac_fit_result *result) {
  static float x[POINTS], y[POINTS];
  static const ac_field fields[] = {{"x", AC_F32, 1}, {"y", AC_F32, 1}};
  const void *data[] = {x, y};
  ac_dataset *points;
  for (int i = 0; i < POINTS; i++) {
    x[i] = 4 * ((float)i / POINTS - 0.5f);
    y[i] = sinf(2 * x[i]);
  }
  ac_status status = ac_dataset_from_memory(&points, POINTS, 2, fields, data);
  if (status != AC_OK) return status;
  status = ac_fit(trainer, &(ac_fit_desc){.train = points, .validation = points, .steps = UPDATES},
                  result);
  ac_dataset_free(points);
  return status;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_fit_result result = {.final = {.loss = INFINITY}};
  const ac_plan_desc policy = {
      .batch = 64,
      .optimizer = {.kind = AC_OPTIMIZER_CALLBACK, .callback_states = 2, .clip = 1, .step = lamb}};
  const ac_trainer_desc training = {
      .seed = 1, .schedule = {AC_SCHEDULE_COSINE, .lr = 0.005, .warmup = 50, .total = UPDATES}};

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) {
    ac_graph_set_loss(graph, describe(graph));
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  }
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = fit(trainer, &result);
  if (status == AC_OK) printf("mean squared error %.6f\n", result.final.loss);
  else fprintf(stderr, "own_optimizer: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return status == AC_OK && result.final.loss < 1e-3 ? 0 : 1;
}
