/* The log of a device that compiles kernels: each message that begins a wait has its end, also
 * after a failure. The device is a CPU that is said to compile, in `prepare` and in first runs. */
#include "backend/device.h"
#include "support/check.h"
#include "plan/cost.h"

#include <stdio.h>

enum { MOST_LINES = 4096, LINE = 120 };

static struct {
  ac_backend backend;
  const ac_backend *cpu;
  ac_device *device;
  ac_graph *graph;
  ac_plan *plan;
  char lines[MOST_LINES][LINE];
  int count, seen; /* lines; of them, those that were looked at */
  int prepared, ran, fail_at_prepare, fail_at_run;
} fake;

static void fake_log(void *user, ac_log_level level, const char *line) {
  (void)user;
  if (level != AC_LOG_DEBUG && fake.count < MOST_LINES)
    snprintf(fake.lines[fake.count++], LINE, "%s", line);
}

static ac_status fake_prepare(void *state, const ac_op_args *args) {
  ac_device_log(fake.device, AC_LOG_INFO, "cpu: compiling %s...", ac_op_name(args->op));
  if (++fake.prepared == fake.fail_at_prepare) return AC_ERROR_DEVICE;
  return fake.cpu->prepare(state, args);
}

static ac_status fake_run(void *state, const ac_op_args *args) {
  if (++fake.ran == fake.fail_at_run) return AC_ERROR_DEVICE;
  return fake.cpu->run(state, args);
}

/* y = gelu(x w); the loss is the squared error. */
static void start(ac_purpose purpose) {
  memset(&fake, 0, sizeof fake);
  assert_ok(ac_device_open(&fake.device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  fake.cpu = fake.device->backend;
  fake.backend = *fake.cpu;
  fake.backend.compiles = true;
  fake.backend.prepare = fake_prepare;
  fake.backend.run = fake_run;
  assert_ok(ac_graph_create(&fake.graph));
  ac_tensor *x = ac_input(fake.graph, "x", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *t = ac_input(fake.graph, "t", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *w = ac_parameter(fake.graph, "w", SHAPE(4, 4), ZEROS);
  ac_tensor *y = ac_gelu(ac_linear(x, w, NULL, AC_OUT_IN), AC_GELU_TANH);
  ac_graph_set_loss(fake.graph, ac_mean_squared_error(y, t, NULL));
  ac_graph_set_output(fake.graph, "y", y);
  assert_ok(ac_plan_create(&fake.plan, fake.graph, fake.device,
                           &(ac_plan_desc){.batch = 2, .purpose = purpose}));
  fake.device->backend = &fake.backend;
  fake.device->log = fake_log;
  fake.ran = 0;
}

static void stop(void) {
  fake.device->backend = fake.cpu;
  ac_plan_free(fake.plan);
  ac_graph_free(fake.graph);
  ac_device_close(fake.device);
}

static bool announces(const char *line) {
  const size_t length = strlen(line);
  return length >= 3 && !strcmp(line + length - 3, "...");
}

/* Since the last look: something was announced, its end is the last line, and the only one. */
static void assert_one_wait(const char *begins, const char *ends) {
  const int first = fake.seen;
  fake.seen = fake.count;
  if (fake.count == first) fail_msg("no line, not even \"%s\"", begins);
  if (!strstr(fake.lines[first], begins) || !announces(fake.lines[first]))
    fail_msg("it begins with \"%s\"", fake.lines[first]);
  for (int i = first; i < fake.count - 1; i++)
    if (!announces(fake.lines[i])) fail_msg("it ends early: \"%s\"", fake.lines[i]);
  const char *last = fake.lines[fake.count - 1];
  if (!strstr(last, ends) || announces(last)) fail_msg("it ends with \"%s\"", last);
}

static void assert_silent(void) {
  if (fake.count != fake.seen) fail_msg("it says \"%s\"", fake.lines[fake.seen]);
}

static const float data[8];
static const ac_feed feeds[2] = {{"x", data}, {"t", data}};

static void test_a_trainer(void **state) {
  (void)state;
  ac_trainer *trainer;
  start(AC_TRAIN);
  assert_ok(ac_trainer_create(&trainer, fake.plan, NULL));
  assert_one_wait("cpu: preparing", " took ");
  for (int update = 0; update < 2; update++) {
    assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
    if (update == 0) assert_one_wait("cpu: first run", " took ");
    assert_ok(ac_trainer_update(trainer, NULL));
    if (update == 0) assert_one_wait("cpu: first update", " took ");
    assert_silent();
  }
  ac_trainer_free(trainer);
  stop();
}

static void test_a_session(void **state) {
  (void)state;
  ac_session *session;
  start(AC_PREDICT);
  assert_ok(ac_session_create(&session, fake.plan, 0));
  assert_one_wait("cpu: preparing", " took ");
  assert_ok(ac_session_run(session, 2, feeds, 2));
  assert_one_wait("cpu: first run", " took ");
  assert_ok(ac_session_run(session, 1, feeds, 2));
  assert_silent();
  ac_session_free(session);
  stop();
}

/* Each op in turn: of the sequences, and at last of the update. */
static void test_preparing_fails(void **state) {
  (void)state;
  ac_trainer *trainer;
  start(AC_TRAIN);
  assert_ok(ac_trainer_create(&trainer, fake.plan, NULL));
  ac_trainer_free(trainer);
  const int all = fake.prepared;
  for (int i = 1; i <= all; i++) {
    fake.prepared = 0;
    fake.fail_at_prepare = i;
    fake.seen = fake.count;
    assert_int_equal(ac_trainer_create(&trainer, fake.plan, NULL), AC_ERROR_DEVICE);
    assert_one_wait("cpu: preparing", " failed after ");
  }
  stop();
}

/* A later run is the first again. */
static void test_running_fails(void **state) {
  (void)state;
  ac_trainer *trainer;
  start(AC_TRAIN);
  assert_ok(ac_trainer_create(&trainer, fake.plan, NULL));
  fake.seen = fake.count;
  fake.fail_at_run = 2;
  assert_int_equal(ac_trainer_accumulate(trainer, 2, feeds, 2), AC_ERROR_DEVICE);
  assert_one_wait("cpu: first run", " failed after ");
  ac_trainer_discard(trainer);
  assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
  assert_one_wait("cpu: first run", " took ");
  fake.fail_at_run = fake.ran + 1;
  assert_int_equal(ac_trainer_update(trainer, NULL), AC_ERROR_DEVICE);
  assert_one_wait("cpu: first update", " failed after ");
  ac_trainer_free(trainer);
  stop();
}

static void test_measuring_fails(void **state) {
  (void)state;
  const bool wanted[AC_OP_COUNT] = {[AC_OP_softmax] = true};
  ac_cost_model model;
  start(AC_TRAIN);
  ac_cost_guess(&model);
  fake.fail_at_run = 2;
  assert_int_equal(ac_cost_calibrate(&model, fake.device, AC_F32, wanted, 1), AC_ERROR_DEVICE);
  assert_one_wait("cpu: measuring", "failed");
  stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_trainer),       cmocka_unit_test(test_a_session),
      cmocka_unit_test(test_preparing_fails), cmocka_unit_test(test_running_fails),
      cmocka_unit_test(test_measuring_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
