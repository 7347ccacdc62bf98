/* Outputs that a trainer computes in its own memory: the same as a session's, for any number of
 * samples, in each precision and with each choice of what is computed again; and training goes on
 * with the same bits. */
#include "support/states.h"

#include "core/error.h"

#include <math.h>

enum { MANY = 9, ROW = TOKENS * WIDTH };

static const shape_of_model models[] = {{.norm = true, .two = true}, {.two = true}, {0}};

static void samples_of(float x[MANY * ROW]) {
  for (int i = 0; i < MANY; i++) {
    const sample s = make_sample(i, 0);
    memcpy(x + i * ROW, s.x, sizeof s.x);
  }
}

static ac_status predict(const run *r, int count, float *h) {
  float x[MANY * ROW];
  samples_of(x);
  const ac_feed feeds[] = {{"x", x}};
  return ac_trainer_predict(r->trainer, "h", count, feeds, 1, count * ROW, h);
}

static void train(const run *r, int windows) {
  for (int i = 0; i < windows; i++) {
    assert_ok(feed_samples(r, i * BATCH % COUNT > COUNT - BATCH ? 0 : i * BATCH % COUNT, BATCH));
    assert_ok(ac_trainer_update(r->trainer, NULL));
  }
}

/* ---- the same as a session ------------------------------------------------------------------- */

static void session_predicts(const run *r, const shape_of_model *m, ac_precision precision,
                             float h[MANY * ROW]) {
  ac_graph *graph = graph_of(m);
  ac_plan *plan;
  ac_session *session;
  float x[MANY * ROW];
  samples_of(x);
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = MANY, .precision = precision};
  assert_ok(ac_plan_create(&plan, graph, r->device, &desc));
  assert_ok(ac_session_create(&session, plan, 0));
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    float values[64];
    ac_tensor_info info;
    const int64_t count = elements(r->trainer, i);
    assert_true(count <= 64);
    assert_ok(ac_trainer_parameter_info(r->trainer, i, &info));
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, count, values));
    assert_ok(ac_session_set_parameter(session, info.name, 0, count, values));
  }
  const ac_feed feeds[] = {{"x", x}};
  assert_ok(ac_session_run(session, MANY, feeds, 1));
  assert_ok(ac_session_output(session, "h", 0, MANY * ROW, h));
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(graph);
}

/* Splitting the samples may round products otherwise. */
static void agrees(const char *device, const shape_of_model *m, const ac_plan_desc *plan,
                   double most) {
  const ac_trainer_desc desc = {.seed = 5, .schedule = {.lr = 0.05}};
  run r = start_model(device, m, plan, &desc);
  float ours[MANY * ROW], theirs[MANY * ROW];
  train(&r, 3);
  assert_ok(predict(&r, MANY, ours));
  session_predicts(&r, m, plan->precision, theirs);
  const double off = distance(theirs, ours, MANY * ROW);
  if (!(off <= most)) fail_msg("predictions differ by %g of their length", off);
  end_run(&r);
}

static void they_are_a_sessions(const char *device) {
  for (int k = 0; k < 3; k++)
    for (int p = 0; p < 3; p++) {
      const ac_plan_desc plan = {.batch = BATCH,
                                 .micro_batch = models[k].norm ? BATCH : 3,
                                 .precision = (ac_precision)p,
                                 .recompute = k ? AC_RECOMPUTE_ALL : AC_RECOMPUTE_NONE};
      agrees(device, &models[k], &plan, p ? 4e-3 : 1e-6);
    }
}
ON_SHARED_DEVICES(they_are_a_sessions)

/* ---- nothing else changes -------------------------------------------------------------------- */

/* Updates with predictions between windows, and within them where that is allowed. */
static facts run_with(const char *device, const shape_of_model *m, const ac_plan_desc *plan,
                      bool predicts, snapshot *end) {
  const ac_trainer_desc desc = {.seed = 5, .schedule = {.lr = 0.05}};
  run r = start_model(device, m, plan, &desc);
  ac_device_reset_peak(r.device); /* it may be shared */
  facts f = {.count = 0};
  float h[MANY * ROW];
  for (int i = 0; i < 4; i++) {
    ac_update update;
    if (predicts) assert_ok(predict(&r, 1 + 2 * i, h));
    if (plan->whole_windows || plan->gradients || m->norm || m->two) {
      assert_ok(feed_samples(&r, i, BATCH));
    } else {
      assert_ok(feed_samples(&r, i, 1));
      if (predicts) assert_ok(predict(&r, MANY, h));
      assert_ok(feed_samples(&r, i + 1, BATCH - 1));
      if (predicts) assert_ok(predict(&r, 2, h));
    }
    assert_ok(ac_trainer_update(r.trainer, &update));
    add_update(&f, &update);
  }
  assert_int_equal(ac_device_peak_bytes(r.device), ac_plan_get_info(r.plan)->bytes.total);
  *end = look_at(&r);
  end_run(&r);
  return f;
}

static void windows_stay_as_they_are(const char *device) {
  static const ac_plan_desc plans[] = {
      {.batch = BATCH},
      {.batch = BATCH, .micro_batch = 1},
      {.batch = BATCH, .whole_windows = true, .recompute = AC_RECOMPUTE_ALL},
      {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED},
      {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL},
      {.batch = BATCH, .precision = AC_PRECISION_BF16}};
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++)
    for (int m = 0; m < 3; m++) {
      if (models[m].norm && plans[k].micro_batch == 1) continue;
      snapshot with, without;
      const facts a = run_with(device, &models[m], &plans[k], true, &with),
                  b = run_with(device, &models[m], &plans[k], false, &without);
      assert_true(same_facts(&a, &b));
      assert_same("predictions", &with, &without);
    }
}

ON_SHARED_DEVICES(windows_stay_as_they_are)

/* ---- sessions take any number ---------------------------------------------------------------- */

static void sessions_take_any_number(const char *device) {
  ac_graph *graph = graph_of(&models[2]);
  run r = start_model(device, &models[2], &(ac_plan_desc){.batch = 1}, NULL);
  ac_plan *plan;
  ac_session *session;
  float x[MANY * ROW], whole[MANY * ROW], one[ROW], named[MANY * ROW];
  samples_of(x);
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 2};
  assert_ok(ac_plan_create(&plan, graph, r.device, &desc));
  assert_ok(ac_session_create(&session, plan, 3));
  const ac_feed feeds[] = {{"x", x}};
  assert_ok(ac_session_run(session, MANY, feeds, 1));
  assert_ok(ac_session_output(session, "h", 0, MANY * ROW, whole));
  assert_refused(ac_session_output(session, "h", 0, MANY * ROW + 1, whole), AC_ERROR_ARGUMENT,
                 "output \"h\" has 108 elements");
  for (int i = 0; i < MANY; i++) {
    const ac_feed single[] = {{"x", x + i * ROW}};
    assert_ok(ac_session_run(session, 1, single, 1));
    assert_ok(ac_session_output(session, "h", 0, ROW, one));
    assert_true(distance(one, whole + i * ROW, ROW) < 1e-6);
  }
  assert_ok(ac_session_predict(session, "h", MANY, feeds, 1, MANY * ROW, named));
  assert_memory_equal(whole, named, sizeof whole);
  assert_refused(ac_session_output(session, "h", 0, 1, one), AC_ERROR_STATE, "nothing was run");
  assert_refused(ac_session_predict(session, "g", 1, feeds, 1, ROW, one), AC_ERROR_ARGUMENT,
                 "session: no output \"g\"");
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(graph);
  end_run(&r);
}
ON_SHARED_DEVICES(sessions_take_any_number)

/* ---- what is watched ------------------------------------------------------------------------- */

typedef struct seen {
  float of[BATCH * ROW];
  int calls, samples;
  ac_trainer *trainer;
} seen;

static void see(void *user, const ac_tensor_view *view) {
  seen *s = user;
  assert_string_equal(view->name, "h");
  assert_int_equal(view->elements, ROW);
  assert_int_equal(view->first, s->samples);
  memcpy(s->of + view->first * ROW, view->data, (size_t)(view->count * ROW) * sizeof *s->of);
  s->samples += (int)view->count;
  s->calls++;
  assert_refused(ac_trainer_update(s->trainer, NULL), AC_ERROR_STATE, "hands out a tensor");
  assert_refused(ac_trainer_watch_tensor(s->trainer, "h", NULL, NULL), AC_ERROR_STATE,
                 "hands out a tensor");
  ac_trainer_discard(s->trainer);
}

/* The mean squared error that a window reports is that of what was watched. */
static void check_loss(const seen *s, int window, const ac_update *update, double most) {
  double sum = 0;
  for (int i = 0; i < BATCH; i++) {
    const sample x = make_sample(window + i, 0);
    for (int k = 0; k < ROW; k++) sum += pow((double)s->of[i * ROW + k] - (double)x.x[k], 2);
  }
  const double mean = sum / (BATCH * ROW);
  if (!(fabs(mean - update->loss) <= most * mean))
    fail_msg("the loss is %g, that of watched values %g", update->loss, mean);
}

static void watch_a_run(const char *device, const ac_plan_desc *plan, bool watches, snapshot *end) {
  const ac_trainer_desc desc = {.seed = 5, .schedule = {.lr = 0.05}};
  run r = start_model(device, &models[2], plan, &desc);
  ac_device_reset_peak(r.device);
  float h[BATCH * ROW] = {0};
  ac_tensor_buffer buffer = {h, BATCH * ROW - 1};
  seen s = {.trainer = r.trainer};
  for (int i = 0; i < 4; i++) {
    const ac_tensor_callback callbacks[] = {NULL, see, ac_keep_tensor, NULL};
    ac_update update;
    if (watches)
      assert_ok(
          ac_trainer_watch_tensor(r.trainer, "h", callbacks[i], i == 1 ? &s : (void *)&buffer));
    assert_ok(feed_samples(&r, i, BATCH));
    assert_ok(ac_trainer_update(r.trainer, &update));
    if (watches && i == 1) check_loss(&s, i, &update, plan->precision ? 5e-3 : 1e-5);
  }
  if (watches) {
    assert_int_equal(s.calls, plan->micro_batch ? BATCH / plan->micro_batch : 1);
    assert_int_equal(s.samples, BATCH);
    assert_true(h[BATCH * ROW - 2] != 0 && h[BATCH * ROW - 1] == 0);
  }
  assert_int_equal(ac_device_peak_bytes(r.device), ac_plan_get_info(r.plan)->bytes.total);
  *end = look_at(&r);
  end_run(&r);
}

static void watch_twice(const char *device, const ac_plan_desc *plan) {
  snapshot with, without;
  watch_a_run(device, plan, true, &with);
  watch_a_run(device, plan, false, &without);
  assert_same("watched tensors", &with, &without);
}

static void watching_changes_nothing(const char *device) {
  static const ac_plan_desc plans[] = {
      {.batch = BATCH, .micro_batch = 2},
      {.batch = BATCH, .whole_windows = true, .recompute = AC_RECOMPUTE_ALL},
      {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED},
      {.batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL, .precision = AC_PRECISION_F16}};
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) watch_twice(device, &plans[k]);
}

ON_SHARED_DEVICES(watching_changes_nothing)

/* ---- what is refused ------------------------------------------------------------------------- */

static void bad_input(const char *device) {
  const ac_plan_desc plan = {.batch = BATCH, .whole_windows = true};
  run r = start_model(device, &models[0], &plan, NULL);
  float x[MANY * ROW] = {0}, h[MANY * ROW];
  const ac_feed feeds[] = {{"x", x}};
  ac_trainer *t = r.trainer;
  assert_refused(ac_trainer_predict(t, "g", 1, feeds, 1, ROW, h), AC_ERROR_ARGUMENT,
                 "trainer: no output \"g\"");
  assert_refused(ac_trainer_predict(t, "h", 0, feeds, 1, 0, h), AC_ERROR_ARGUMENT,
                 "trainer: 0 samples were given");
  assert_refused(ac_trainer_predict(t, "h", -3, feeds, 1, ROW, h), AC_ERROR_ARGUMENT,
                 "trainer: -3 samples were given");
  assert_refused(
      ac_trainer_predict(t, "h", 2, feeds, 1, ROW, h), AC_ERROR_ARGUMENT,
      "output \"h\" of 2 samples has 24 elements, 12 for each, but there is room for 12");
  assert_refused(ac_trainer_predict(t, "h", INT64_MAX, feeds, 1, ROW, h), AC_ERROR_ARGUMENT,
                 "room for 12");
  assert_refused(ac_trainer_predict(t, "h", 1, feeds, 0, ROW, h), AC_ERROR_ARGUMENT,
                 "input \"x\" was not fed");
  assert_ok(feed_samples(&r, 0, BATCH));
  assert_refused(ac_trainer_predict(t, "h", 1, feeds, 1, ROW, h), AC_ERROR_STATE,
                 "this would overwrite the window's gradients");
  assert_ok(ac_trainer_update(t, NULL));
  assert_ok(ac_trainer_predict(t, "h", 1, feeds, 1, ROW, h));
  end_run(&r);
}
ON_SHARED_DEVICES(bad_input)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_a_sessions_everywhere),
                                     cmocka_unit_test(windows_stay_as_they_are_everywhere),
                                     cmocka_unit_test(sessions_take_any_number_everywhere),
                                     cmocka_unit_test(watching_changes_nothing_everywhere),
                                     cmocka_unit_test(bad_input_everywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
