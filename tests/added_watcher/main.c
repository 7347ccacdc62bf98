/* What a watcher that was added to the library does, seen from outside. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4 };

#define CHECK(condition) \
  ((condition)           \
       ? (void)0         \
       : (fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, ac_last_error()), exit(1)))
#define OK(call) CHECK((call) == AC_OK)

static double proposed;

static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  proposed = decision->factor;
}

/* One window with this target; returns the factor of its gradient. */
static double run_window(ac_trainer *trainer, float target) {
  float x[BATCH], y[BATCH];
  for (int i = 0; i < BATCH; i++) x[i] = 1 + (float)i, y[i] = target;
  const ac_feed feeds[] = {{.name = "x", .data = x}, {.name = "y", .data = y}};
  ac_update update;
  OK(ac_trainer_accumulate(trainer, BATCH, feeds, 2));
  OK(ac_trainer_update(trainer, &update));
  return proposed;
}

/* What a state has of the watcher; "": nothing. */
static const char *kept(ac_trainer *trainer, const char *key) {
  static char text[64];
  ac_model_file *file;
  OK(ac_trainer_save_state(trainer, "state.safetensors", NULL, 0));
  OK(ac_model_file_open(&file, "state.safetensors"));
  const char *found = ac_model_file_metadata(file, key);
  snprintf(text, sizeof text, "%s", found ? found : "");
  ac_model_file_close(file);
  return text;
}

static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  (void)user;
  *(float *)fields[0] = 1 + (float)(key->index % 3);
  *(float *)fields[1] = 2;
  return AC_OK;
}

static ac_dataset *make_data(void) {
  ac_dataset *data;
  OK(ac_dataset_from_callback(
      &data, &(ac_callback_dataset_desc){.count = 64,
                                         .field_count = 2,
                                         .fields = {{"x", AC_F32, 1}, {"y", AC_F32, 1}},
                                         .read = read_sample}));
  return data;
}

int main(void) {
  static const char windows[] = "accrue.state.least.windows", loss[] = "accrue.state.least.loss";
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan, *folded;
  ac_trainer *trainer, *other;
  OK(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "w", AC_SHAPE(1, 1), NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), y, NULL));
  OK(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  OK(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = BATCH, .micro_batch = 2}));
  const ac_trainer_desc training = {.decide = decide};
  OK(ac_trainer_create(&trainer, plan, &training));

  /* It is called, and sees losses. */
  CHECK(!*kept(trainer, windows));
  CHECK(run_window(trainer, 1) == 1);
  CHECK(!strcmp(kept(trainer, windows), "1"));
  CHECK(run_window(trainer, 100) == 0.5);
  CHECK(!strcmp(kept(trainer, windows), "2"));

  /* What it keeps survives states, and a range test. */
  OK(ac_trainer_create(&other, plan, &training));
  OK(ac_trainer_load_state(other, "state.safetensors"));
  char before[64];
  snprintf(before, sizeof before, "%s", kept(other, loss));
  CHECK(*before && !strcmp(before, kept(trainer, loss)));
  ac_rate_point points[12];
  ac_rate_test test;
  ac_dataset *data = make_data();
  OK(ac_trainer_test_rates(other, &(ac_rate_test_desc){.train = data, .updates = 12}, points,
                           &test));
  CHECK(test.count > 0 && !strcmp(kept(other, windows), "2") && !strcmp(before, kept(other, loss)));
  CHECK(run_window(other, 100) == 0.5 && run_window(trainer, 100) == 0.5);
  CHECK(!strcmp(kept(other, windows), "3"));

  /* A way of gradients without what it needs is refused. */
  OK(ac_plan_create(&folded, graph, device,
                    &(ac_plan_desc){.batch = BATCH, .gradients = AC_GRADIENTS_FOLDED}));
  ac_trainer *refused;
  CHECK(ac_trainer_create(&refused, folded, NULL) == AC_ERROR_ARGUMENT);
  CHECK(!strcmp(ac_last_error(),
                "trainer: the least loss says too late to halve gradients that are folded"));

  ac_dataset_free(data);
  ac_trainer_free(other);
  ac_trainer_free(trainer);
  ac_plan_free(folded);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
  return 0;
}
