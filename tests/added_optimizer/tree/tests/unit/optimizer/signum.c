/* An optimizer that was added: its steps against its formula in double, update by update; its
 * state, which the plan counts and states keep; folded gradients; and refused. */
#include "support/files.h"

#include "support/runs.h"

#include "window/trainer.h"

#include <math.h>

enum { BATCH = 8, UPDATES = 4, MOST = 4 * 40 * 40 };

static const test_gpt wide = {1, 40, CONTEXT, VOCAB, 2, 0.1f, true, true};
static const ac_trainer_desc training = {.seed = 3, .schedule = {.lr = 1e-2}};

/* ---- the formula of ops/update/signum.h ------------------------------------------------------ */

static const char *formula(void *user, const ac_parameter_step *s) {
  (void)user;
  for (int64_t i = 0; i < s->count; i++) {
    double m = (double)s->state[0][i], p = (double)s->weights[i];
    m += (1 - s->optimizer.momentum) * ((double)s->gradient[i] - m);
    p -= s->rate * s->weight_decay * p;
    p -= m > 0 ? s->rate : m < 0 ? -s->rate : 0;
    s->state[0][i] = (float)m;
    s->weights[i] = (float)p;
  }
  return NULL;
}

static void compare(run *built_in, run *own, int index) {
  float want[MOST], got[MOST], kept[MOST], state[MOST];
  const int64_t count = elements(own->trainer, index);
  assert_true(count <= MOST);
  assert_ok(ac_trainer_get_parameter(own->trainer, index, 0, count, want));
  assert_ok(ac_trainer_get_parameter(built_in->trainer, index, 0, count, got));
  assert_ok(ac_trainer_get_state(own->trainer, index, 0, 0, count, kept));
  assert_ok(ac_trainer_get_state(built_in->trainer, index, 0, 0, count, state));
  for (int64_t e = 0; e < count; e++) {
    assert_true(fabs((double)kept[e] - (double)state[e]) <= 1e-6);
    /* A momentum within rounding of 0 may have either sign. */
    if (fabs((double)kept[e]) > 1e-7) assert_true(fabs((double)want[e] - (double)got[e]) <= 1e-6);
  }
  assert_ok(ac_trainer_set_parameter(built_in->trainer, index, 0, count, want));
  assert_ok(ac_trainer_set_state(built_in->trainer, index, 0, 0, count, kept));
}

static void steps_are_the_formula(const char *device) {
  const corpus c = make_corpus();
  const ac_optimizer_desc settings = {
      .kind = AC_SIGNUM, .momentum = 0.8, .weight_decay = 0.1, .clip = 0.05};
  ac_plan_desc plan = {.batch = BATCH, .micro_batch = 4, .optimizer = settings};
  run built_in = start(device, &wide, plan, training);
  plan.optimizer.kind = AC_OPTIMIZER_CALLBACK;
  plan.optimizer.callback_states = 1;
  plan.optimizer.step = formula;
  run own = start(device, &wide, plan, training);
  for (int u = 0; u < UPDATES; u++) {
    ac_update done;
    assert_ok(feed(&own, &c, 0, BATCH));
    assert_ok(ac_trainer_update(own.trainer, NULL));
    assert_ok(feed(&built_in, &c, 0, BATCH));
    assert_ok(ac_trainer_update(built_in.trainer, &done));
    assert_true(done.momentum == 0.8);
    for (int i = 0; i < ac_trainer_parameter_count(own.trainer); i++) compare(&built_in, &own, i);
  }
  stop(&own);
  stop(&built_in);
}

ON_EVERY_DEVICE(steps_are_the_formula)

/* ---- its state ------------------------------------------------------------------------------- */

static uint64_t state_bytes(ac_optimizer_kind kind, ac_optimizer_state state) {
  const ac_plan_desc plan = {.batch = BATCH,
                             .optimizer = {.kind = kind, .state = state, .state_f32 = ""}};
  run r = start("cpu", &wide, plan, training);
  const uint64_t bytes = ac_plan_get_info(r.plan)->bytes.optimizer;
  assert_int_equal(ac_trainer_state_count(r.trainer), kind == AC_ADAMW ? 2 : 1);
  stop(&r);
  return bytes;
}

static void a_plan_counts_its_state(void **state) {
  (void)state;
  assert_true(state_bytes(AC_SIGNUM, AC_STATE_8BIT) < state_bytes(AC_SIGNUM, AC_STATE_F32));
  assert_int_equal(2 * state_bytes(AC_SIGNUM, AC_STATE_F32), state_bytes(AC_ADAMW, AC_STATE_F32));
  assert_int_equal(state_bytes(AC_SIGNUM, AC_STATE_8BIT), state_bytes(AC_LION, AC_STATE_8BIT));
}

static void a_saved_run_goes_on_to_the_bit(void **state) {
  (void)state;
  const corpus c = make_corpus();
  const ac_plan_desc plan = {.batch = BATCH, .micro_batch = 4, .optimizer = {.kind = AC_SIGNUM}};
  run whole = start("cpu", &wide, plan, training), first = start("cpu", &wide, plan, training),
      second = start("cpu", &wide, plan, training);
  const test_path path = in_folder("signum.state");
  for (int u = 0; u < 2 * UPDATES; u++) {
    run *r = u < UPDATES ? &first : &second;
    if (u == UPDATES) {
      assert_ok(ac_trainer_save_state(first.trainer, path.text, NULL, 0));
      assert_ok(ac_trainer_load_state(second.trainer, path.text));
    }
    assert_ok(feed(&whole, &c, u, BATCH));
    assert_ok(ac_trainer_update(whole.trainer, NULL));
    assert_ok(feed(r, &c, u, BATCH));
    assert_ok(ac_trainer_update(r->trainer, NULL));
  }
  size_t total, same;
  float *want = all_parameters(&whole, &total), *got = all_parameters(&second, &same);
  assert_int_equal(total, same);
  assert_memory_equal(want, got, total * sizeof *want);
  free(want);
  free(got);
  stop(&whole);
  stop(&first);
  stop(&second);
}

/* ---- folded ---------------------------------------------------------------------------------- */

/* What is folded is the momentum that a buffer would have given. */
static void folded_gradients_are_its_momentum(void **state) {
  (void)state;
  const corpus c = make_corpus();
  ac_plan_desc plan = {.batch = BATCH, .micro_batch = 4, .optimizer = {.kind = AC_SIGNUM}};
  run kept = start("cpu", &wide, plan, training);
  plan.gradients = AC_GRADIENTS_FOLDED;
  run folded = start("cpu", &wide, plan, training);
  assert_true(ac_plan_get_info(folded.plan)->gradients == AC_GRADIENTS_FOLDED);
  for (int u = 0; u < UPDATES; u++) {
    assert_ok(feed(&kept, &c, 0, BATCH));
    assert_ok(ac_trainer_update(kept.trainer, NULL));
    assert_ok(feed(&folded, &c, 0, BATCH));
    assert_ok(ac_trainer_update(folded.trainer, NULL));
    for (int i = 0; i < ac_trainer_parameter_count(kept.trainer); i++) compare(&folded, &kept, i);
  }
  stop(&kept);
  stop(&folded);
}

static void sentences_name_it(void **state) {
  (void)state;
  ac_graph *graph = test_gpt_graph(&wide);
  ac_device *device = open_device("dry");
  ac_plan *plan;
  assert_refused(ac_plan_create(&plan, graph, device,
                                &(ac_plan_desc){.optimizer = {.kind = AC_LION},
                                                .gradients = AC_GRADIENTS_FOLDED}),
                 AC_ERROR_ARGUMENT, "only AdamW, SGD, Muon and Signum take folded gradients");
  assert_refused(
      ac_plan_create(&plan, graph, device,
                     &(ac_plan_desc){.optimizer = {.kind = AC_MUON, .state = AC_STATE_8BIT}}),
      AC_ERROR_ARGUMENT, "only AdamW, SGD, Lion and Signum keep their state in 8 bits");
  assert_string_equal(ac_optimizer_name(AC_SIGNUM), "signum");
  ac_device_close(device);
  ac_graph_free(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_the_formula_everywhere),
      cmocka_unit_test(a_plan_counts_its_state),
      cmocka_unit_test(a_saved_run_goes_on_to_the_bit),
      cmocka_unit_test(folded_gradients_are_its_momentum),
      cmocka_unit_test(sentences_name_it),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
