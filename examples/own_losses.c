/* A loss of one's own: a network predicts two quantiles of what is noisy, by the pinball loss. Of
 * the error e = y - prediction it is q e above zero and (q - 1) e below, so that the best
 * prediction is the number below which a share q of all y lies. A row of it is a loss for ac_loss.
 */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 32, UPDATES = 600 };

static ac_tensor *layer(ac_graph *graph, const char *name, ac_tensor *in, int64_t from,
                        int64_t to) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(to, from), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_linear(in, w, ac_parameter(graph, text, AC_SHAPE(to), NULL), AC_OUT_IN);
}

/* Any tensor of one number a row is a loss. */
static ac_tensor *pinball_loss(ac_tensor *prediction, ac_tensor *y, float q) {
  ac_tensor *error = ac_subtract(y, prediction);
  ac_tensor *above = ac_relu(error), *below = ac_relu(ac_scale(error, -1));
  return ac_loss(ac_add(ac_scale(above, q), ac_scale(below, 1 - q)), NULL);
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *body = ac_tanh(layer(graph, "body", x, 1, HIDDEN));
  ac_tensor *median = layer(graph, "median", body, HIDDEN, 1);
  ac_graph_add_loss(graph, "median", pinball_loss(median, y, 0.5f), 1);
  ac_tensor *most = layer(graph, "most", body, HIDDEN, 1);
  ac_graph_add_loss(graph, "most", pinball_loss(most, y, 0.9f), 1);
  return ac_graph_status(graph);
}

/* y is uniform in [x, x + 2): its median is x + 1, and 0.9 of it lies below x + 1.8. */
static ac_status train(ac_trainer *trainer, ac_update *last) {
  static float x[POINTS], y[POINTS];
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  uint32_t state = 3;
  for (int update = 0; update < UPDATES; update++) {
    for (int i = 0; i < POINTS; i++) {
      state = state * 1664525u + 1013904223u;
      x[i] = (float)(state >> 8) / (1 << 23) - 1;
      state = state * 1664525u + 1013904223u;
      y[i] = x[i] + (float)(state >> 8) / (1 << 23);
    }
    ac_status status = ac_trainer_accumulate(trainer, POINTS, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, last);
    if (status != AC_OK) return status;
  }
  printf("median %.4f, most %.4f\n", last->losses[0].loss, last->losses[1].loss);
  return AC_OK;
}

int main(void) {
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_update last = {.loss_count = 0};
  const ac_plan_desc policy = {.batch = POINTS};
  const ac_trainer_desc training = {.seed = 1, .schedule = {.lr = 0.01}};

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = ac_plan_create(&plan, graph, device, &policy);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = train(trainer, &last);
  if (status != AC_OK) fprintf(stderr, "own_losses: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  /* The best that can be reached: the mean of |u - 1| / 2 for u in [0, 2), and 0.09. */
  return status == AC_OK && fabs(last.losses[0].loss - 0.25) < 0.03 &&
                 fabs(last.losses[1].loss - 0.09) < 0.02
             ? 0
             : 1;
}
