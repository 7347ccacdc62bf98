/* Batches that grow: by a schedule in epochs, by themselves, whenever the gradient noise scale says
 * that a larger batch would help, and in a loop of the program's own. Small batches in the
 * beginning save samples. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 8, SAMPLES = 2000, MOST = 64 };

/* y = x w and noise. */
static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  uint32_t state = (uint32_t)key->index * 2654435761u + 12345;
  float *x = fields[0], *y = fields[1];
  (void)user;
  *y = 0;
  for (int i = 0; i <= INPUTS; i++) {
    state = state * 1664525u + 1013904223u;
    const float number = (float)(state >> 8) / (1 << 23) - 1;
    if (i < INPUTS) x[i] = number;
    *y += i < INPUTS ? number * sinf((float)i) : number;
  }
  return AC_OK;
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, INPUTS)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(1, INPUTS), NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), y, NULL));
  return ac_graph_status(graph);
}

static bool report(void *user, const ac_fit_event *event) {
  int64_t *before = user;
  if (event->kind == AC_FIT_STEP && event->samples != *before) {
    printf("  window %lld has %lld samples\n", (long long)event->step, (long long)event->samples);
    *before = event->samples;
  }
  return true;
}

static ac_status run(const ac_plan *plan, ac_fit_desc *fit, ac_fit_result *result, int *rows) {
  /* The noise scale is measured after each update. A larger batch gets a higher rate. */
  const ac_trainer_desc training = {
      .schedule = {.lr = 0.02, .scaling = AC_RATE_SCALING_SQRT, .base_batch = MOST},
      .noise_every = 1};
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  ac_noise_scale noise;
  ac_trainer *trainer = NULL;
  int64_t before = 0, windows = 0;
  fit->callback = report;
  fit->user = &before;
  ac_status status = ac_fit_windows(fit, MOST, &windows);
  if (status == AC_OK) printf("  at most %lld windows\n", (long long)windows);
  if (status == AC_OK) status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_fit(trainer, fit, result);
  if (status == AC_OK) status = ac_trainer_noise_scale(trainer, &noise);
  if (status == AC_OK)
    printf("  loss %.3f after %lld windows; noise scale %.0f +- %.0f samples\n", result->final.loss,
           (long long)result->steps, noise.batch, noise.deviation);
  /* What has grown, as a schedule: a run that is given it has the same bits. */
  if (status == AC_OK) status = ac_trainer_get_growth(trainer, stages, rows);
  for (int i = 0; status == AC_OK && i < *rows; i++)
    printf("  from window %lld: %lld samples\n", (long long)stages[i].from,
           (long long)stages[i].batch);
  ac_trainer_free(trainer);
  return status;
}

static bool never(void *user) {
  (void)user;
  return false; /* true would stop the evaluation */
}

/* A loop of one's own says itself how large the next window is: the rate follows it. */
static ac_status by_hand(const ac_plan *plan, ac_dataset *data, double *loss) {
  const ac_trainer_desc training = {
      .schedule = {.lr = 0.05, .scaling = AC_RATE_SCALING_SQRT, .base_batch = MOST}};
  float x[MOST][INPUTS], y[MOST];
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  ac_trainer *trainer = NULL;
  ac_evaluation result = {.loss = INFINITY};
  bool stopped = false;
  int64_t position = 0;
  ac_status status = ac_trainer_create(&trainer, plan, &training);
  for (int update = 0; update < 150 && status == AC_OK; update++) {
    status = ac_trainer_set_batch(trainer, update < 100 ? 16 : MOST);
    const int64_t batch = ac_trainer_batch(trainer);
    for (int64_t i = 0; i < batch && status == AC_OK; i++, position++) {
      const ac_sample_key key = {
          .index = ac_shuffle(1, position / SAMPLES, position % SAMPLES, SAMPLES)};
      status = ac_dataset_read(data, &key, (void *[]){x[i], &y[i]});
    }
    if (update % 100 == 0) printf("  update %d: rate %.3f\n", update, ac_trainer_rate(trainer));
    if (status == AC_OK) status = ac_trainer_accumulate(trainer, batch, feeds, 2);
    if (status == AC_OK) status = ac_trainer_update(trainer, NULL);
  }
  if (status == AC_OK)
    status = ac_trainer_evaluate_until(trainer, data, 0, never, NULL, &result, &stopped);
  *loss = result.loss;
  printf("  loss %.3f\n", *loss);
  ac_trainer_free(trainer);
  return status;
}

int main(void) {
  static const ac_batch_stage stages[] = {
      {16, AC_BATCH_FROM_STEP, 0}, {32, AC_BATCH_FROM_EPOCH, 1}, {MOST, AC_BATCH_FROM_EPOCH, 2}};
  const ac_callback_dataset_desc samples = {.count = SAMPLES,
                                            .field_count = 2,
                                            .fields = {{"x", AC_F32, INPUTS}, {"y", AC_F32, 1}},
                                            .read = read_sample,
                                            .concurrent = true};
  ac_fit_result first = {0}, second = {0};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  int rows = 0;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_callback(&data, &samples);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  /* The plan is for the largest batch; a smaller window has fewer micro-batches. */
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = MOST, .micro_batch = 4});
  ac_fit_desc by_epochs = {
      .train = data, .validation = data, .epochs = 3, .batches = stages, .batch_count = 3};
  ac_fit_desc by_noise = {.train = data, .validation = data, .epochs = 3, .growth = {.from = 16}};
  printf("by epochs\n");
  if (status == AC_OK) status = run(plan, &by_epochs, &first, &rows);
  printf("by the noise scale\n");
  if (status == AC_OK) status = run(plan, &by_noise, &second, &rows);
  double loss = INFINITY;
  printf("by hand\n");
  if (status == AC_OK) status = by_hand(plan, data, &loss);
  if (status != AC_OK) fprintf(stderr, "growing_batches: %s\n", ac_last_error());
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  /* 2000 / 16 + 2000 / 32 + 2000 / 64 windows, rounded up. The noise alone has a loss of 1/3. */
  return status == AC_OK && first.steps == 125 + 63 + 32 && first.final.loss < 0.4 &&
                 second.final.loss < 0.4 && loss < 0.4 && rows > 1
             ? 0
             : 1;
}
