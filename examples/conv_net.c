/* Convolution: a small residual network tells crosses from circles, wherever they are in a picture
 * of 16 x 16 noisy pixels. Group norm looks at one sample at a time, so the batch can be split as
 * the memory needs it, and the result stays the same. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 16, SAMPLES = 600, TRAINED = 500, CHANNELS = 8 };

static ac_tensor *parameter(ac_graph *graph, const char *name, int rank, const int64_t *shape,
                            ac_init init) {
  return ac_parameter(graph, name, rank, shape, &(ac_parameter_desc){.init = init});
}

/* Convolution, group norm, activation. The scope names the ops in messages and reports. */
static ac_tensor *block(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  char text[64];
  const ac_conv2d_desc same = {.padding = {1, 1}};
  ac_graph_scope(graph, name);
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w =
      parameter(graph, text, AC_SHAPE(out, in, 3, 3), (ac_init){.kind = AC_INIT_KAIMING_NORMAL});
  snprintf(text, sizeof text, "%s.gamma", name);
  ac_tensor *gamma = parameter(graph, text, AC_SHAPE(out), (ac_init){AC_INIT_CONSTANT, .value = 1});
  snprintf(text, sizeof text, "%s.beta", name);
  ac_tensor *beta = parameter(graph, text, AC_SHAPE(out), (ac_init){.kind = AC_INIT_ZERO});
  x = ac_conv2d(x, ac_weight_standardisation(w, 0), NULL, &same);
  /* The activation is cheap to compute again, so do not keep it for the backward pass. */
  x = ac_tensor_hint(ac_relu(ac_group_norm(x, gamma, beta, 4, 0)), AC_RECOMPUTE);
  ac_graph_scope(graph, NULL);
  return x;
}

static ac_status describe(ac_graph *graph) {
  const ac_pool2d_desc half = {.kernel = {2, 2}};
  ac_tensor *x = ac_input(graph, "images", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *labels = ac_input(graph, "labels", AC_I32, AC_SHAPE(AC_BATCH));
  x = ac_max_pool2d(block(graph, "stem", x, 1, CHANNELS), &half);
  x = ac_add(x, block(graph, "residual", x, CHANNELS, CHANNELS));
  x = block(graph, "wide", ac_average_pool2d(x, &half), CHANNELS, 2 * CHANNELS);
  ac_tensor *w = parameter(graph, "head.weight", AC_SHAPE(2, 2 * CHANNELS),
                           (ac_init){.kind = AC_INIT_XAVIER_UNIFORM});
  ac_tensor *logits = ac_linear(ac_global_average_pool(x), w, NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_cross_entropy(logits, labels, NULL, NULL));
  return ac_graph_status(graph);
}

static float uniform(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (1 << 24);
}

/* A circle (0) or a cross (1) of radius 4 somewhere in a noisy picture. */
static void draw(float *image, int32_t label, uint32_t *state) {
  const int row = 4 + (int)(8 * uniform(state)), column = 4 + (int)(8 * uniform(state));
  for (int i = 0; i < SIZE * SIZE; i++) {
    const int y = i / SIZE - row, x = i % SIZE - column;
    const bool circle = fabs(sqrt(x * x + y * y) - 3.5) < 0.6,
               cross = abs(x) == abs(y) && abs(x) <= 3;
    image[i] = ((label ? cross : circle) ? 1 : 0) + 0.6f * (uniform(state) - 0.5f);
  }
}

int main(void) {
  static float images[SAMPLES][SIZE * SIZE];
  static int32_t labels[SAMPLES];
  static const ac_field fields[] = {{"images", AC_F32, SIZE * SIZE}, {"labels", AC_I32, 1}};
  const void *arrays[] = {images, labels};
  ac_dataset *all = NULL, *train = NULL, *validation = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_fit_result result = {.final = {.accuracy = 0}};
  uint32_t state = 1;
  for (int i = 0; i < SAMPLES; i++) draw(images[i], labels[i] = i % 2, &state);

  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&all, SAMPLES, 2, fields, arrays);
  if (status == AC_OK) status = ac_dataset_slice(&train, all, 0, TRAINED);
  if (status == AC_OK) status = ac_dataset_slice(&validation, all, TRAINED, SAMPLES);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device,
                            &(ac_plan_desc){.batch = 50, .micro_batch = 10, .whole_windows = true});
  if (status == AC_OK)
    status =
        ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 1, .schedule = {.lr = 0.01}});
  const ac_fit_desc fit = {.train = train, .validation = validation, .epochs = 6};
  if (status == AC_OK) status = ac_fit(trainer, &fit, &result);
  if (status == AC_OK)
    printf("%lld weights, %lld bytes, accuracy on new pictures %.2f\n",
           (long long)ac_plan_get_info(plan)->parameter_count,
           (long long)ac_plan_get_info(plan)->bytes.total, result.final.accuracy);
  else fprintf(stderr, "conv_net: %s\n", ac_last_error());

  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_dataset_free(all);
  ac_graph_free(graph);
  return status == AC_OK && result.final.accuracy > 0.9 ? 0 : 1;
}
