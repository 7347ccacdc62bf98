/* Two trainers, or a trainer and a session, with one copy of the weights: what one changes the
 * other uses, their copies in 16 bits included, and the bytes are there once. And weights that
 * follow others at a rate. */
#include "support/states.h"

#include "core/error.h"

#include <math.h>

enum { ROW = TOKENS * WIDTH };

static const shape_of_model plain = {0};
static const ac_trainer_desc rates = {.seed = 5, .schedule = {.lr = 0.05}};

static run first_run(const char *device, ac_precision precision) {
  const ac_plan_desc plan = {.batch = BATCH, .precision = precision};
  return start_model(device, &plain, &plan, &rates);
}

/* Shares what the patterns name, and freezes what `frozen` names. */
static ac_status start_second(const run *first, const shape_of_model *m, const ac_plan_desc *plan,
                              run *second) {
  ac_graph *graph = graph_of(m);
  const ac_trainer_desc desc = {.seed = 6, .schedule = {.lr = 0.05}, .share = first->trainer};
  *second = (run){.device = first->device};
  assert_ok(ac_plan_create(&second->plan, graph, first->device, plan));
  ac_graph_free(graph);
  return ac_trainer_create(&second->trainer, second->plan, &desc);
}

static void end_second(run *second) {
  ac_trainer_free(second->trainer);
  ac_plan_free(second->plan);
}

/* The last one on a device leaves no bytes there. */
static void end_both(run *a, run *b) {
  if (a->device == b->device) end_second(a);
  else end_run(a);
  end_run(b);
}

static void train(const run *r, int first) {
  ac_update update;
  assert_ok(feed_samples(r, first, BATCH));
  assert_ok(ac_trainer_update(r->trainer, &update));
  assert_false(update.skipped);
}

static void predict(ac_trainer *trainer, float h[ROW]) {
  const sample s = make_sample(3, 0);
  const ac_feed feeds[] = {{"x", s.x}};
  assert_ok(ac_trainer_predict(trainer, "h", 1, feeds, 1, ROW, h));
}

static void assert_agree(const run *a, const run *b) {
  float x[ROW], y[ROW];
  predict(a->trainer, x);
  predict(b->trainer, y);
  assert_memory_equal(x, y, sizeof x);
}

/* The second one trains all of them (NULL), or all but those. */
static void share(const char *device, ac_precision precision, const char *frozen) {
  run a = first_run(device, precision), b;
  const ac_plan_desc plan = {
      .batch = BATCH, .precision = precision, .shared = "*", .frozen = frozen};
  const uint64_t before = ac_device_allocated_bytes(a.device);
  assert_ok(start_second(&a, &plain, &plan, &b));
  const ac_plan_bytes *bytes = &ac_plan_get_info(b.plan)->bytes;
  assert_int_equal(bytes->parameters, 0);
  assert_int_equal(ac_device_allocated_bytes(a.device), before + bytes->total);
  assert_agree(&a, &b);
  float x[ROW], y[ROW];
  predict(a.trainer, x);
  for (int i = 0; i < 2; i++) {
    train(&a, i);
    assert_agree(&a, &b);
    train(&b, i + 1);
    assert_agree(&a, &b);
  }
  predict(a.trainer, y);
  assert_true(memcmp(x, y, sizeof x) != 0);
  end_second(&b);
  train(&a, 0);
  end_run(&a);
}

static void one_copy_serves_both(const char *device) {
  for (int p = 0; p < 3; p++) {
    share(device, (ac_precision)p, NULL);
    share(device, (ac_precision)p, "encoder*");
  }
}
ON_SHARED_DEVICES(one_copy_serves_both)

/* That another trainer looks on changes no bits of a run. */
static void a_run_stays_as_it_is(const char *device) {
  const ac_plan_desc sgd = {.batch = BATCH, .optimizer = {.kind = AC_SGD}},
                     second = {.batch = BATCH, .optimizer = {.kind = AC_SGD}, .shared = "*"};
  run alone = start_model(device, &plain, &sgd, &rates),
      a = start_model(device, &plain, &sgd, &rates), b;
  assert_ok(start_second(&a, &plain, &second, &b));
  for (int i = 0; i < 2; i++) train(&alone, i);
  train(&a, 0);
  const sample s = make_sample(3, 0);
  const ac_feed feeds[] = {{"x", s.x}};
  float h[ROW];
  assert_ok(ac_trainer_predict(b.trainer, "h", 1, feeds, 1, ROW, h));
  train(&a, 1);
  assert_agree(&alone, &a);
  assert_agree(&alone, &b);
  end_second(&b);
  end_both(&alone, &a);
}
ON_SHARED_DEVICES(a_run_stays_as_it_is)

static void a_session_follows(const char *device) {
  for (int p = 0; p < 3; p++) {
    run a = first_run(device, (ac_precision)p);
    ac_graph *graph = graph_of(&plain);
    ac_plan *plan;
    ac_session *session;
    const ac_plan_desc desc = {
        .purpose = AC_PREDICT, .batch = 1, .precision = (ac_precision)p, .shared = "*"};
    assert_ok(ac_plan_create(&plan, graph, a.device, &desc));
    assert_refused(ac_session_create(&session, plan, 0), AC_ERROR_ARGUMENT,
                   "the plan shares parameters");
    assert_ok(ac_session_create_shared(&session, plan, 0, a.trainer));
    for (int i = 0; i < 2; i++) {
      float x[ROW], y[ROW];
      const sample s = make_sample(3, 0);
      const ac_feed feeds[] = {{"x", s.x}};
      train(&a, i);
      predict(a.trainer, x);
      assert_ok(ac_session_predict(session, "h", 1, feeds, 1, ROW, y));
      assert_true(distance(x, y, ROW) < 1e-6);
    }
    ac_session_free(session);
    ac_plan_free(plan);
    ac_graph_free(graph);
    end_run(&a);
  }
}
ON_SHARED_DEVICES(a_session_follows)

/* Sets all elements of a parameter through the second trainer, and returns what the first has. */
static float set_by_second(const run *first, const run *second, const char *name, float value) {
  const int index = ac_trainer_find_parameter(first->trainer, name);
  float values[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) values[i] = value;
  assert_ok(ac_trainer_set_parameter(second->trainer, index, 0, WIDTH * WIDTH, values));
  assert_ok(ac_trainer_get_parameter(first->trainer, index, 0, WIDTH * WIDTH, values));
  return values[WIDTH * WIDTH - 1];
}

/* What is written through one is there for the other one, also where it uses only the copy in 16
 * bits, or only the original. */
static void writing_changes_both(const char *device) {
  for (int p = 0; p < 3; p++)
    for (int q = 0; q < 2; q++) {
      run a = first_run(device, (ac_precision)p), b;
      const ac_plan_desc plan = {.batch = BATCH,
                                 .precision = (ac_precision)(q ? p : 0),
                                 .shared = "encoder,shared",
                                 .frozen = "encoder,shared"};
      assert_ok(start_second(&a, &plain, &plan, &b));
      assert_true(set_by_second(&a, &b, "encoder", 0.3f) == 0.3f);
      assert_true(set_by_second(&a, &b, "shared", -0.7f) == -0.7f);
      float x[ROW], y[ROW];
      predict(a.trainer, x);
      const int index = ac_trainer_find_parameter(a.trainer, "shared");
      float values[WIDTH * WIDTH];
      assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, WIDTH * WIDTH, values));
      assert_ok(ac_trainer_set_parameter(a.trainer, index, 0, WIDTH * WIDTH, values));
      predict(a.trainer, y);
      assert_memory_equal(x, y, sizeof x);
      end_second(&b);
      end_run(&a);
    }
}
ON_SHARED_DEVICES(writing_changes_both)

/* A state of a trainer that uses only the copy in 16 bits brings back what both had; to the bit,
 * where the other one is brought back as well. */
static void states_change_both(const char *device) {
  for (int p = 0; p < 3; p++) {
    const char *first = "first.state", *second = "second.state";
    const ac_plan_desc plan = {.batch = BATCH,
                               .precision = (ac_precision)p,
                               .shared = "encoder,shared",
                               .frozen = "encoder,shared"};
    run a = first_run(device, (ac_precision)p), b;
    assert_ok(start_second(&a, &plain, &plan, &b));
    train(&a, 0);
    assert_ok(ac_trainer_save_state(a.trainer, first, NULL, 0));
    assert_ok(ac_trainer_save_state(b.trainer, second, NULL, 0));
    const int index = ac_trainer_find_parameter(a.trainer, "shared");
    float was[WIDTH * WIDTH], now[WIDTH * WIDTH];
    assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, WIDTH * WIDTH, was));
    set_by_second(&a, &b, "shared", 3);
    assert_ok(ac_trainer_load_state(b.trainer, second));
    assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, WIDTH * WIDTH, now));
    assert_true(distance(now, was, WIDTH * WIDTH) <= (p ? 4e-3 : 0));
    assert_ok(ac_trainer_load_state(a.trainer, first));
    assert_ok(ac_trainer_load_state(b.trainer, second));
    assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, WIDTH * WIDTH, now));
    assert_memory_equal(was, now, sizeof was);
    end_second(&b);
    end_run(&a);
  }
}
ON_SHARED_DEVICES(states_change_both)

/* ---- weights that follow --------------------------------------------------------------------- */

static void weights_follow_at_a_rate(const char *device) {
  for (int p = 0; p < 3; p++) {
    const ac_plan_desc plan = {.batch = BATCH, .precision = (ac_precision)p};
    const ac_trainer_desc other = {.seed = 9};
    run a = first_run(device, (ac_precision)p), b = start_model(device, &plain, &plan, &other);
    float was[WIDTH * WIDTH], to[WIDTH * WIDTH], now[WIDTH * WIDTH];
    const int index = ac_trainer_find_parameter(a.trainer, "shared");
    assert_ok(ac_trainer_get_parameter(b.trainer, index, 0, WIDTH * WIDTH, was));
    assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, WIDTH * WIDTH, to));
    assert_ok(ac_trainer_copy_weights(b.trainer, "sh", a.trainer, "sh", 0.25));
    assert_ok(ac_trainer_get_parameter(b.trainer, index, 0, WIDTH * WIDTH, now));
    for (int i = 0; i < WIDTH * WIDTH; i++)
      assert_true(fabsf(now[i] - (0.75f * was[i] + 0.25f * to[i])) < 1e-6f);
    assert_ok(ac_trainer_copy_weights(b.trainer, NULL, a.trainer, NULL, 1));
    assert_agree(&a, &b);
    assert_refused(ac_trainer_copy_weights(b.trainer, "none", a.trainer, "", 1), AC_ERROR_ARGUMENT,
                   "no parameter \"none...\"");
    assert_refused(ac_trainer_copy_weights(b.trainer, "encoder", a.trainer, "shared", 1.5),
                   AC_ERROR_ARGUMENT, "at a rate from 0 to 1, not 1.5");
    assert_refused(ac_trainer_copy_weights(b.trainer, "", a.trainer, "", (double)NAN),
                   AC_ERROR_ARGUMENT, "at a rate from 0 to 1, not nan");
    assert_refused(ac_trainer_copy_weights(b.trainer, "encoder", a.trainer, "encoder.bias", 1),
                   AC_ERROR_ARGUMENT, "cannot follow");
    end_both(&b, &a);
  }
}
ON_SHARED_DEVICES(weights_follow_at_a_rate)

/* What is frozen may be kept in 16 bits alone, where a small step would be no step. */
static void small_steps_are_not_lost(const char *device) {
  for (int p = 0; p < 3; p++) {
    const ac_plan_desc plan = {
        .batch = BATCH, .precision = (ac_precision)p, .frozen = "encoder,shared"};
    run a = first_run(device, (ac_precision)p), b = start_model(device, &plain, &plan, &rates);
    const ac_status status =
        ac_trainer_copy_weights(b.trainer, "shared", a.trainer, "shared", 0.01);
    assert_int_equal(status, p ? AC_ERROR_ARGUMENT : AC_OK);
    if (p) assert_non_null(strstr(ac_last_error(), "trainer: \"shared\" is kept in "));
    assert_ok(ac_trainer_copy_weights(b.trainer, "shared", a.trainer, "shared", 1));
    end_both(&b, &a);
  }
}
ON_SHARED_DEVICES(small_steps_are_not_lost)

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const run *first, const shape_of_model *m, const ac_plan_desc *plan,
                    const char *why) {
  run second;
  assert_refused(start_second(first, m, plan, &second), AC_ERROR_ARGUMENT, why);
  assert_null(second.trainer);
  end_second(&second);
}

static void bad_input(const char *device) {
  run a = first_run(device, AC_PRECISION_F16);
  const shape_of_model wide = {.hidden = 5}, norm = {.norm = true};
  ac_graph *graph = graph_of(&plain);
  ac_plan *plan;
  ac_trainer *none;
  assert_refused(
      ac_plan_create(&plan, graph, a.device, &(ac_plan_desc){.batch = 1, .shared = "shared,x*"}),
      AC_ERROR_ARGUMENT, "no parameter's name matches \"x*\", which is to be shared");
  assert_ok(
      ac_plan_create(&plan, graph, a.device, &(ac_plan_desc){.batch = 1, .shared = "shared"}));
  assert_refused(ac_trainer_create(&none, plan, NULL), AC_ERROR_ARGUMENT,
                 "no trainer or session that has them was given");
  refused(&a, &wide,
          &(ac_plan_desc){.batch = 1, .shared = "encoder", .precision = AC_PRECISION_F16},
          "parameter \"encoder\" is to be shared, but has another shape");
  refused(&a, &norm,
          &(ac_plan_desc){.batch = 2, .shared = "norm.weight", .precision = AC_PRECISION_F16},
          "parameter \"norm.weight\" is to be shared, but the other trainer has none");
  refused(&a, &plain,
          &(ac_plan_desc){.batch = 1, .shared = "shared", .precision = AC_PRECISION_BF16},
          "parameter \"shared\" is to be shared, but the other trainer stores it otherwise");
  refused(&a, &plain, &(ac_plan_desc){.batch = 1, .shared = "shared"},
          "parameter \"shared\" is shared and trained, but the other trainer has a copy");
  ac_plan_free(plan);
  ac_graph_free(graph);
  end_run(&a);
}
ON_SHARED_DEVICES(bad_input)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy_serves_both_everywhere),
                                     cmocka_unit_test(a_run_stays_as_it_is_everywhere),
                                     cmocka_unit_test(a_session_follows_everywhere),
                                     cmocka_unit_test(writing_changes_both_everywhere),
                                     cmocka_unit_test(states_change_both_everywhere),
                                     cmocka_unit_test(weights_follow_at_a_rate_everywhere),
                                     cmocka_unit_test(small_steps_are_not_lost_everywhere),
                                     cmocka_unit_test(bad_input_everywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
