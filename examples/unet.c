/* An image to an image: a small U-net takes the noise out of pictures. It goes down to half the
 * size and up again, and joins what it had at full size. A session then cleans a new picture. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { SIZE = 16, PIXELS = SIZE * SIZE, SAMPLES = 256, CHANNELS = 8, STEPS = 150 };

static ac_tensor *convolve(ac_graph *graph, const char *name, ac_tensor *x, int64_t in, int64_t out,
                           int size) {
  char text[32];
  const ac_parameter_desc he = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  const ac_conv2d_desc same = {.padding = {size / 2, size / 2}};
  snprintf(text, sizeof text, "%s.weight", name);
  ac_tensor *w = ac_parameter(graph, text, AC_SHAPE(out, in, size, size), &he);
  snprintf(text, sizeof text, "%s.bias", name);
  return ac_conv2d(x, w, ac_parameter(graph, text, AC_SHAPE(out), NULL), &same);
}

/* Norms without parameters of their own: gamma and beta may be NULL. */
static ac_status describe(ac_graph *graph) {
  ac_tensor *noisy = ac_input(graph, "noisy", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE)),
            *clean = ac_input(graph, "clean", AC_F32, AC_SHAPE(AC_BATCH, 1, SIZE, SIZE));
  ac_tensor *x = convolve(graph, "in", noisy, 1, CHANNELS, 3);
  ac_tensor *full = ac_silu(ac_instance_norm(x, NULL, NULL, 0));
  ac_tensor *down = ac_average_pool2d(full, &(ac_pool2d_desc){.kernel = {2, 2}});
  down = convolve(graph, "down", down, CHANNELS, 2 * CHANNELS, 3);
  down = ac_silu(ac_sample_norm(down, NULL, NULL, 0));
  ac_tensor *parts[] = {full, ac_upsample_nearest2d(down, 2)};
  ac_tensor *joined = ac_concat(graph, parts, 2, 1); /* along the channels */
  joined = ac_silu(convolve(graph, "up", joined, 3 * CHANNELS, CHANNELS, 3));
  ac_tensor *logits = convolve(graph, "out", joined, CHANNELS, 1, 1);
  ac_graph_set_loss(graph, ac_binary_cross_entropy(logits, clean, NULL));
  ac_graph_set_output(graph, "picture", ac_sigmoid(logits));
  return ac_graph_status(graph);
}

static float uniform(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (1 << 24);
}

/* A white disc, and the same with noise. It depends on the key alone, so no picture is stored. */
static ac_status draw(void *user, const ac_sample_key *key, void *const *fields) {
  uint32_t state = (uint32_t)key->index * 2654435761u + 1;
  const float row = 3 + 10 * uniform(&state), column = 3 + 10 * uniform(&state),
              radius = 2 + 3 * uniform(&state);
  float *noisy = fields[0], *clean = fields[1];
  (void)user;
  for (int i = 0; i < PIXELS; i++) {
    const float y = (float)(i / SIZE) - row, x = (float)(i % SIZE) - column;
    clean[i] = x * x + y * y < radius * radius;
    noisy[i] = clean[i] + 1.6f * (uniform(&state) - 0.5f);
  }
  return AC_OK;
}

/* The mean squared distance from the clean picture. */
static double distance(const float *picture, const float *clean) {
  double sum = 0;
  for (int i = 0; i < PIXELS; i++) sum += pow((double)(picture[i] - clean[i]), 2);
  return sum / PIXELS;
}

static ac_status train(const ac_graph *graph, ac_device *device, ac_dataset *data,
                       const char *path) {
  const ac_fit_desc fit = {.train = data, .steps = STEPS};
  ac_plan *plan = NULL;
  ac_trainer *trainer = NULL;
  ac_status status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 16});
  if (status == AC_OK)
    status = ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.005}});
  if (status == AC_OK) status = ac_fit(trainer, &fit, NULL);
  if (status == AC_OK) status = ac_trainer_save(trainer, path, NULL, 0);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return status;
}

int main(void) {
  const ac_callback_dataset_desc pictures = {
      .count = SAMPLES,
      .field_count = 2,
      .fields = {{"noisy", AC_F32, PIXELS}, {"clean", AC_F32, PIXELS}},
      .read = draw,
      .concurrent = true};
  const char *path = "unet.safetensors";
  static float noisy[PIXELS], clean[PIXELS], result[PIXELS];
  const ac_feed feed = {"noisy", noisy};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_callback(&data, &pictures);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK) status = train(graph, device, data, path);
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.purpose = AC_PREDICT});
  if (status == AC_OK) status = ac_session_create(&session, plan, 0);
  if (status == AC_OK) status = ac_session_load(session, path, NULL);
  /* A picture that training has not seen. */
  if (status == AC_OK)
    status = draw(NULL, &(ac_sample_key){.index = 5000}, (void *[]){noisy, clean});
  if (status == AC_OK) status = ac_session_run(session, 1, &feed, 1);
  if (status == AC_OK) status = ac_session_output(session, "picture", 0, PIXELS, result);
  if (status != AC_OK) fprintf(stderr, "unet: %s\n", ac_last_error());

  const double before = distance(noisy, clean), after = distance(result, clean);
  printf("mean squared error %.3f before, %.3f after\n", before, after);
  for (int row = 0; row < SIZE; row++) {
    for (int i = 0; i < SIZE; i++) putchar(noisy[row * SIZE + i] > 0.5f ? '#' : '.');
    printf("  ");
    for (int i = 0; i < SIZE; i++) putchar(result[row * SIZE + i] > 0.5f ? '#' : '.');
    putchar('\n');
  }
  remove(path);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  return status == AC_OK && after < 0.03 && before > 0.15 ? 0 : 1;
}
