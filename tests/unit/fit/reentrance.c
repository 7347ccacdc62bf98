/* What a caller's function may do with the trainer that calls it: a dataset's read while samples
 * are gathered for it, the `stop` of a fit and that of an evaluation. Each public function
 * that takes a trainer is called from each of them. Either it refuses with AC_ERROR_STATE, or the
 * training's bits are those of a run in which nobody calls anything; and nothing ever waits for
 * itself. */
#include "support/states.h"

#include "support/headers.h"

static const shape_of_model both = {.norm = true, .two = true};

/* ---- every function -------------------------------------------------------------------------- */

static ac_dataset *other;      /* for those that need data of their own */
static char state_path[600];   /* of the run, half done */
static char scratch_path[600]; /* written to */
static float numbers[64];

static bool never(void *user) {
  (void)user;
  return false;
}

static ac_status call_accumulate(ac_trainer *t) {
  const run r = {.trainer = t};
  return feed_samples(&r, 0, 1);
}
static ac_status call_begin_window(ac_trainer *t) {
  return ac_trainer_begin_window(t, 4, (double[]){1, 1}, 2);
}
static ac_status call_update(ac_trainer *t) {
  return ac_trainer_update(t, NULL);
}
static ac_status call_set_group(ac_trainer *t) {
  return ac_trainer_set_group(t, 0, &(ac_group_settings){.rate = 3});
}
static ac_status call_get_group(ac_trainer *t) {
  ac_group_settings settings;
  return ac_trainer_get_group(t, 0, &settings);
}
static ac_status call_use_average(ac_trainer *t) {
  return ac_trainer_use_average(t, true);
}
static ac_status call_observe_validation(ac_trainer *t) {
  return ac_trainer_observe_validation(t, 99);
}
static ac_status call_rate(ac_trainer *t) {
  return ac_trainer_rate(t) >= 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_set_batch(ac_trainer *t) {
  return ac_trainer_set_batch(t, 3);
}
static ac_status call_begin_share(ac_trainer *t) {
  return ac_trainer_begin_share(t, 0);
}
static ac_status call_rank_report(ac_trainer *t) {
  ac_rank_report report;
  return ac_trainer_rank_report(t, 0, &report);
}
static ac_status call_batch(ac_trainer *t) {
  return ac_trainer_batch(t) > 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_noise_scale(ac_trainer *t) {
  ac_noise_scale scale;
  return ac_trainer_noise_scale(t, &scale);
}
static ac_status call_noise_scale_of(ac_trainer *t) {
  ac_noise_scale scale;
  return ac_trainer_noise_scale_of(t, 0, &scale);
}
static ac_status call_discard(ac_trainer *t) {
  ac_trainer_discard(t);
  return AC_OK;
}
static ac_status call_locate_nonfinite(ac_trainer *t) {
  static char text[128];
  const sample s = make_sample(1, 0);
  const ac_feed feeds[] = {{"x", s.x}, {"kinds", s.kinds}};
  return ac_trainer_locate_nonfinite(t, 1, feeds, 2, text, sizeof text);
}
static ac_status call_numerics_count(ac_trainer *t) {
  return ac_trainer_numerics_count(t) >= 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_numerics(ac_trainer *t) {
  ac_numerics result;
  return ac_trainer_numerics(t, 0, &result);
}
static ac_status call_parameter_count(ac_trainer *t) {
  return ac_trainer_parameter_count(t) > 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_parameter_info(ac_trainer *t) {
  ac_tensor_info info;
  return ac_trainer_parameter_info(t, 0, &info);
}
static ac_status call_find_parameter(ac_trainer *t) {
  return ac_trainer_find_parameter(t, "encoder") >= 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_get_parameter(ac_trainer *t) {
  return ac_trainer_get_parameter(t, 0, 0, 2, numbers);
}
static ac_status call_set_parameter(ac_trainer *t) {
  return ac_trainer_set_parameter(t, 0, 0, 2, (float[]){9, 9});
}
static ac_status call_get_gradient(ac_trainer *t) {
  return ac_trainer_get_gradient(t, 0, 0, 2, numbers);
}
static ac_status call_set_gradient(ac_trainer *t) {
  return ac_trainer_set_gradient(t, 0, 0, 2, (float[]){9, 9});
}
static ac_status call_get_mean_gradient(ac_trainer *t) {
  return ac_trainer_get_mean_gradient(t, 0, 0, 2, numbers);
}
static ac_status call_gradient_part(ac_trainer *t) {
  int64_t first, count;
  return ac_trainer_gradient_part(t, 0, &first, &count);
}
static ac_status call_gradient_norm(ac_trainer *t) {
  ac_trainer_gradient_norm(t, 0);
  return AC_OK;
}
static ac_status call_layer(ac_trainer *t) {
  ac_layer_report report;
  return ac_trainer_layer(t, 0, &report);
}
static ac_status call_state_count(ac_trainer *t) {
  return ac_trainer_state_count(t) >= 0 ? AC_OK : AC_ERROR_INTERNAL;
}
static ac_status call_get_state(ac_trainer *t) {
  return ac_trainer_get_state(t, 0, 0, 0, 2, numbers);
}
static ac_status call_set_state(ac_trainer *t) {
  return ac_trainer_set_state(t, 0, 0, 0, 2, (float[]){9, 9});
}
static ac_status call_save(ac_trainer *t) {
  return ac_trainer_save(t, scratch_path, NULL, 0);
}
static ac_status call_load(ac_trainer *t) {
  return ac_trainer_load(t, state_path, NULL);
}
static ac_status call_save_part(ac_trainer *t) {
  return ac_trainer_save_part(t, scratch_path, "enc*", NULL, 0);
}
static ac_status call_adapter_save(ac_trainer *t) {
  return ac_adapter_save(t, scratch_path, &(ac_lora_desc){.rank = 2}, NULL);
}
static ac_status call_adapter_save_weights(ac_trainer *t) {
  return ac_adapter_save_weights(t, scratch_path, NULL, 0);
}
static ac_status call_load_part(ac_trainer *t) {
  return ac_trainer_load_part(t, state_path, "enc*", NULL);
}
static ac_status call_save_state(ac_trainer *t) {
  return ac_trainer_save_state(t, scratch_path, NULL, 0);
}
static ac_status call_load_state(ac_trainer *t) {
  return ac_trainer_load_state(t, state_path);
}
static ac_status call_get_progress(ac_trainer *t) {
  ac_progress progress;
  return ac_trainer_get_progress(t, &progress);
}
static ac_status call_get_growth(ac_trainer *t) {
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  int count;
  return ac_trainer_get_growth(t, stages, &count);
}
static ac_status call_set_updates(ac_trainer *t) {
  return ac_trainer_set_updates(t, 7);
}
static ac_status call_evaluate(ac_trainer *t) {
  ac_evaluation result;
  return ac_trainer_evaluate(t, other, 0, &result);
}
static ac_status call_evaluate_until(ac_trainer *t) {
  ac_evaluation result;
  bool stopped;
  return ac_trainer_evaluate_until(t, other, 0, never, NULL, &result, &stopped);
}
static ac_status call_fit(ac_trainer *t) {
  return ac_fit(t, &(ac_fit_desc){.train = other, .steps = 1}, NULL);
}
static ac_status call_test_rates(ac_trainer *t) {
  ac_rate_point points[10];
  ac_rate_test result;
  const ac_rate_test_desc desc = {.train = other, .updates = 10};
  return ac_trainer_test_rates(t, &desc, points, &result);
}

static ac_status call_set_input(ac_trainer *t) {
  return ac_trainer_set_input(t, "x", numbers);
}
static ac_status call_predict(ac_trainer *t) {
  static const float zeros[TOKENS * WIDTH];
  return ac_trainer_predict(t, "y", 1, &(ac_feed){"x", zeros}, 1, 2, numbers);
}
static ac_status call_watch_tensor(ac_trainer *t) {
  return ac_trainer_watch_tensor(t, "y", NULL, NULL);
}
static ac_status call_copy_weights(ac_trainer *t) {
  return ac_trainer_copy_weights(t, "encoder", t, "decoder", 1);
}

/* `changes`: it says so itself, where a fit asks whether to stop, which is not in the middle of
 * anything but a window. */
typedef struct action {
  const char *name;
  ac_status (*call)(ac_trainer *trainer);
  bool changes;
} action;

#define ACTION(name) \
  { "ac_trainer_" #name, call_##name, false }
#define CHANGE(name) \
  { "ac_trainer_" #name, call_##name, true }
static const action actions[] = {ACTION(accumulate),
                                 ACTION(begin_window),
                                 ACTION(update),
                                 CHANGE(set_group),
                                 ACTION(get_group),
                                 CHANGE(use_average),
                                 ACTION(observe_validation),
                                 ACTION(rate),
                                 ACTION(set_batch),
                                 ACTION(begin_share),
                                 ACTION(rank_report),
                                 ACTION(batch),
                                 ACTION(noise_scale),
                                 ACTION(noise_scale_of),
                                 ACTION(discard),
                                 ACTION(locate_nonfinite),
                                 ACTION(numerics_count),
                                 ACTION(numerics),
                                 ACTION(parameter_count),
                                 ACTION(parameter_info),
                                 ACTION(find_parameter),
                                 ACTION(get_parameter),
                                 CHANGE(set_parameter),
                                 ACTION(get_gradient),
                                 CHANGE(set_gradient),
                                 ACTION(get_mean_gradient),
                                 ACTION(gradient_part),
                                 ACTION(gradient_norm),
                                 ACTION(layer),
                                 ACTION(state_count),
                                 ACTION(get_state),
                                 CHANGE(set_state),
                                 ACTION(set_updates),
                                 ACTION(save),
                                 CHANGE(load),
                                 ACTION(save_part),
                                 CHANGE(load_part),
                                 ACTION(save_state),
                                 ACTION(load_state),
                                 ACTION(get_progress),
                                 ACTION(get_growth),
                                 ACTION(evaluate),
                                 ACTION(evaluate_until),
                                 ACTION(test_rates),
                                 CHANGE(set_input),
                                 ACTION(predict),
                                 ACTION(watch_tensor),
                                 CHANGE(copy_weights),
                                 {"ac_adapter_save", call_adapter_save, false},
                                 {"ac_adapter_save_weights", call_adapter_save_weights, false},
                                 {"ac_fit", call_fit, false}};
enum { ACTIONS = sizeof actions / sizeof *actions };

static void every_function_is_tried(void **state) {
  (void)state;
  read_declarations();
  for (int i = 0; i < declared_count; i++) {
    const declared *d = &declarations[i];
    if (!d->count || !strstr(d->parameter[0], "ac_trainer *")) continue;
    bool known = !strcmp(d->name, "ac_trainer_free") || !strcmp(d->name, "ac_trainer_create");
    for (int k = 0; k < ACTIONS; k++) known |= !strcmp(d->name, actions[k].name);
    if (!known) fail_msg("%s is not tried", d->name);
  }
}

/* ---- from where ------------------------------------------------------------------------------ */

typedef enum place { FROM_READ, FROM_STOP, FROM_EVALUATION } place;

static struct {
  const action *action; /* NULL: none */
  place place;
  ac_trainer *trainer;
  int left; /* calls of the place before it is done */
  bool done, inside;
  ac_status status;
  char sentence[256];
} plot;

static void act(place from) {
  if (!plot.action || plot.done || plot.inside || plot.place != from || plot.left-- > 0) return;
  plot.inside = true; /* what it calls may call this again */
  plot.status = plot.action->call(plot.trainer);
  snprintf(plot.sentence, sizeof plot.sentence, "%.250s", ac_last_error());
  plot.inside = false;
  plot.done = true;
}

static ac_status read_and_act(void *user, const ac_sample_key *key, void *const *fields) {
  const ac_status status = read_sample(user, key, fields);
  act(FROM_READ);
  return status;
}

static bool stop_and_act(void *user) {
  (void)user;
  act(FROM_STOP);
  return false;
}

static bool stop_evaluation_and_act(void *user) {
  (void)user;
  act(FROM_EVALUATION);
  return false;
}

static ac_dataset *acting_dataset(void) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {
      .count = COUNT,
      .field_count = 2,
      .fields = {{"x", AC_F32, TOKENS * WIDTH}, {"kinds", AC_I32, TOKENS}},
      .read = read_and_act};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* Four windows, and an evaluation in the middle of another one. */
static snapshot live(ac_plan *plan, const action *action, place from, int left,
                     ac_evaluation *evaluation) {
  const ac_trainer_desc desc = {.seed = 3,
                                .groups = {{.patterns = "encoder*"}},
                                .group_count = 1,
                                .schedule = {.kind = AC_SCHEDULE_PLATEAU, .lr = 0.02}};
  run r = {.device = shared_device, .plan = plan};
  assert_ok(ac_trainer_create(&r.trainer, plan, &desc));
  ac_dataset *dataset = acting_dataset();
  memset(&plot, 0, sizeof plot);
  plot.trainer = r.trainer;
  plot.place = from;
  plot.left = left;
  plot.action = action;
  const ac_fit_desc fit = {
      .train = dataset, .validation = dataset, .steps = 4, .eval_every = 2, .stop = stop_and_act};
  bool stopped;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  const bool splits = ac_plan_get_info(r.plan)->micro_batch < BATCH;
  if (splits) assert_ok(feed_samples(&r, 6, 2));
  assert_ok(ac_trainer_evaluate_until(r.trainer, dataset, 0, stop_evaluation_and_act, NULL,
                                      evaluation, &stopped));
  assert_false(stopped);
  if (!splits) assert_ok(feed_samples(&r, 6, 2));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  const snapshot now = look_at(&r);
  ac_dataset_free(dataset);
  ac_trainer_free(r.trainer);
  return now;
}

static const ac_plan_desc policies[] = {
    {.batch = BATCH, .micro_batch = 2, .average = true},
    {.batch = BATCH, .micro_batch = BATCH, .average = true},
    {.batch = BATCH, .micro_batch = 2, .read_ahead = 1, .average = true},
    {.batch = BATCH, .micro_batch = BATCH, .gradients = AC_GRADIENTS_FUSED}};
enum { POLICIES = sizeof policies / sizeof *policies };
static ac_plan *plans[POLICIES];

/* At the first call of the place, at the second sample of a micro-batch, and in an evaluation. */
static void check_place(place from, const int *lefts, int left_count) {
  alarm(120);
  for (int p = 0; p < POLICIES; p++) {
    ac_evaluation quiet, evaluation;
    const snapshot alone = live(plans[p], NULL, from, 0, &quiet);
    for (int k = 0; k < ACTIONS; k++)
      for (int l = 0; l < left_count; l++) {
        if (from == FROM_STOP && actions[k].changes) continue;
        const snapshot now = live(plans[p], &actions[k], from, lefts[l], &evaluation);
        assert_true(plot.done);
        char where[96];
        snprintf(where, sizeof where, "%s, plan %d, call %d (%s)", actions[k].name, p, lefts[l],
                 ac_status_name(plot.status));
        assert_same(where, &alone, &now);
        if (memcmp(&evaluation.loss, &quiet.loss, sizeof quiet.loss))
          fail_msg("%s: another evaluation", where);
      }
  }
  alarm(0);
}

static void from_a_read(void **state) {
  (void)state;
  check_place(FROM_READ, (int[]){1, 9}, 2);
}

static void from_stop(void **state) {
  (void)state;
  check_place(FROM_STOP, (int[]){1, 4}, 2);
}

static void from_an_evaluation(void **state) {
  (void)state;
  check_place(FROM_EVALUATION, (int[]){0, 1}, 2);
}

/* What has to be refused is, by name. */
static void refusals_say_why(void **state) {
  (void)state;
  static const struct {
    const char *name;
    place place;
    const char *sentence;
  } refused[] = {{"ac_trainer_evaluate", FROM_READ, "reading samples for it"},
                 {"ac_trainer_update", FROM_READ, "reading samples for it"},
                 {"ac_trainer_test_rates", FROM_READ, "reading samples for it"},
                 {"ac_fit", FROM_EVALUATION, "an evaluation is in progress"},
                 {"ac_trainer_update", FROM_EVALUATION, "an evaluation is in progress"},
                 {"ac_trainer_accumulate", FROM_STOP, "asks whether to stop"},
                 {"ac_fit", FROM_STOP, "asks whether to stop"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    for (int k = 0; k < ACTIONS; k++) {
      if (strcmp(actions[k].name, refused[i].name)) continue;
      ac_evaluation evaluation;
      live(plans[0], &actions[k], refused[i].place, 1, &evaluation);
      assert_true(plot.done);
      assert_int_equal(plot.status, AC_ERROR_STATE);
      assert_contains(plot.sentence, refused[i].sentence);
    }
}

static bool stop_and_save(void *user) {
  assert_ok(ac_trainer_save_state(user, scratch_path, NULL, 0));
  return false;
}

/* As state_file.h says: within windows of a fit and within its evaluations, but not where an
 * evaluation has the loss sums of a window in progress. */
static void states_can_be_saved_from_stop(void **state) {
  (void)state;
  run r = {.device = shared_device, .plan = plans[0]};
  bool stopped;
  ac_evaluation evaluation;
  assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
  const ac_fit_desc fit = {.train = other,
                           .validation = other,
                           .steps = 2,
                           .eval_every = 1,
                           .stop = stop_and_save,
                           .user = r.trainer};
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_evaluate_until(r.trainer, other, 0, stop_and_save, r.trainer, &evaluation,
                                      &stopped));
  ac_trainer_free(r.trainer);
  for (int k = 0; k < ACTIONS; k++) {
    if (strcmp(actions[k].name, "ac_trainer_save_state") != 0) continue;
    live(plans[0], &actions[k], FROM_EVALUATION, 1, &evaluation);
    assert_true(plot.done);
    assert_int_equal(plot.status, AC_ERROR_STATE);
  }
}

/* ---- sessions -------------------------------------------------------------------------------- */

typedef struct asked_session {
  ac_session *session;
  ac_dataset *dataset;
  int calls;
} asked_session;

static bool stop_and_change(void *user) {
  asked_session *asked = user;
  const float value = 9;
  ac_evaluation inner;
  asked->calls++;
  assert_int_equal(ac_session_evaluate(asked->session, asked->dataset, 0, &inner), AC_ERROR_STATE);
  assert_contains(ac_last_error(), "an evaluation is in progress");
  assert_int_equal(ac_session_load(asked->session, state_path, NULL), AC_ERROR_STATE);
  assert_int_equal(ac_session_set_parameter(asked->session, "head", 0, 1, &value), AC_ERROR_STATE);
  return false;
}

static void sessions_are_not_changed_while_they_evaluate(void **state) {
  (void)state;
  const ac_plan_desc desc = {.batch = 2, .purpose = AC_EVALUATE};
  ac_graph *graph = graph_of(&both);
  asked_session asked = {.dataset = dataset_of(COUNT)};
  ac_plan *plan;
  ac_evaluation alone, now;
  bool stopped;
  assert_ok(ac_plan_create(&plan, graph, shared_device, &desc));
  assert_ok(ac_session_create(&asked.session, plan, 1));
  assert_ok(ac_session_evaluate(asked.session, asked.dataset, 0, &alone));
  assert_ok(ac_session_evaluate_until(asked.session, asked.dataset, 0, stop_and_change, &asked,
                                      &now, &stopped));
  assert_true(asked.calls > 1);
  assert_memory_equal(&alone.loss, &now.loss, sizeof now.loss);
  ac_session_free(asked.session);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_dataset_free(asked.dataset);
}

/* ---------------------------------------------------------------------------------------------- */

static void make_plans(void) {
  ac_graph *graph = graph_of(&both);
  assert_ok(ac_device_open(&shared_device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  for (int p = 0; p < POLICIES; p++) {
    ac_plan_desc policy = policies[p];
    policy.batch_norm = AC_BATCH_NORM_MICRO;
    policy.loss_means = AC_LOSS_MEANS_PER_SAMPLE;
    assert_ok(ac_plan_create(&plans[p], graph, shared_device, &policy));
  }
  ac_graph_free(graph);
}

/* And a state to load, of a run in which the samples were others. */
static int set_up(void **state) {
  if (make_test_folder(state)) return -1;
  snprintf(state_path, sizeof state_path, "%s", in_folder("state").text);
  snprintf(scratch_path, sizeof scratch_path, "%s", in_folder("scratch").text);
  other = dataset_of(5);
  make_plans();
  run r = {.device = shared_device, .plan = plans[1]};
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.seed = 9}));
  assert_ok(feed_samples(&r, 1, 1));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, state_path, NULL, 0));
  ac_trainer_free(r.trainer);
  return 0;
}

static int tear_down(void **state) {
  for (int p = 0; p < POLICIES; p++) ac_plan_free(plans[p]);
  unshare_device();
  ac_dataset_free(other);
  return remove_test_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_function_is_tried),
      cmocka_unit_test(from_a_read),
      cmocka_unit_test(from_stop),
      cmocka_unit_test(from_an_evaluation),
      cmocka_unit_test(refusals_say_why),
      cmocka_unit_test(states_can_be_saved_from_stop),
      cmocka_unit_test(sessions_are_not_changed_while_they_evaluate)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
