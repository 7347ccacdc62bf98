/* A function that succeeds does not change the last error: a life from device to state file, under
 * budgets where plans are tried that do not fit, and without a folder for caches. */
#include "support/states.h"

#include "core/error.h"

#include <accrue/session.h>

static const shape_of_model both = {.norm = true, .two = true};

#define assert_quiet(expression)                                               \
  do {                                                                         \
    assert_ok(expression);                                                     \
    if (strcmp(ac_last_error(), "what was"))                                   \
      fail_msg("%s succeeds and leaves \"%s\"", #expression, ac_last_error()); \
  } while (0)

static void live_with(ac_device *device, const ac_graph *graph, const ac_plan_desc *policy) {
  const test_path path = in_folder("state"), model = in_folder("model");
  const ac_trainer_desc desc = {.seed = 1,
                                .noise_every = 1,
                                .layers_every = 1,
                                .spikes = {.policy = AC_SPIKE_SKIP},
                                .schedule = {.kind = AC_SCHEDULE_COSINE, .total = 9}};
  ac_dataset *dataset = dataset_of(COUNT);
  ac_plan *plan, *evaluating;
  ac_trainer *trainer;
  ac_session *session;
  ac_evaluation evaluation;
  ac_fit_result result;
  int count;
  assert_quiet(ac_plan_create(&plan, graph, device, policy));
  assert_quiet(ac_plan_alternatives(plan, NULL, 0, &count));
  ac_plan_desc averaged = *policy; /* which goes with no weights in bf16: they are not offered */
  averaged.average = true;
  averaged.memory = 0;
  assert_quiet(ac_plan_offers(graph, device, &averaged, NULL, 0, &count));
  assert_quiet(ac_trainer_create(&trainer, plan, &desc));
  const ac_fit_desc fit = {.train = dataset, .validation = dataset, .steps = 5, .eval_every = 2};
  assert_quiet(ac_fit(trainer, &fit, &result));
  assert_quiet(ac_trainer_evaluate(trainer, dataset, 0, &evaluation));
  assert_quiet(ac_trainer_save(trainer, model.text, NULL, 0));
  assert_quiet(ac_trainer_save_state(trainer, path.text, NULL, 0));
  assert_quiet(ac_trainer_load_state(trainer, path.text));
  const ac_plan_desc forward = {.batch = BATCH, .purpose = AC_EVALUATE};
  assert_quiet(ac_plan_create(&evaluating, graph, device, &forward));
  assert_quiet(ac_session_create(&session, evaluating, 1));
  assert_quiet(ac_session_load(session, model.text, NULL));
  assert_quiet(ac_session_evaluate(session, dataset, 0, &evaluation));
  ac_session_free(session);
  ac_plan_free(evaluating);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_dataset_free(dataset);
}

/* Budgets from all that a plan could take down to what it takes at least. */
static void live_on(const char *name) {
  ac_device *device;
  ac_device_info list[8];
  int count;
  assert_int_equal(ac_fail(AC_ERROR_IO, "what was"), AC_ERROR_IO);
  assert_quiet(ac_device_list(list, 8, &count));
  assert_quiet(ac_device_open(&device, &(ac_device_desc){.name = name, .threads = 2}));
  ac_graph *graph = graph_of(&both);
  ac_plan_desc policy = {
      .batch = BATCH, .batch_norm = AC_BATCH_NORM_MICRO, .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
  ac_plan *plan;
  assert_quiet(ac_plan_create(&plan, graph, device, &policy));
  const uint64_t bytes = ac_plan_get_info(plan)->bytes.total;
  ac_plan_free(plan);
  live_with(device, graph, &policy);
  int refused = 0;
  for (int part = 9; part > 3; part -= 2) {
    policy.memory = bytes / 10 * (uint64_t)part;
    if (ac_plan_create(&plan, graph, device, &policy) == AC_OK) {
      ac_plan_free(plan);
      assert_int_equal(ac_fail(AC_ERROR_IO, "what was"), AC_ERROR_IO);
      live_with(device, graph, &policy);
    } else {
      refused++;
      assert_int_equal(ac_fail(AC_ERROR_IO, "what was"), AC_ERROR_IO);
    }
  }
  assert_true(refused < 3);
  ac_graph_free(graph);
  ac_device_close(device);
}

ON_EVERY_DEVICE(live_on)

static void without_a_cache(void **state) {
  (void)state;
  write_file(in_folder("plain").text, "x", 1);
  setenv("ACCRUE_CACHE_DIR", in_folder("plain").text, 1);
  live_on("cpu");
}

/* A schedule that would be refused has the rate 0 and no momentum, and is not a failure. */
static void rates_of_nothing(void **state) {
  (void)state;
  const ac_schedule bad = {.kind = AC_SCHEDULE_COSINE}, worse = {.kind = AC_SCHEDULE_ONE_CYCLE};
  assert_int_equal(ac_fail(AC_ERROR_IO, "what was"), AC_ERROR_IO);
  assert_true(ac_schedule_rate(&bad, 1) == 0 && ac_schedule_momentum(&worse, 1) == -1);
  assert_string_equal(ac_last_error(), "what was");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(live_on_everywhere),
      cmocka_unit_test(without_a_cache),
      cmocka_unit_test(rates_of_nothing),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
