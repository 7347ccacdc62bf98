/* Norms by layer against what can be read around an update, and what is said of layers that are
 * dead or nearly so.
 *
 *   y = last tanh(large relu(first x + bias)) + side x + base        last is stored [in, out] */
#include "support/files.h"

#include "support/runs.h"

#include <math.h>

enum { IN = 5, UNITS = 256, WIDE = 300, OUT = 2, BATCH = 6, PARAMETERS = 6, LARGE = UNITS * WIDE };
enum { FIRST, BIAS, BIG, LAST };
static const int64_t counts[PARAMETERS] = {UNITS * IN, UNITS, LARGE, WIDE *OUT, OUT *IN, OUT};

typedef struct setting {
  ac_plan_desc plan;
  ac_trainer_desc trainer;
  int dead;   /* units of the first layer; UNITS: it is dead */
  bool small; /* the weights of the large layer */
  bool other; /* the first layer is stored [in, out] */
} setting;

static ac_device *shared;

static run begin(const setting *s) {
  ac_graph *g;
  ac_plan_desc plan = s->plan;
  ac_trainer_desc desc = s->trainer;
  plan.batch = BATCH;
  desc.seed = 5;
  desc.loss_scaling = (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = 4};
  if (desc.schedule.lr == 0) desc.schedule.lr = 0.01;
  const ac_parameter_desc init = {.init = {AC_INIT_NORMAL, .deviation = 0.2f}},
                          one = {.init = {AC_INIT_CONSTANT, .value = 1}},
                          small = {.init = {AC_INIT_NORMAL, .deviation = 1e-6f}};
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN)),
            *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, OUT)), *h;
  ac_tensor *first = ac_parameter(g, "first", SHAPE(s->other ? IN : UNITS, s->other ? UNITS : IN),
                                  &init),
            *bias = ac_parameter(g, "bias", SHAPE(UNITS), &one),
            *large = ac_parameter(g, "large", SHAPE(WIDE, UNITS), s->small ? &small : &init),
            *last = ac_parameter(g, "last", SHAPE(WIDE, OUT), &init),
            *side = ac_parameter(g, "side", SHAPE(OUT, IN), &init),
            *base = ac_parameter(g, "base", SHAPE(OUT), &init);
  h = ac_linear(ac_relu(ac_linear(x, first, bias, s->other ? AC_IN_OUT : AC_OUT_IN)), large, NULL,
                AC_OUT_IN);
  h = ac_linear(ac_tanh(h), last, NULL, AC_IN_OUT);
  x = ac_add(h, ac_linear(x, side, base, AC_OUT_IN));
  ac_graph_set_loss(g, ac_mean_squared_error(x, y, NULL));
  run r = run_of(shared, g, &plan, &desc);
  const float far = -1e3f;
  for (int i = 0; i < s->dead; i++)
    assert_ok(ac_trainer_set_parameter(r.trainer, BIAS, i, 1, &far));
  return r;
}

static ac_update step(run *r, int number) {
  float x[BATCH * IN], y[BATCH * OUT];
  uint32_t state = (uint32_t)number * 7919 + 1;
  for (int i = 0; i < BATCH * IN; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 16) / 32768 - 1;
  }
  for (int i = 0; i < BATCH * OUT; i++) y[i] = x[i * 2] - 0.5f;
  ac_update update;
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, (ac_feed[]){{"x", x}, {"y", y}}, 2));
  assert_ok(ac_trainer_update(r->trainer, &update));
  return update;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static double norm(const float *x, int64_t count, double divisor) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)x[i] / divisor * ((double)x[i] / divisor);
  return sqrt(sum);
}

/* What is looked at of a parameter, from the first element of each block on. */
static int64_t take_blocks(const float *all, int64_t count, float *sample) {
  if (count < 65536) {
    memcpy(sample, all, (size_t)count * sizeof *all);
    return count;
  }
  for (int b = 0; b < 16; b++)
    memcpy(sample + b * 4096, all + b * ((count - 4096) / 15), 4096 * sizeof *all);
  return 65536;
}

static void read_all(run *r, float *data[PARAMETERS]) {
  for (int i = 0; i < PARAMETERS; i++)
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, counts[i], data[i]));
}

static void about(double a, double b, double tolerance) {
  if (!(fabs(a - b) <= tolerance * fabs(b))) fail_msg("%.9g is not %.9g", a, b);
}

static double gradient_norms[PARAMETERS];
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  float *data = user;
  for (int i = 0; i < PARAMETERS; i++) {
    assert_ok(ac_trainer_get_gradient(trainer, i, 0, counts[i], data));
    gradient_norms[i] = norm(data, counts[i], decision->weight);
  }
}

static void check_layer(const ac_layer_report *layer, const float *before, const float *after,
                        int64_t count, float *room) {
  float *old = room, *new = room + 65536;
  const int64_t seen = take_blocks(before, count, old);
  take_blocks(after, count, new);
  for (int64_t i = 0; i < seen; i++) new[i] -= old[i];
  about(layer->weight_norm, norm(old, seen, 1) * sqrt((double)count / (double)seen), 1e-6);
  about(layer->update_ratio, norm(new, seen, 1) / norm(old, seen, 1), 1e-4);
  about(layer->weight_norm, norm(before, count, 1), 0.02); /* of all */
}

static void norms_are_those_of_the_update(const char *device) {
  static float memory[2][PARAMETERS][LARGE], room[2 * 65536], gradient[LARGE];
  float *before[PARAMETERS], *after[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) before[i] = memory[0][i], after[i] = memory[1][i];
  static const ac_plan_desc plans[] = {
      {.micro_batch = 2},
      {.micro_batch = BATCH, .whole_windows = true},
      {.micro_batch = 2, .precision = AC_PRECISION_F16},
      {.micro_batch = 2, .precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.micro_batch = BATCH, .whole_windows = true, .gradients = AC_GRADIENTS_FUSED},
      {.micro_batch = BATCH, .whole_windows = true, .gradients = AC_GRADIENTS_FUSED_LOCAL}};
  double known[PARAMETERS];
  (void)device;
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
    const bool kept = plans[k].gradients == AC_GRADIENTS_AUTO;
    setting s = {.plan = plans[k], .trainer = {.layers_every = 2}};
    if (kept) s.plan.gradients = AC_GRADIENTS_BUFFER;
    if (kept) s.trainer.decide = decide, s.trainer.user = gradient;
    run r = begin(&s);
    ac_layer_report layer;
    assert_ok(ac_trainer_layer(r.trainer, BIG, &layer));
    assert_true(layer.update == 0 && isnan(layer.weight_norm) && layer.measured == 0);
    for (int n = 0; n < 4; n++) {
      read_all(&r, before);
      const ac_update update = step(&r, n);
      assert_int_equal(update.layers, n % 2 == 0);
      if (n % 2) continue;
      read_all(&r, after);
      for (int i = 0; i < PARAMETERS; i++) {
        assert_ok(ac_trainer_layer(r.trainer, i, &layer));
        assert_true(layer.update == n + 1 && layer.measured == n / 2 + 1 && layer.zero == 0);
        check_layer(&layer, before[i], after[i], counts[i], room);
        assert_true(layer.gradient_norm == ac_trainer_gradient_norm(r.trainer, i));
        if (kept) about(layer.gradient_norm, gradient_norms[i], 1e-4);
        if (k == 1 && n == 0) known[i] = layer.gradient_norm;
        if (!kept && n == 0) about(layer.gradient_norm, known[i], 1e-5);
        if (n == 0) about(layer.gradient_size, layer.gradient_norm / sqrt((double)counts[i]), 1e-9);
      }
    }
    stop_on(&r);
  }
}

static void leave_out(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  decision->skip = true;
}

static void what_is_skipped_is_not_measured(const char *device) {
  (void)device;
  const setting s = {.trainer = {.layers_every = 1, .decide = leave_out}}, none = {.dead = 0};
  ac_layer_report layer;
  run r = begin(&s);
  assert_false(step(&r, 0).layers);
  assert_ok(ac_trainer_layer(r.trainer, BIG, &layer));
  assert_int_equal(layer.measured, 0);
  assert_refused(ac_trainer_layer(r.trainer, PARAMETERS, &layer), AC_ERROR_ARGUMENT, "6 of 6");
  stop_on(&r);
  r = begin(&none);
  assert_false(step(&r, 0).layers);
  assert_refused(ac_trainer_layer(r.trainer, BIG, &layer), AC_ERROR_STATE, "not measured");
  ac_trainer *bad;
  assert_refused(ac_trainer_create(&bad, r.plan, &(ac_trainer_desc){.layers_every = -1}),
                 AC_ERROR_ARGUMENT, "layers_every must not be negative; it is -1");
  stop_on(&r);
  const setting frozen = {.plan = {.frozen = "large"}, .trainer = {.layers_every = 1}};
  r = begin(&frozen);
  step(&r, 0);
  assert_ok(ac_trainer_layer(r.trainer, BIG, &layer));
  assert_true(layer.update == 0 && layer.measured == 0 && isnan(layer.weight_norm));
  stop_on(&r);
}

/* ---- hints ----------------------------------------------------------------------------------- */

static void assert_hints(const setting *s, const ac_layer_hint *hints, int units) {
  run r = begin(s);
  ac_layer_report layer;
  for (int n = 0; n < 4; n++) {
    for (int i = 0; i < PARAMETERS && n < 3; i++) {
      assert_ok(ac_trainer_layer(r.trainer, i, &layer));
      assert_int_equal(layer.hint, AC_LAYER_NO_HINT);
    }
    step(&r, n);
  }
  for (int i = 0; i < PARAMETERS; i++) {
    assert_ok(ac_trainer_layer(r.trainer, i, &layer));
    if (layer.hint != hints[i]) fail_msg("parameter %d: hint %d", i, (int)layer.hint);
    assert_int_equal(layer.zero, hints[i] == AC_LAYER_DEAD ? 4 : 0);
    if (i == FIRST) assert_int_equal(layer.dead_units, units);
    if (i == BIG || i == LAST) assert_int_equal(layer.units, units < 0 ? 0 : i == BIG ? WIDE : OUT);
  }
  stop_on(&r);
}

static void layers_that_learn_nothing_are_named(const char *device) {
  (void)device;
  static const ac_layer_hint N = AC_LAYER_NO_HINT, D = AC_LAYER_DEAD, V = AC_LAYER_VANISHING;
  const ac_layer_hint none[PARAMETERS] = {N}, units[PARAMETERS] = {AC_LAYER_DEAD_UNITS},
                      dead[PARAMETERS] = {D, D, D, D}, small[PARAMETERS] = {V, V, N, V};
  setting s = {.plan = {.micro_batch = 4, .gradients = AC_GRADIENTS_BUFFER},
               .trainer = {.layers_every = 1, .schedule = {.lr = 1e-8}}};
  assert_hints(&s, none, 0);
  s.small = true;
  assert_hints(&s, small, 0);
  s.small = false;
  s.dead = 7;
  assert_hints(&s, units, 7);
  s.other = true;
  assert_hints(&s, units, 7);
  s.dead = UNITS; /* so that the layers after it have no inputs */
  assert_hints(&s, dead, UNITS);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Units that are alive in one life count in the next. */
static void what_is_known_is_part_of_states(const char *device) {
  (void)device;
  const setting s = {
      .plan = {.gradients = AC_GRADIENTS_BUFFER}, .trainer = {.layers_every = 1}, .dead = 7};
  const test_path path = in_folder("state");
  ac_layer_report a, b;
  run r = begin(&s), t = begin(&s);
  for (int n = 0; n < 3; n++) step(&r, n);
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  for (int n = 0; n < 2; n++) step(&t, n + 7);
  assert_ok(ac_trainer_load_state(t.trainer, path.text));
  for (int n = 3; n < 5; n++) step(&r, n), step(&t, n);
  for (int i = 0; i < PARAMETERS; i++) {
    assert_ok(ac_trainer_layer(r.trainer, i, &a));
    assert_ok(ac_trainer_layer(t.trainer, i, &b));
    assert_memory_equal(&a, &b, offsetof(ac_layer_report, hint));
    assert_int_equal(a.hint, b.hint);
    assert_int_equal(a.measured, 5);
  }
  stop_on(&t);

  setting other = s;
  other.plan.gradients = AC_GRADIENTS_FUSED; /* without units */
  other.plan.micro_batch = BATCH;
  other.plan.whole_windows = true;
  t = begin(&other);
  assert_ok(ac_trainer_load_state(t.trainer, path.text)); /* what is known begins anew */
  assert_ok(ac_trainer_layer(t.trainer, FIRST, &b));
  assert_int_equal(b.measured, 0);
  step(&t, 5);
  const test_path without = in_folder("without");
  assert_ok(ac_trainer_save_state(t.trainer, without.text, NULL, 0));
  stop_on(&t);
  t = begin(&s);
  assert_ok(ac_trainer_load_state(t.trainer, without.text));
  assert_ok(ac_trainer_layer(t.trainer, FIRST, &b));
  assert_true(b.measured == 0 && b.zero == 0 && b.units > 0);
  stop_on(&t);
  other.trainer.layers_every = 0;
  t = begin(&other);
  assert_ok(ac_trainer_load_state(t.trainer, path.text));
  assert_ok(ac_trainer_save_state(t.trainer, path.text, NULL, 0));
  stop_on(&t);
  assert_ok(ac_trainer_load_state(r.trainer, path.text)); /* nothing is known */
  assert_ok(ac_trainer_layer(r.trainer, FIRST, &a));
  assert_true(a.measured == 0 && a.zero == 0 && a.dead_units == 0 && a.update == 0);
  stop_on(&r);
}

/* ---------------------------------------------------------------------------------------------- */

#define ON_SHARED(check)                         \
  static void check##_shared(const char *name) { \
    shared = open_device(name);                  \
    check(name);                                 \
    ac_device_close(shared);                     \
  }                                              \
  ON_EVERY_DEVICE(check##_shared)

ON_SHARED(norms_are_those_of_the_update)
ON_SHARED(what_is_skipped_is_not_measured)
ON_SHARED(layers_that_learn_nothing_are_named)
ON_SHARED(what_is_known_is_part_of_states)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_are_those_of_the_update_shared_everywhere),
      cmocka_unit_test(what_is_skipped_is_not_measured_shared_everywhere),
      cmocka_unit_test(layers_that_learn_nothing_are_named_shared_everywhere),
      cmocka_unit_test(what_is_known_is_part_of_states_shared_everywhere),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
