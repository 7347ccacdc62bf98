/* Stop and go on: one run trains without a break. Another one is stopped in the middle, saves its
 * state, and a new trainer goes on from the file. Both end with the same weights, bit for bit. The
 * file also holds a text of the program's own. */
#include <accrue/accrue.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 300, HIDDEN = 16, STEPS = 200, STOP_AT = 77 };

static float x[POINTS], y[POINTS];

static ac_status describe(ac_graph *graph) {
  const ac_parameter_desc spread = {.init = {AC_INIT_NORMAL, .deviation = 1}};
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *target = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w1 = ac_parameter(graph, "first.weight", AC_SHAPE(HIDDEN, 1), &spread),
            *b1 = ac_parameter(graph, "first.bias", AC_SHAPE(HIDDEN), &spread),
            *w2 = ac_parameter(graph, "last.weight", AC_SHAPE(1, HIDDEN), NULL),
            *hidden = ac_dropout(ac_tanh(ac_linear(in, w1, b1, AC_OUT_IN)), 0.125f);
  ac_graph_set_loss(graph,
                    ac_mean_squared_error(ac_linear(hidden, w2, NULL, AC_OUT_IN), target, NULL));
  return ac_graph_status(graph);
}

/* Says when to stop: at a step, and in a real program at a signal or after an hour. */
static bool go_on(void *user, const ac_fit_event *event) {
  return event->kind != AC_FIT_STEP || event->step != *(const int *)user;
}

/* `steps` and the schedule are those of the whole run, also in the call that goes on. */
static ac_status fit(ac_trainer *trainer, ac_dataset *data, int stop_at, bool resume) {
  const ac_fit_desc desc = {.train = data,
                            .steps = STEPS,
                            .seed = 5,
                            .resume = resume,
                            .fingerprint = "sine, version 1", /* other data are refused */
                            .callback = go_on,
                            .user = &stop_at};
  return ac_fit(trainer, &desc, NULL);
}

static ac_status new_trainer(ac_trainer **trainer, const ac_plan *plan) {
  const ac_trainer_desc training = {.seed = 2,
                                    .schedule = {AC_SCHEDULE_COSINE, .lr = 0.02, .total = STEPS}};
  return ac_trainer_create(trainer, plan, &training);
}

static ac_status weights(ac_trainer *trainer, float result[HIDDEN]) {
  const int index = ac_trainer_find_parameter(trainer, "last.weight");
  return ac_trainer_get_parameter(trainer, index, 0, HIDDEN, result);
}

static ac_status without_a_break(const ac_plan *plan, ac_dataset *data, float result[HIDDEN]) {
  ac_trainer *trainer = NULL;
  ac_status status = new_trainer(&trainer, plan);
  if (status == AC_OK) status = fit(trainer, data, -1, false);
  if (status == AC_OK) status = weights(trainer, result);
  ac_trainer_free(trainer);
  return status;
}

static ac_status first_part(const ac_plan *plan, ac_dataset *data, const char *path) {
  const ac_metadata own = {"comment", "stopped to show how to go on"};
  ac_trainer *trainer = NULL;
  ac_status status = new_trainer(&trainer, plan);
  if (status == AC_OK) status = fit(trainer, data, STOP_AT, false);
  if (status == AC_OK) status = ac_trainer_save_state(trainer, path, &own, 1);
  ac_trainer_free(trainer);
  return status;
}

static ac_status second_part(const ac_plan *plan, ac_dataset *data, const char *path,
                             float result[HIDDEN]) {
  ac_trainer *trainer = NULL;
  ac_model_file *file = NULL;
  ac_progress progress;
  ac_state_info saved;
  ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) return status;
  /* What the file says, before there is a trainer. */
  const char *comment = ac_model_file_metadata(file, "comment");
  status = ac_state_get_info(file, &saved);
  if (status == AC_OK)
    printf("the state of update %lld, batch %lld, says: %s\n", (long long)saved.progress.updates,
           (long long)saved.batch, comment ? comment : "(nothing)");
  ac_model_file_close(file);
  if (status == AC_OK) status = new_trainer(&trainer, plan);
  if (status == AC_OK) status = ac_trainer_load_state(trainer, path);
  if (status == AC_OK) status = ac_trainer_get_progress(trainer, &progress);
  if (status == AC_OK)
    printf("it goes on after step %lld, in epoch %lld at sample %lld\n", (long long)progress.steps,
           (long long)progress.epoch, (long long)progress.position);
  if (status == AC_OK) status = fit(trainer, data, -1, true);
  if (status == AC_OK) status = weights(trainer, result);
  ac_trainer_free(trainer);
  return status;
}

int main(void) {
  static const ac_field fields[] = {{"x", AC_F32, 1}, {"y", AC_F32, 1}};
  const void *arrays[] = {x, y};
  const char *path = "resume.safetensors";
  float one[HIDDEN] = {0}, two[HIDDEN] = {1};
  ac_dataset *data = NULL;
  ac_device *device = NULL;
  ac_graph *graph = NULL;
  ac_plan *plan = NULL;
  for (int i = 0; i < POINTS; i++) {
    x[i] = 6 * ((float)i / POINTS - 0.5f);
    y[i] = sinf(x[i]);
  }
  ac_status status = ac_graph_create(&graph);
  if (status == AC_OK) status = describe(graph);
  if (status == AC_OK) status = ac_dataset_from_memory(&data, POINTS, 2, fields, arrays);
  if (status == AC_OK)
    status = ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1});
  if (status == AC_OK)
    status = ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 32, .micro_batch = 32});
  if (status == AC_OK) status = without_a_break(plan, data, one);
  if (status == AC_OK) status = first_part(plan, data, path);
  if (status == AC_OK) status = second_part(plan, data, path, two);
  if (status != AC_OK) fprintf(stderr, "resume: %s\n", ac_last_error());

  const bool same = memcmp(one, two, sizeof one) == 0;
  printf("the weights are %s\n", same ? "the same, bit for bit" : "different");
  remove(path);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  ac_dataset_free(data);
  return status == AC_OK && same ? 0 : 1;
}
