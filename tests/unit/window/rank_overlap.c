/* The exchange between ranks while the last micro-batch runs: which chunks go when, and what reads
 * whole gradients where each rank has its part of the sums. */
#include "support/devices.h"
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/threads.h"
#include "core/share.h"
#include "window/trainer.h"

#include <math.h>

/* ---- the exchange while backward goes on ----------------------------------------------------- */

enum { WIDE = 640, LAYERS = 4 };

/* Several chunks for each rank. */
static ac_graph *wide(void) {
  static const char *const names[LAYERS] = {"a", "b", "c", "d"};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  for (int i = 0; i < LAYERS; i++)
    x = ac_relu(ac_linear(x, test_matrix(g, names[i], "w", WIDE, i ? WIDE : RANKED_FEATURES), NULL,
                          AC_OUT_IN));
  x = ac_linear(x, test_matrix(g, "e", "w", RANKED_CLASSES, WIDE), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ranked_case wide_case(void) {
  ranked_case c = ranked_feature_case(wide);
  c.fit.steps = 2;
  c.trainer.schedule.lr = 1e-4;
  return c;
}

/* After each step the trainer's thread waits until all rounds have begun that may. */
static ac_follower followed[RANKED_MOST];

static int64_t rounds_begun(ac_overlap *o) {
  ac_monitor_lock(o->lock);
  const int64_t begun = o->early;
  ac_monitor_unlock(o->lock);
  return begun;
}

static ac_status follow_and_wait(void *user, int steps) {
  ac_trainer *trainer = user;
  const ac_device *device = trainer->instance.device;
  const ac_exchange *e = &trainer->exchange;
  const ac_follower *own = &followed[ranked_rank()];
  const bool inside = e->overlap.on && steps < ac_sequence_end(&trainer->instance.plan->main);
  int64_t may = 0;
  for (int64_t n = 0; n < e->rounds.all; n++) may += e->overlap.final[n] <= steps;
  /* Windows before this one had all but the last round begin early. */
  may += trainer->run.updates * (e->rounds.all - 1);
  const ac_status status = own->call(own->user, steps);
  assert_ok(device->backend->finish(device->state)); /* a device with a queue has run them then */
  for (int i = 0; inside && rounds_begun(&trainer->exchange.overlap) < may && i < 20000; i++)
    ac_sleep(0.001);
  return status;
}

static ac_status wait_for_rounds(ac_trainer *trainer) {
  followed[ranked_rank()] = trainer->instance.follower;
  trainer->instance.follower = (ac_follower){follow_and_wait, trainer};
  return AC_OK;
}

static int64_t early[RANKED_MOST], rounds;

static ac_status note_rounds(ac_trainer *trainer) {
  early[ranked_rank()] = trainer->exchange.overlap.early;
  if (ranked_rank() == 0) rounds = trainer->exchange.rounds.gradients;
  return AC_OK;
}

/* All but what the first layer waits for goes before backward is over. */
static void chunks_go_while_backward_goes_on(void **state) {
  (void)state;
  ranked_case c = wide_case();
  for (int ranks = 2; ranks <= 3; ranks++) {
    ranked overlapped[3], afterwards[3];
    c.before = wait_for_rounds;
    c.after = note_rounds;
    ranked_run(&c, ranks, overlapped);
    ranked_check_same(overlapped, ranks);
    assert_true(rounds >= 2);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 2 * (rounds - 1));
    c.before = ranked_exchange_afterwards;
    ranked_run(&c, ranks, afterwards);
    ranked_check_same(afterwards, ranks);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 0);
    assert_memory_equal(overlapped[0].parameters, afterwards[0].parameters,
                        4 * overlapped[0].parameter_count);
    ranked_free(overlapped, ranks);
    ranked_free(afterwards, ranks);
  }
}

/* Whatever the number of elements. */
static void small_models_go_in_one_round(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  c.fit.steps = 1;
  c.after = note_rounds;
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked all[4];
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    assert_int_equal(rounds, 1);
    ranked_free(all, ranks);
  }
}

/* Leaves the thread that exchanges time after each step. */
static ac_status follow_slowly(void *user, int steps) {
  const ac_trainer *trainer = user;
  const ac_follower *own = &followed[ranked_rank()];
  const ac_status status = own->call(own->user, steps);
  if (trainer->exchange.overlap.on) ac_sleep(0.0005);
  return status;
}

static ac_status go_slowly(ac_trainer *trainer) {
  followed[ranked_rank()] = trainer->instance.follower;
  trainer->instance.follower = (ac_follower){follow_slowly, trainer};
  return AC_OK;
}

/* Gradients come about in other ways: computed again, in memory of the arena, in one
 * micro-batch, of layers above frozen ones, in 16 bits, accumulated by several nodes. */
static void set_way(ranked_case *c, int way) {
  c->fit.steps = 3;
  c->fit.eval_every = 0;
  c->validation = 0;
  if (way == 0) c->plan.recompute = AC_RECOMPUTE_ALL;
  if (way == 1) c->plan.micro_batch = 8, c->plan.whole_windows = true;
  if (way == 2) c->plan.micro_batch = 8, c->trainer.noise_every = 0;
  if (way == 3) c->plan.frozen = "wpe*,*qkv*";
  if (way == 4) c->plan.precision = AC_PRECISION_BF16, c->plan.gradient_storage = AC_GRADIENT_BF16;
  if (way == 5) c->data.count = 17, c->fit.last_window = AC_LAST_UPDATE;
}

static void early_chunks_are_whole(void **state) {
  (void)state;
  for (int way = 0; way <= 5; way++)
    for (int ranks = 2; ranks <= 4; ranks += 2) {
      ranked_case c = ranked_gpt_case(way == 3 ? AC_MUON : AC_ADAMW);
      ranked overlapped[4], afterwards[4];
      set_way(&c, way);
      c.before = go_slowly;
      c.after = note_rounds;
      ranked_run(&c, ranks, overlapped);
      ranked_check_same(overlapped, ranks);
      c.before = ranked_exchange_afterwards;
      ranked_run(&c, ranks, afterwards);
      ranked_check_same(afterwards, ranks);
      assert_memory_equal(overlapped[0].parameters, afterwards[0].parameters,
                          4 * overlapped[0].parameter_count);
      ranked_free(overlapped, ranks);
      ranked_free(afterwards, ranks);
    }
}

/* The noise scale measures the only micro-batch of a window; its gradients go while it runs all the
 * same. */
static void measured_windows_go_as_early(void **state) {
  (void)state;
  ranked_case c = wide_case();
  ranked overlapped[3], afterwards[3];
  c.plan.micro_batch = 4; /* a rank's share */
  c.trainer.noise_every = 1;
  c.before = wait_for_rounds;
  c.after = note_rounds;
  ranked_run(&c, 3, overlapped);
  ranked_check_same(overlapped, 3);
  for (int r = 0; r < 3; r++) assert_int_equal(early[r], 2 * (rounds - 1));
  assert_int_equal(overlapped[0].noise.windows, 2);
  c.before = ranked_exchange_afterwards;
  ranked_run(&c, 3, afterwards);
  ranked_check_same(afterwards, 3);
  assert_memory_equal(&afterwards[0].noise, &overlapped[0].noise, sizeof afterwards[0].noise);
  assert_memory_equal(overlapped[0].parameters, afterwards[0].parameters,
                      4 * overlapped[0].parameter_count);
  ranked_free(overlapped, 3);
  ranked_free(afterwards, 3);
}

/* The second and third window once more, without ac_fit: the device measures them before. */
static ac_status measure_before(ac_trainer *trainer) {
  const ac_plan_info *info = &trainer->instance.plan->info;
  float x[12 * RANKED_FEATURES], t[12 * RANKED_CLASSES];
  for (int w = 1; w < 3; w++) {
    const int64_t first = ac_share_begin(12, info->rank, info->ranks),
                  share = ac_share_of(12, info->rank, info->ranks);
    for (int64_t i = 0; i < share; i++) {
      const ac_sample_key key = {.index = 12 * w + first + i};
      void *const fields[] = {x + i * RANKED_FEATURES, t + i * RANKED_CLASSES};
      AC_TRY(ranked_read_features(NULL, &key, fields));
    }
    const ac_feed feeds[] = {{"x", x}, {"t", t}};
    AC_TRY(ac_trainer_begin_share(trainer, first));
    AC_TRY(ac_trainer_accumulate(trainer, share, feeds, 2));
    AC_TRY(ac_trainer_update(trainer, NULL));
  }
  return AC_OK;
}

static bool are_near(double a, double b) {
  return fabs(a - b) <= 1e-4 * fabs(b);
}

/* With a loss scale, and statistics that are pooled: what is measured as it passes is what the
 * device measures. */
static void what_passes_is_measured_as_on_the_device(void **state) {
  (void)state;
  ac_graph *(*const graphs[])(void) = {ranked_plain, ranked_norms};
  for (int g = 0; g < 2; g++) {
    ranked_case c = ranked_feature_case(graphs[g]);
    ranked passing[4], before[4];
    c.plan.micro_batch = 12;
    c.plan.precision = g ? AC_PRECISION_F32 : AC_PRECISION_F16;
    c.trainer.noise_every = 1;
    c.fit.no_shuffle = true;
    for (int ranks = 2; ranks <= 4; ranks++) {
      c.fit.steps = 3;
      c.after = NULL;
      ranked_run(&c, ranks, passing);
      ranked_check_same(passing, ranks);
      c.fit.steps = 1;
      c.after = measure_before;
      ranked_run(&c, ranks, before);
      ranked_check_same(before, ranks);
      assert_int_equal(passing[0].noise.windows, 3);
      assert_int_equal(before[0].noise.windows, 3);
      assert_true(are_near(passing[0].noise.gradient_squares, before[0].noise.gradient_squares));
      assert_true(are_near(passing[0].noise.variance, before[0].noise.variance));
      ranked_free(passing, ranks);
      ranked_free(before, ranks);
    }
  }
}

/* A device that has a queue of kernels: rounds begin when it has run what they wait for, not when
 * that was queued. Its bits are those of an exchange after the last micro-batch. */
static void chunks_go_while_a_queue_goes_on(void **state) {
  (void)state;
  ranked_case c = wide_case();
  ac_device_close(open_opencl("opencl:0")); /* or there is none to try */
  c.device = "opencl:0";
  for (int ranks = 2; ranks <= 3; ranks++) {
    ranked overlapped[3], queued[3], afterwards[3];
    c.after = note_rounds;
    c.before = wait_for_rounds;
    ranked_run(&c, ranks, overlapped);
    ranked_check_same(overlapped, ranks);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 2 * (rounds - 1));
    c.before = NULL;
    ranked_run(&c, ranks, queued);
    ranked_check_same(queued, ranks);
    c.before = ranked_exchange_afterwards;
    ranked_run(&c, ranks, afterwards);
    ranked_check_same(afterwards, ranks);
    for (int r = 0; r < ranks; r++) assert_int_equal(early[r], 0);
    assert_memory_equal(overlapped[0].parameters, afterwards[0].parameters,
                        4 * overlapped[0].parameter_count);
    assert_memory_equal(queued[0].parameters, afterwards[0].parameters,
                        4 * queued[0].parameter_count);
    ranked_free(overlapped, ranks);
    ranked_free(queued, ranks);
    ranked_free(afterwards, ranks);
  }
}

static void other_devices_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked one, all[3];
  ac_device_close(open_opencl("opencl:0"));
  c.device = "opencl:0";
  c.fit.steps = 6;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  ranked_check_near(&one, all, 1e-5);
  ranked_free(&one, 1);
  ranked_free(all, 3);
}

/* Fails before a step in the middle of the last micro-batch of the second window. */
static ac_meanwhile meanwhile_of_all[RANKED_MOST];
static int steps_left;

static ac_status fail_meanwhile(void *user) {
  const ac_meanwhile *to = user;
  if (ranked_rank() == 1 && --steps_left == 0) return ac_fail(AC_ERROR_DEVICE, "the device is hot");
  return to->call(to->user);
}

static ac_status fail_in_a_step(ac_trainer *trainer) {
  ac_meanwhile *own = &meanwhile_of_all[ranked_rank()];
  *own = trainer->instance.meanwhile;
  trainer->instance.meanwhile = (ac_meanwhile){fail_meanwhile, own};
  return AC_OK;
}

static void a_step_that_fails_ends_all(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  c.before = fail_in_a_step;
  for (int at = 1; at < 60; at += 3) {
    ranked all[3];
    steps_left = at;
    ranked_run(&c, 3, all);
    for (int r = 0; r < 3; r++) {
      assert_int_not_equal(all[r].status, AC_OK);
      assert_contains(all[r].sentence, "the device is hot");
    }
    ranked_free(all, 3);
  }
}

/* ---- whole gradients ------------------------------------------------------------------------- */

static float read_gradients[RANKED_MOST][RANKED_CLASSES * 96];

/* Reads a whole gradient. Each rank has summed up a part of it. */
static void read_gradient(void *user, ac_trainer *trainer, ac_decision *decision) {
  float *all = read_gradients[ranked_rank()];
  const int index = ac_trainer_find_parameter(trainer, "c.w");
  (void)user;
  if (ac_trainer_get_mean_gradient(trainer, index, 0, RANKED_CLASSES * 96, all) != AC_OK)
    decision->factor = (double)NAN;
}

static void decisions_read_whole_gradients(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[4];
  float one[RANKED_CLASSES * 96];
  c.trainer.decide = read_gradient;
  c.fit.steps = 1;
  for (int ranks = 1; ranks <= 4; ranks++) {
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    if (ranks == 1) memcpy(one, read_gradients[0], sizeof one);
    for (int r = 0; r < ranks; r++) {
      assert_memory_equal(read_gradients[r], read_gradients[0], sizeof one);
      assert_true(distance(one, read_gradients[r], RANKED_CLASSES * 96) <= 1e-5);
    }
    ranked_free(all, ranks);
  }
}

static ac_layer_report layers[RANKED_MOST];

static ac_status keep_layer(ac_trainer *trainer) {
  return ac_trainer_layer(trainer, ac_trainer_find_parameter(trainer, "b.w"),
                          &layers[ranked_rank()]);
}

/* Outputs without a gradient are looked for in whole gradients. */
static void layers_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[4];
  c.trainer.layers_every = 2;
  c.after = keep_layer;
  ac_layer_report one = {0};
  for (int ranks = 1; ranks <= 4; ranks++) {
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    if (ranks == 1) one = layers[0];
    for (int r = 0; r < ranks; r++) {
      const ac_layer_report *own = &layers[r];
      assert_int_equal(own->measured, one.measured);
      assert_int_equal(own->dead_units, one.dead_units);
      assert_true(fabs(own->gradient_norm - one.gradient_norm) <= 1e-4 * one.gradient_norm);
      assert_true(fabs(own->update_ratio - one.update_ratio) <= 1e-4 * one.update_ratio);
    }
    ranked_free(all, ranks);
  }
  assert_true(one.measured > 0 && one.dead_units > 0 && one.dead_units < one.units);
}

/* After an update that was refused the window is still there, but each rank has its part. */
static ac_status read_after_refusal(ac_trainer *trainer) {
  const float x[2 * RANKED_FEATURES] = {1}, t[2 * RANKED_CLASSES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  float first;
  AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
  trainer->desc.schedule.lr = (double)NAN;
  if (ac_trainer_update(trainer, NULL) != AC_ERROR_ARGUMENT)
    return ac_fail(AC_ERROR_INTERNAL, "a rate of NaN was taken");
  const ac_status status = ac_trainer_get_gradient(trainer, 0, 0, 1, &first);
  ac_trainer_discard(trainer);
  if (status == AC_ERROR_STATE && strstr(ac_last_error(), "each rank has its part")) return AC_OK;
  return ac_fail(AC_ERROR_INTERNAL, "a part was read as if it were a sum of all ranks");
}

/* An update of nothing is refused on all ranks, and leaves all as it was. */
static ac_status update_nothing(ac_trainer *trainer) {
  const float x[2 * RANKED_FEATURES] = {1}, t[2 * RANKED_CLASSES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  float first;
  if (ac_trainer_update(trainer, NULL) != AC_ERROR_STATE)
    return ac_fail(AC_ERROR_INTERNAL, "an update of nothing was taken");
  AC_TRY(ac_trainer_accumulate(trainer, 2, feeds, 2));
  AC_TRY(ac_trainer_get_gradient(trainer, 0, 0, 1, &first));
  return ac_trainer_update(trainer, NULL);
}

static void updates_of_nothing_change_nothing(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[3];
  c.fit.steps = 1;
  c.after = update_nothing;
  ranked_run(&c, 3, all);
  ranked_check_same(all, 3);
  ranked_free(all, 3);
}

static void parts_are_not_read_as_sums(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  ranked all[2];
  c.fit.steps = 1;
  c.after = read_after_refusal;
  ranked_run(&c, 2, all);
  ranked_check_same(all, 2);
  ranked_free(all, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_go_while_backward_goes_on),
      cmocka_unit_test(small_models_go_in_one_round),
      cmocka_unit_test(early_chunks_are_whole),
      cmocka_unit_test(measured_windows_go_as_early),
      cmocka_unit_test(what_passes_is_measured_as_on_the_device),
      cmocka_unit_test(chunks_go_while_a_queue_goes_on),
      cmocka_unit_test(other_devices_are_those_of_one_rank),
      cmocka_unit_test(a_step_that_fails_ends_all),
      cmocka_unit_test(decisions_read_whole_gradients),
      cmocka_unit_test(layers_are_those_of_one_rank),
      cmocka_unit_test(updates_of_nothing_change_nothing),
      cmocka_unit_test(parts_are_not_read_as_sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
