/* Decisions: three of 200 windows have wrong labels and would spoil the model. One run only
 * tells about such spikes, one skips them by a rule of the library, one by a function of its own
 * that looks at the gradient, and one goes back to a state from before the spike. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 16, STEPS = 200, SAMPLES = BATCH * STEPS };

/* y = 2 a - b. The samples of the windows 60, 120 and 180 are broken. */
static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  const int64_t window = key->index / BATCH;
  float *x = fields[0], *y = fields[1];
  (void)user;
  x[0] = sinf((float)key->index);
  x[1] = cosf(1.7f * (float)key->index);
  *y = 2 * x[0] - x[1] + 0.1f * sinf(9.1f * (float)key->index);
  if (window > 0 && window % 60 == 0) *y *= -1e4f;
  return AC_OK;
}

static ac_status describe(ac_graph *graph) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "weight", AC_SHAPE(1, 2), NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), y, NULL));
  return ac_graph_status(graph);
}

/* A rule of the program's own: no update with a gradient above 100, and others are made shorter
 * than 1. It is asked once gradients are known and before anything is changed. */
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  int *skipped = user;
  float gradient[2];
  const int weight = ac_trainer_find_parameter(trainer, "weight");
  if (ac_trainer_get_mean_gradient(trainer, weight, 0, 2, gradient) != AC_OK) return;
  const double norm = ac_trainer_gradient_norm(trainer, weight);
  if (norm > 100) {
    printf("  own rule: gradient (%.0f, %.0f), norm %.0f, skipped\n", (double)gradient[0],
           (double)gradient[1], norm);
    decision->skip = true;
    ++*skipped;
  } else if (norm > 1) {
    decision->factor = 1 / norm;
  }
}

static bool report(void *user, const ac_fit_event *event) {
  (void)user;
  if (event->kind != AC_FIT_STEP || !event->update.spike.alarm) return true;
  printf("  window %lld: loss %.3g, the limit was %.3g%s", (long long)event->step,
         event->update.loss, event->update.spike.loss_limit,
         event->update.skipped ? ", skipped" : "");
  if (event->went_back) printf(", went back to window %lld", (long long)event->back_to);
  printf("\n");
  return true;
}

/* Trains, and tells how far the weights are from (2, -1) then. `own`: the function decides. */
static ac_status train(const ac_plan *plan, ac_dataset *data, ac_spike_policy policy, bool own,
                       double *distance, ac_fit_result *result) {
  int skipped = 0;
  const ac_trainer_desc training = {.schedule = {.lr = 0.02},
                                    .optimizer = {.beta2 = 0.9},
                                    .spikes = {.policy = policy},
                                    .decide = own ? decide : NULL,
                                    .user = &skipped};
  const ac_fit_desc fit = {.train = data,
                           .steps = STEPS,
                           .no_shuffle = true,
                           .good_state = "decide-good.safetensors", /* to go back to */
                           .good_every = 20,
                           .callback = report};
  float w[2] = {0};
  ac_trainer *trainer = NULL;
  ac_status status = ac_trainer_create(&trainer, plan, &training);
  if (status == AC_OK) status = ac_fit(trainer, &fit, result);
  if (status == AC_OK) status = ac_trainer_get_parameter(trainer, 0, 0, 2, w);
  *distance = hypot((double)w[0] - 2, (double)w[1] + 1);
  if (status == AC_OK)
    printf("  weights (%.3f, %.3f), %lld updates, %lld alarms, went back %lld times\n",
           (double)w[0], (double)w[1], (long long)result->updates, (long long)result->spikes,
           (long long)result->went_back);
  ac_trainer_free(trainer);
  return status;
}

int main(void) {
  static const struct {
    const char *name;
    ac_spike_policy policy;
    bool own;
  } runs[] = {{"tell", AC_SPIKE_TELL, false},
              {"skip", AC_SPIKE_SKIP, false},
              {"own rule", AC_SPIKE_IGNORE, true},
              {"go back", AC_SPIKE_BACK, false}};
  const ac_callback_dataset_desc samples = {.count = SAMPLES,
                                            .field_count = 2,
                                            .fields = {{"x", AC_F32, 2}, {"y", AC_F32, 1}},
                                            .read = read_sample,
                                            .concurrent = true};
  double distance[4] = {0};
  ac_fit_result result[4] = {{0}};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_callback(&data, &samples);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH});
  for (int i = 0; i < 4 && status == AC_OK; i++) {
    printf("%s\n", runs[i].name);
    status = train(plan, data, runs[i].policy, runs[i].own, &distance[i], &result[i]);
  }
  if (status != AC_OK) fprintf(stderr, "decide: %s\n", ac_last_error());
  remove("decide-good.safetensors");
  ac_plan_free(plan);
  ac_device_close(device);
  ac_dataset_free(data);
  ac_graph_free(graph);
  return status == AC_OK && distance[0] > 5 * distance[1] && distance[1] < 0.1 &&
                 distance[2] < 0.1 && result[0].spikes == 3 && result[1].spikes == 3 &&
                 result[2].updates == STEPS - 3 && result[3].went_back > 0
             ? 0
             : 1;
}
