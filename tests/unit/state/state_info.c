/* What a state says without a trainer: each member against the run that saved it, and files that
 * say nothing or too much. */
#include "support/files.h"

#include <accrue/accrue.h>

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, SAMPLES = 24, BATCH = 8 };

typedef struct run {
  ac_device *device;
  ac_dataset *data;
  ac_plan *plan;
  ac_trainer *trainer;
} run;

/* One weight of 4096 elements, which 8 bits are for. */
static run begin(ac_plan_desc plan, const ac_trainer_desc *desc) {
  static float numbers[SAMPLES * WIDTH];
  for (int i = 0; i < SAMPLES * WIDTH; i++) numbers[i] = (float)(i % 7) / 7;
  run r;
  ac_graph *g;
  const int64_t x[] = {AC_BATCH, WIDTH}, w[] = {WIDTH, WIDTH};
  const ac_parameter_desc drawn = {.init = {.kind = AC_INIT_KAIMING_NORMAL}};
  assert_ok(ac_graph_create(&g));
  ac_tensor *input = ac_input(g, "x", AC_F32, 2, x), *target = ac_input(g, "y", AC_F32, 2, x);
  ac_tensor *y = ac_linear(input, ac_parameter(g, "w", 2, w, &drawn), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(y, target, NULL));
  plan.batch = BATCH;
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, desc));
  ac_graph_free(g);
  const ac_field fields[] = {{"x", AC_F32, WIDTH}, {"y", AC_F32, WIDTH}};
  assert_ok(
      ac_dataset_from_memory(&r.data, SAMPLES, 2, fields, (const void *const[]){numbers, numbers}));
  return r;
}

static void end(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
  ac_dataset_free(r->data);
  ac_device_close(r->device);
}

static ac_model_file *save(run *r, ac_state_info *info) {
  const test_path path = in_folder("state");
  ac_model_file *file;
  assert_ok(ac_trainer_save_state(r->trainer, path.text, NULL, 0));
  assert_ok(ac_model_file_open(&file, path.text));
  assert_ok(ac_state_get_info(file, info));
  return file;
}

static void a_fit_is_told(void **state) {
  (void)state;
  const ac_plan_desc plan = {.micro_batch = 2,
                             .optimizer = {.kind = AC_LION, .state = AC_STATE_8BIT},
                             .precision = AC_PRECISION_F16,
                             .average = true};
  const ac_trainer_desc desc = {
      .seed = 5,
      .schedule = {.kind = AC_SCHEDULE_PLATEAU, .lr = 1e-4, .patience = -1},
      .loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 128},
      .spikes = {.policy = AC_SPIKE_TELL}};
  const ac_batch_stage stages[] = {{BATCH, AC_BATCH_FROM_STEP, 0}, {4, AC_BATCH_FROM_STEP, 4}};
  run r = begin(plan, &desc);
  ac_fit_desc fit = {.train = r.data,
                     .validation = r.data,
                     .eval_every = 100,
                     .no_final_evaluation = true,
                     .steps = 5,
                     .seed = UINT64_MAX,
                     .fingerprint = "numbers",
                     .batches = stages,
                     .batch_count = 2};
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_observe_validation(r.trainer, 1));
  assert_ok(ac_trainer_observe_validation(r.trainer, 2)); /* reduces the rate */
  ac_state_info info;
  ac_progress progress;
  ac_model_file *file = save(&r, &info);
  assert_ok(ac_trainer_get_progress(r.trainer, &progress));
  assert_memory_equal(&info.progress, &progress, sizeof progress);
  assert_int_equal(progress.steps, 5);
  assert_int_equal(progress.samples, 36);
  assert_int_equal(info.seed, 5);
  assert_int_equal(info.optimizer, AC_LION);
  assert_int_equal(info.optimizer_state, AC_STATE_8BIT);
  assert_int_equal(info.precision, AC_PRECISION_F16);
  assert_int_equal(info.loss_means, AC_LOSS_MEANS_COUNTED);
  assert_int_equal(info.batch, BATCH);
  assert_int_equal(info.micro_batch, 2);
  assert_int_equal(info.window_batch, 4);
  assert_true(info.averages);
  assert_int_equal(info.loss_scaling, AC_LOSS_SCALING_STATIC);
  assert_true(info.loss_scale == 128);
  assert_true(info.fitted);
  assert_int_equal(info.train_samples, SAMPLES);
  assert_true(info.fit_seed == UINT64_MAX);
  assert_false(info.no_shuffle);
  assert_string_equal(info.fingerprint, "numbers");
  assert_int_equal(info.spikes, 0);
  assert_int_equal(info.went_back, 0);
  assert_true(info.spike_rate == 1);
  assert_int_equal(info.reductions, 1);
  ac_model_file_close(file);
  end(&r);
}

static void a_window_in_progress_is_told(void **state) {
  (void)state;
  const ac_plan_desc plan = {.micro_batch = 4, .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
  run r = begin(plan, &(ac_trainer_desc){.seed = 9});
  static const float zeros[3 * WIDTH];
  const ac_feed feeds[] = {{"x", zeros}, {"y", zeros}};
  assert_ok(ac_trainer_accumulate(r.trainer, 3, feeds, 2));
  ac_state_info info;
  ac_model_file *file = save(&r, &info);
  assert_int_equal(info.progress.window_samples, 3);
  assert_int_equal(info.progress.updates, 0);
  assert_int_equal(info.optimizer, AC_ADAMW);
  assert_int_equal(info.optimizer_state, AC_STATE_F32);
  assert_int_equal(info.precision, AC_PRECISION_F32);
  assert_int_equal(info.loss_means, AC_LOSS_MEANS_PER_SAMPLE);
  assert_int_equal(info.window_batch, BATCH);
  assert_int_equal(info.loss_scaling, AC_LOSS_SCALING_NONE);
  assert_true(info.loss_scale == 1);
  assert_false(info.averages);
  assert_false(info.fitted);
  assert_int_equal(info.train_samples, 0);
  assert_string_equal(info.fingerprint, "");
  assert_true(info.spike_rate == 1);
  assert_int_equal(info.reductions, 0);
  ac_model_file_close(file);
  end(&r);
}

static ac_status no_data(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user, (void)index, (void)first, (void)count, (void)data;
  return AC_OK;
}

/* A file with these metadata alone. */
static void refuses(const ac_metadata *metadata, int count, ac_status status, const char *says) {
  const test_path path = in_folder("other");
  ac_state_info info;
  ac_model_file *file;
  assert_ok(ac_model_file_write(path.text, NULL, 0, metadata, count, no_data, NULL));
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_state_get_info(file, &info), status);
  if (!strstr(ac_last_error(), says)) fail_msg("%s", ac_last_error());
  if (!strstr(ac_last_error(), path.text)) fail_msg("%s", ac_last_error());
  ac_model_file_close(file);
}

static void other_files_are_refused(void **state) {
  (void)state;
  const ac_metadata metadata[] = {
      {"accrue.state.version", "1"}, {"accrue.state.updates", "-1"}, {"accrue.model", "gpt"}};
  refuses(&metadata[2], 1, AC_ERROR_FORMAT, "is not the state of a trainer");
  refuses(metadata, 2, AC_ERROR_FORMAT, "accrue.state.updates");
  refuses(metadata, 1, AC_ERROR_FORMAT, "accrue.state.updates");
  refuses(&(ac_metadata){"accrue.state.version", "2"}, 1, AC_ERROR_UNSUPPORTED, "version 2");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fit_is_told),
      cmocka_unit_test(a_window_in_progress_is_told),
      cmocka_unit_test(other_files_are_refused),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
