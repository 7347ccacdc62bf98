/* The loss scale's states: those of PyTorch's GradScaler on committed traces, the floor, and what
 * becomes of settings that make no sense. */
#include "support/check.h"

#include "ops/vector.h"
#include "observe/scaler.h"

#include <float.h>
#include <math.h>

static ac_scaler start(ac_loss_scaling_desc desc) {
  ac_scaler scaler;
  assert_ok(ac_scaler_init(&scaler, &desc, AC_PRECISION_F16));
  return scaler;
}

static const double *values(const op_vector *trace, const char *name, int64_t count) {
  const op_vector_tensor *tensor = op_vector_find(trace, name);
  assert_non_null(tensor);
  if (count) assert_int_equal(tensor->count, count);
  return tensor->data;
}

/* The traces go below 1, so the floor, which GradScaler does not have, is out of the way. */
static void states_are_those_of_pytorch(void **state) {
  (void)state;
  int count;
  op_vector *traces = op_vectors_read("loss_scaler", &count);
  assert_true(count >= 8);
  for (int i = 0; i < count; i++) {
    const op_vector *trace = &traces[i];
    ac_scaler scaler =
        start((ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC,
                                     .scale = op_vector_attribute(trace, "initial", NAN),
                                     .growth = op_vector_attribute(trace, "growth", NAN),
                                     .backoff = op_vector_attribute(trace, "backoff", NAN),
                                     .interval = (int64_t)op_vector_attribute(trace, "interval", 0),
                                     .floor = 1e-18});
    int64_t steps = op_vector_find(trace, "overflow")->count;
    const double *overflow = values(trace, "overflow", steps);
    const double *scale = values(trace, "scale", steps), *clean = values(trace, "clean", steps);
    for (int64_t s = 0; s < steps; s++) {
      ac_scaler_update(&scaler, overflow[s] != 0);
      if ((double)scaler.scale != scale[s] || (double)scaler.clean != clean[s])
        fail_msg("%s, window %d: scale %.9g and %d clean, not %.9g and %g", trace->name, (int)s,
                 (double)scaler.scale, (int)scaler.clean, scale[s], clean[s]);
    }
  }
  op_vectors_free(traces, count);
}

static void a_precision_has_its_default(void **state) {
  (void)state;
  ac_scaler scaler;
  const ac_loss_scaling_desc nothing = {0};
  assert_ok(ac_scaler_init(&scaler, &nothing, AC_PRECISION_F16));
  assert_int_equal(scaler.desc.kind, AC_LOSS_SCALING_DYNAMIC);
  assert_true(scaler.scale == 65536);
  for (int i = 0; i < 1999; i++) ac_scaler_update(&scaler, false);
  assert_true(scaler.scale == 65536);
  ac_scaler_update(&scaler, false);
  assert_true(scaler.scale == 131072);
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 65536 && scaler.clean == 0);
  static const ac_precision others[] = {AC_PRECISION_F32, AC_PRECISION_BF16};
  for (int i = 0; i < 2; i++) {
    assert_ok(ac_scaler_init(&scaler, &nothing, others[i]));
    assert_int_equal(scaler.desc.kind, AC_LOSS_SCALING_NONE);
    assert_true(scaler.scale == 1 && ac_scaler_factor(&scaler, 100) == 1);
  }
}

/* Sixteen windows lead from 65536 to 1; the seventeenth cannot be helped. */
static void the_floor_holds(void **state) {
  (void)state;
  ac_scaler scaler = start((ac_loss_scaling_desc){0});
  for (int i = 0; i < 16; i++) {
    ac_scaler_update(&scaler, true);
    assert_false(scaler.stuck);
  }
  assert_true(scaler.scale == 1);
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 1 && scaler.stuck);
  ac_scaler_update(&scaler, false);
  assert_false(scaler.stuck);
  scaler = start((ac_loss_scaling_desc){.scale = 100, .floor = 30});
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 50);
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 30 && !scaler.stuck);
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 30 && scaler.stuck);
}

/* A factor so near 1 that a float's product with it is the float itself: nothing would change. */
static void a_backoff_that_rounds_away_is_stuck(void **state) {
  (void)state;
  ac_scaler scaler = start((ac_loss_scaling_desc){.backoff = 1 - 1e-12});
  ac_scaler_update(&scaler, true);
  assert_true(scaler.scale == 65536 && scaler.stuck);
}

static void a_static_scale_stays_and_gives_up(void **state) {
  (void)state;
  ac_scaler scaler =
      start((ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = 0.25, .interval = 1});
  for (int round = 0; round < 2; round++) {
    for (int i = 1; i <= 10; i++) {
      ac_scaler_update(&scaler, true);
      assert_int_equal(scaler.stuck, i == 10);
    }
    ac_scaler_update(&scaler, false);
    assert_false(scaler.stuck);
  }
  assert_true(scaler.scale == 0.25f);
}

/* scale / 2^k, where 2^(k-1) < weight <= 2^k. */
static void a_factor_is_the_scale_by_a_power_of_two(void **state) {
  (void)state;
  ac_scaler scaler = start((ac_loss_scaling_desc){.scale = 3});
  static const double weight[] = {1, 2, 3, 4, 5, 1024, 1025}, power[] = {1, 2, 4, 4, 8, 1024, 2048};
  for (int i = 0; i < 7; i++)
    assert_true((double)ac_scaler_factor(&scaler, weight[i]) == 3 / power[i]);
}

static void senseless_settings_are_refused(void **state) {
  (void)state;
  static const struct {
    ac_loss_scaling_desc desc;
    const char *text;
  } bad[] = {
      {{.kind = (ac_loss_scaling)9}, "unknown kind of loss scaling 9"},
      {{.scale = -1}, "the loss scale -1 must be a positive number"},
      {{.scale = (double)NAN}, "the loss scale nan must be"},
      {{.scale = (double)INFINITY}, "the loss scale inf must be"},
      {{.kind = AC_LOSS_SCALING_STATIC, .scale = 1e39}, "the loss scale 1e+39 must be"},
      {{.scale = 1e-30}, "the loss scale 1e-30 must be"},
      {{.growth = 1}, "the growth 1 of the loss scale must be above 1"},
      {{.growth = -2}, "the growth -2"},
      {{.growth = (double)NAN}, "the growth nan"},
      {{.growth = (double)INFINITY}, "the growth inf"},
      {{.backoff = 1}, "the backoff 1 of the loss scale must be above 0 and below 1"},
      {{.backoff = -0.5}, "the backoff -0.5"},
      {{.backoff = (double)NAN}, "the backoff nan"},
      {{.interval = -1}, "loss scale grows is -1 updates"},
      {{.floor = -1}, "the floor of the loss scale -1 must be"},
      {{.floor = (double)NAN}, "the floor of the loss scale nan must be"},
      {{.scale = 8, .floor = 16}, "the loss scale 8 starts below its floor of 16"},
  };
  ac_scaler scaler;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(ac_scaler_init(&scaler, &bad[i].desc, AC_PRECISION_F16), AC_ERROR_ARGUMENT,
                   bad[i].text);
}

static void the_largest_float_is_a_scale(void **state) {
  (void)state;
  ac_scaler scaler =
      start((ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = (double)FLT_MAX});
  assert_true(scaler.scale == FLT_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(states_are_those_of_pytorch),
      cmocka_unit_test(a_precision_has_its_default),
      cmocka_unit_test(the_floor_holds),
      cmocka_unit_test(a_backoff_that_rounds_away_is_stuck),
      cmocka_unit_test(a_static_scale_stays_and_gives_up),
      cmocka_unit_test(a_factor_is_the_scale_by_a_power_of_two),
      cmocka_unit_test(the_largest_float_is_a_scale),
      cmocka_unit_test(senseless_settings_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
