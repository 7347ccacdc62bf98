/* Loss scaling in training, in every precision on every device: a scale is only a factor, a window
 * that overflows leaves no trace, a replayed one is as if the scale had been lower from the start,
 * and gradients too small for f16 are not lost. */
#include "support/devices.h"
#include "support/trainers.h"

#include "window/trainer.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 40, BATCH = 8, INPUTS = 7, HIDDEN = 13, CLASSES = 5 };

typedef struct samples {
  float x[SAMPLES * INPUTS], weights[SAMPLES];
  int32_t targets[SAMPLES];
} samples;

/* Classes that a perceptron can tell apart, with the same weight each. */
static samples make_samples(float weight) {
  samples s;
  uint32_t state = 11;
  for (int i = 0; i < SAMPLES; i++) {
    s.targets[i] = i * 3 % CLASSES;
    s.weights[i] = weight;
    for (int k = 0; k < INPUTS; k++) {
      state = state * 1664525u + 1013904223u;
      s.x[i * INPUTS + k] = (float)(state >> 16) / 65536 + (k == s.targets[i] ? 1 : 0);
    }
  }
  return s;
}

typedef struct place {
  const char *device;
  ac_precision precision;
  bool watched; /* what 16 bits lose is counted */
  bool normed;  /* with a batch norm */
} place;

static ac_parameter_desc constant(float value, bool frozen) {
  return (ac_parameter_desc){.init = {AC_INIT_CONSTANT, .value = value}, .frozen = frozen};
}

/* Over micro-batches; its running statistics are also parameters, but no gradient trains them. */
static ac_tensor *batch_norm(ac_graph *g, ac_tensor *x) {
  const ac_parameter_desc one = constant(1, false), zero = constant(0, true),
                          unit = constant(1, true);
  return ac_batch_norm(x, ac_parameter(g, "norm.gamma", SHAPE(HIDDEN), &one),
                       ac_parameter(g, "norm.beta", SHAPE(HIDDEN), NULL),
                       ac_parameter(g, "norm.mean", SHAPE(HIDDEN), &zero),
                       ac_parameter(g, "norm.variance", SHAPE(HIDDEN), &unit), NULL);
}

static ac_graph *perceptron(place p, float dropout) {
  ac_graph *g;
  ac_parameter_desc random = {.init = {AC_INIT_NORMAL, .deviation = 0.4f}};
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, INPUTS));
  ac_tensor *targets = ac_input(g, "targets", AC_I32, SHAPE(AC_BATCH));
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_graph_scope(g, "hidden");
  ac_tensor *w = ac_parameter(g, "hidden.w", SHAPE(HIDDEN, INPUTS), &random);
  x = ac_linear(x, w, ac_parameter(g, "hidden.b", SHAPE(HIDDEN), NULL), AC_OUT_IN);
  if (p.normed) x = batch_norm(g, x);
  x = ac_dropout(ac_gelu(x, AC_GELU_TANH), dropout);
  ac_graph_scope(g, "head");
  w = ac_parameter(g, "head.w", SHAPE(CLASSES, HIDDEN), &random);
  x = ac_linear(x, w, ac_parameter(g, "head.b", SHAPE(CLASSES), NULL), AC_OUT_IN);
  ac_graph_set_loss(g, ac_cross_entropy(x, targets, weights, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static run start(place p, int64_t micro_batch, float dropout, ac_loss_scaling_desc scaling) {
  const ac_plan_desc plan = {.batch = BATCH,
                             .micro_batch = micro_batch,
                             .precision = p.precision,
                             .debug_numerics = p.watched,
                             .batch_norm = AC_BATCH_NORM_MICRO};
  const ac_trainer_desc desc = {.seed = 5,
                                .schedule = {.lr = 0.02, .warmup = 4},
                                .optimizer = {.clip = 1, .epsilon = 1e-12},
                                .loss_scaling = scaling};
  return run_of(open_device(p.device), perceptron(p, dropout), &plan, &desc);
}

static ac_update window(run *r, const samples *s, int first) {
  ac_feed feeds[] = {{"x", s->x + first * INPUTS},
                     {"targets", s->targets + first},
                     {"weights", s->weights + first}};
  ac_update update;
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 3));
  assert_ok(ac_trainer_update(r->trainer, &update));
  return update;
}

/* All that an update changes: parameters, moments, and how many updates were made, by which
 * schedules and random numbers go. */
enum { SCALARS = HIDDEN * INPUTS + HIDDEN + CLASSES * HIDDEN + CLASSES, NORM = 4 * HIDDEN };
typedef struct snapshot {
  float values[3][SCALARS + NORM];
  int64_t updates;
} snapshot;

static snapshot take(run *r) {
  const ac_instance *instance = &r->trainer->instance;
  snapshot s = {.updates = r->trainer->run.updates};
  int64_t at = 0;
  for (int i = 0; i < instance->plan->graph->parameter_count; i++) {
    ac_tensor *parameter =
        ac_tensor_at(instance->plan->graph, instance->plan->graph->parameters[i]);
    int64_t count = ac_shape_count(&parameter->shape);
    assert_true(at + count <= SCALARS + NORM);
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, count, s.values[0] + at));
    for (int m = 0; m < 2; m++) {
      const ac_cell *cell = ac_plan_cell(instance->plan, AC_ROLE_STATE, i, m);
      if (cell)
        assert_ok(instance->device->backend->download(instance->device->state,
                                                      instance->persistent[cell->tensor], 0,
                                                      s.values[1 + m] + at, cell->bytes));
    }
    at += count;
  }
  assert_true(at == SCALARS || at == SCALARS + NORM);
  return s;
}

static void assert_same(const snapshot *a, const snapshot *b) {
  assert_memory_equal(a->values, b->values, sizeof a->values);
  assert_int_equal(a->updates, b->updates);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void in_every_place(void (*check)(place p)) {
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_F16, AC_PRECISION_BF16};
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  /* If an OpenCL implementation must be installed, the test fails without it. */
  assert_true(count >= (getenv("ACCRUE_TEST_OPENCL") ? 2 : 1));
  for (int i = 0; i < count && i < 8; i++)
    for (int k = 0; k < 3; k++) check((place){list[i].id, precisions[k], false, false});
}

#define EVERYWHERE(check)                        \
  static void check##_everywhere(void **state) { \
    (void)state;                                 \
    in_every_place(check);                       \
  }

/* ---- a scale is a factor --------------------------------------------------------------------- */

/* In floats a power of two changes no bit. */
static void a_scale_changes_no_bit(place p) {
  if (p.precision != AC_PRECISION_F32) return;
  static const ac_loss_scaling_desc scalings[] = {
      {.kind = AC_LOSS_SCALING_NONE},
      {.kind = AC_LOSS_SCALING_STATIC, .scale = 1 << 20},
      {.kind = AC_LOSS_SCALING_DYNAMIC, .interval = 2},
  };
  samples s = make_samples(1);
  snapshot results[3];
  ac_update updates[3];
  for (int i = 0; i < 3; i++) {
    run r = start(p, 3, 0.2f, scalings[i]);
    for (int u = 0; u < 10; u++) updates[i] = window(&r, &s, u % 5 * BATCH);
    results[i] = take(&r);
    assert_true(updates[i].loss == updates[0].loss);
    assert_true(updates[i].grad_norm == updates[0].grad_norm);
    assert_same(&results[i], &results[0]);
    stop(&r);
  }
  assert_true(updates[0].loss_scale == 1);
  assert_true(updates[1].loss_scale == 1 << 20);
  assert_true(updates[2].loss_scale == 65536 * 16); /* grown after 2, 4, 6 and 8 updates */
}
EVERYWHERE(a_scale_changes_no_bit)

/* The scale belongs to the window, however it is split. Sums of 8 gradients in another order are
 * off by some roundings of a float, 6e-8 each; ten updates keep that small. */
static void splitting_keeps_the_scale(place p) {
  samples s = make_samples(1);
  snapshot whole, split;
  for (int i = 0; i < 2; i++) {
    run r = start(
        p, i ? 3 : BATCH, 0.2f,
        (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1024, .interval = 3});
    for (int u = 0; u < 10; u++) {
      ac_update update = window(&r, &s, u % 5 * BATCH);
      assert_false(update.skipped);
      assert_true(update.loss_scale == ldexp(1024, u / 3));
    }
    *(i ? &split : &whole) = take(&r);
    stop(&r);
  }
  assert_true(distance(whole.values[0], split.values[0], SCALARS) <= 1e-6);
}
EVERYWHERE(splitting_keeps_the_scale)

static void gradients_are_read_unscaled(place p) {
  if (p.precision != AC_PRECISION_F32) return;
  samples s = make_samples(1);
  float gradient[2][HIDDEN * INPUTS];
  for (int i = 0; i < 2; i++) {
    run r = start(p, 3, 0, (ac_loss_scaling_desc){.kind = i ? AC_LOSS_SCALING_STATIC : 0});
    ac_feed feeds[] = {{"x", s.x}, {"targets", s.targets}, {"weights", s.weights}};
    assert_ok(ac_trainer_accumulate(r.trainer, BATCH, feeds, 3));
    assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, HIDDEN * INPUTS, gradient[i]));
    stop(&r);
  }
  assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
}
EVERYWHERE(gradients_are_read_unscaled)

/* ---- transactions ---------------------------------------------------------------------------- */

/* A run with a bad window in the middle against one without it; the static scale is the same in
 * both. A weight that makes gradients infinite, an input that makes the loss NaN. */
static void a_bad_window_leaves_no_trace(place p) {
  const ac_loss_scaling_desc scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 1024};
  samples good = make_samples(1), bad[2] = {good, good};
  bad[0].weights[11] = 3e38f;
  bad[1].x[11 * INPUTS] = INFINITY;
  run r = start(p, 3, 0.2f, scaling), twin = start(p, 3, 0.2f, scaling);
  for (int u = 0; u < 9; u++) {
    ac_update update = window(&r, &good, u % 5 * BATCH);
    ac_update same = window(&twin, &good, u % 5 * BATCH);
    assert_true(update.loss == same.loss && update.lr == same.lr && update.update == same.update);
    assert_false(update.skipped);
    if (u % 3 != 2) continue;
    snapshot before = take(&r);
    update = window(&r, &bad[u / 3 % 2], BATCH);
    assert_true(update.skipped && !update.stuck && !update.finite_gradient);
    assert_int_equal(update.update, u + 1);
    snapshot after = take(&r);
    assert_same(&before, &after);
  }
  snapshot a = take(&r), b = take(&twin);
  assert_same(&a, &b);
  stop(&r);
  stop(&twin);
}
EVERYWHERE(a_bad_window_leaves_no_trace)

/* Nor in running statistics, which are what the forward pass has pooled: a weight overflows in the
 * backward pass, after statistics that are finite. */
static void a_bad_window_leaves_no_trace_in_norms(place p) {
  p.normed = true;
  a_bad_window_leaves_no_trace(p);
}
EVERYWHERE(a_bad_window_leaves_no_trace_in_norms)

/* A window without weight is not an overflow, so it does not change the scale. */
static void an_empty_window_keeps_the_scale(place p) {
  samples s = make_samples(1), empty = make_samples(0);
  run r = start(p, 3, 0, (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC});
  ac_update update = window(&r, &empty, 0);
  assert_true(update.skipped && !update.stuck);
  update = window(&r, &s, 0);
  assert_true(!update.skipped && update.loss_scale == 65536);
  assert_int_equal(AC_WATCHED(&r.trainer->run, scaler)->clean, 1);
  stop(&r);
}
EVERYWHERE(an_empty_window_keeps_the_scale)

/* ---- the fit loop ---------------------------------------------------------------------------- */

typedef struct events {
  int count, skipped, replayed;
  int64_t step;      /* of the latest */
  double scale;      /* of the first window that was not skipped */
  double rate, loss; /* of the latest window that was not skipped */
} events;

static bool on_event(void *user, const ac_fit_event *event) {
  events *e = user;
  if (event->kind != AC_FIT_STEP) return true;
  e->count++;
  e->skipped += event->update.skipped;
  e->replayed += event->replayed;
  e->step = event->step;
  if (event->update.skipped) return true;
  if (e->scale == 0) e->scale = event->update.loss_scale;
  e->rate = event->update.lr;
  e->loss = event->update.loss;
  return true;
}

static ac_status fit(run *r, const samples *s, ac_fit_desc desc, events *e, ac_fit_result *result) {
  const ac_field fields[] = {{"x", AC_F32, INPUTS}, {"targets", AC_I32, 1}, {"weights", AC_F32, 1}};
  const void *blocks[] = {s->x, s->targets, s->weights};
  *e = (events){0};
  assert_ok(ac_dataset_from_memory(&desc.train, SAMPLES, 3, fields, blocks));
  desc.callback = on_event;
  desc.user = e;
  desc.seed = 3;
  ac_status status = ac_fit(r->trainer, &desc, result);
  ac_dataset_free(desc.train);
  return status;
}

/* Weights of 10000 lift gradients so far that at a scale of 2^127 even floats overflow. */
static const ac_loss_scaling_desc too_high = {.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 0x1p127};

/* Two passes over windows of 8, 8, 8, 8, 8. */
static void replaying_is_as_if_the_scale_had_been_lower(place p) {
  samples s = make_samples(p.normed ? 100 : 10000); /* a norm's gradients are larger */
  ac_fit_result result, usual;
  events e, plain;
  run r = start(p, 3, 0.2f, too_high);
  assert_ok(fit(&r, &s, (ac_fit_desc){.epochs = 2, .replay = true}, &e, &result));
  snapshot replayed = take(&r);
  stop(&r);
  assert_int_equal(result.steps, 10);
  assert_int_equal(result.samples, 2 * SAMPLES);
  assert_int_equal(replayed.updates, 10);
  assert_true(e.replayed > 0 && e.replayed == e.skipped && e.skipped == result.skipped);
  assert_int_equal(e.count, 10 + e.replayed);

  ac_loss_scaling_desc lower = too_high;
  lower.scale = e.scale;
  assert_true(lower.scale < too_high.scale);
  r = start(p, 3, 0.2f, lower);
  assert_ok(fit(&r, &s, (ac_fit_desc){.epochs = 2, .replay = true}, &plain, &usual));
  snapshot started_lower = take(&r);
  stop(&r);
  assert_true(plain.skipped < e.skipped);
  assert_true(plain.loss == e.loss && plain.rate == e.rate);
  assert_same(&replayed, &started_lower);
}
EVERYWHERE(replaying_is_as_if_the_scale_had_been_lower)

static void replaying_norms_is_as_if_the_scale_had_been_lower(place p) {
  p.normed = true;
  replaying_is_as_if_the_scale_had_been_lower(p);
}
EVERYWHERE(replaying_norms_is_as_if_the_scale_had_been_lower)

/* Without it a skipped window counts as a step, but not as an update of the schedule. */
static void skipped_windows_count_as_steps(place p) {
  samples s = make_samples(10000);
  ac_fit_result result;
  events e;
  run r = start(p, 3, 0.2f, too_high);
  assert_ok(fit(&r, &s, (ac_fit_desc){.steps = 200}, &e, &result));
  assert_int_equal(result.steps, 200);
  assert_int_equal(e.count, 200);
  assert_int_equal(e.step, 200);
  assert_int_equal(e.replayed, 0);
  assert_true(e.skipped > 0 && e.skipped == result.skipped && e.skipped < 200);
  assert_int_equal(r.trainer->run.updates, 200 - e.skipped);
  stop(&r);
}
EVERYWHERE(skipped_windows_count_as_steps)

/* The window that the end of the last epoch leaves incomplete is replayed like any other. */
static void the_last_window_is_replayed(place p) {
  samples s = make_samples(1);
  s.weights[SAMPLES - 1] = 3e38f;
  for (int policy = AC_LAST_UPDATE; policy <= AC_LAST_CARRY; policy++) {
    ac_fit_result result;
    events e;
    const ac_plan_desc plan = {.batch = 12, .precision = p.precision};
    const ac_loss_scaling_desc scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 8};
    run r = run_of(open_device(p.device), perceptron(p, 0), &plan,
                   &(ac_trainer_desc){.loss_scaling = scaling});
    const ac_fit_desc desc = {
        .epochs = 1, .no_shuffle = true, .replay = true, .last_window = (ac_last_window)policy};
    assert_refused(fit(&r, &s, desc, &e, &result), AC_ERROR_NOT_FINITE, "step 4: ");
    assert_int_equal(e.count, 3 + 4); /* at 8, 4, 2 and 1 */
    assert_int_equal(e.replayed, 3);
    assert_int_equal(result.skipped, 4);
    stop(&r);
  }
}
EVERYWHERE(the_last_window_is_replayed)

/* ---- what no scale helps --------------------------------------------------------------------- */

/* Biases so large that the forward pass overflows in every precision. */
static run start_divergent(place p, ac_loss_scaling_desc scaling) {
  run r = start(p, 3, 0, scaling);
  float huge[CLASSES];
  for (int i = 0; i < CLASSES; i++) huge[i] = i % 2 ? 3e38f : -3e38f;
  int index = ac_trainer_find_parameter(r.trainer, "head.b");
  assert_ok(ac_trainer_set_parameter(r.trainer, index, 0, CLASSES, huge));
  return r;
}

static void a_floor_that_does_not_help_is_divergence(place p) {
  samples s = make_samples(1);
  ac_fit_result result;
  events e;
  for (int replay = 0; replay < 2; replay++) {
    const ac_loss_scaling_desc scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 4};
    run r = start_divergent(p, scaling);
    const ac_fit_desc desc = {.epochs = 9, .replay = replay};
    assert_refused(fit(&r, &s, desc, &e, &result), AC_ERROR_NOT_FINITE,
                   replay ? "step 1: the model diverges: the loss is not finite even at the lowest "
                            "loss scale, 1; it first appears in op "
                          : "step 3: the model diverges: ");
    assert_int_equal(e.count, 3); /* at 4, 2 and 1 */
    stop(&r);
  }
}
EVERYWHERE(a_floor_that_does_not_help_is_divergence)

static void a_static_scale_gives_up_after_ten_windows(place p) {
  samples s = make_samples(1);
  ac_fit_result result;
  events e;
  run r = start_divergent(p, (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = 2});
  const ac_fit_desc desc = {.epochs = 9, .replay = true};
  assert_refused(fit(&r, &s, desc, &e, &result), AC_ERROR_NOT_FINITE,
                 "step 10: the model diverges: the loss is not finite in 10 windows in a row");
  assert_int_equal(e.replayed, 0);
  stop(&r);
}
EVERYWHERE(a_static_scale_gives_up_after_ten_windows)

static void bad_data_are_not_called_divergence(place p) {
  samples s = make_samples(1);
  s.x[0] = NAN;
  ac_fit_result result;
  events e;
  run r = start(p, 3, 0, (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC});
  assert_ok(fit(&r, &s, (ac_fit_desc){.epochs = 3}, &e, &result));
  assert_int_equal(result.skipped, 3); /* once an epoch */
  assert_int_equal(r.trainer->run.updates, 12);
  stop(&r);
  r = start(p, 3, 0, (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC});
  assert_refused(
      fit(&r, &s, (ac_fit_desc){.epochs = 1, .no_shuffle = true, .replay = true}, &e, &result),
      AC_ERROR_NOT_FINITE,
      "step 1: the loss is not finite even at the lowest loss scale, 1; it first "
      "appears in input x");
  assert_int_equal(e.replayed, 16);
  stop(&r);
}
EVERYWHERE(bad_data_are_not_called_divergence)

/* ---- what it is for -------------------------------------------------------------------------- */

typedef struct outcome {
  double first, last; /* losses */
  double flushed;     /* share of what the backward pass stored: became zero, but was not */
} outcome;

static double flushed_share(const ac_trainer *trainer) {
  int64_t values = 0, flushed = 0;
  for (int i = 0; i < ac_trainer_numerics_count(trainer); i++) {
    ac_numerics n;
    assert_ok(ac_trainer_numerics(trainer, i, &n));
    values += n.backward ? n.values : 0;
    flushed += n.backward ? n.flushed : 0;
  }
  return values ? (double)flushed / (double)values : 0;
}

static outcome train_small(place p, ac_loss_scaling_desc scaling) {
  samples s = make_samples(2e-8f);
  run r = start(p, 4, 0, scaling);
  outcome o;
  for (int u = 0; u < 100; u++) {
    ac_update update = window(&r, &s, u % 5 * BATCH);
    if (u == 0) o.first = update.loss;
    o.last = update.loss;
    assert_false(update.stuck);
  }
  o.flushed = flushed_share(r.trainer);
  stop(&r);
  return o;
}

/* Losses weigh 2e-8, and no logit's gradient is larger; half of the least half is 3e-8. So without
 * scaling all of them are flushed to zero, all that follows is zero, and nothing is learned. With
 * it f16 follows f32 as closely as halves with their 11 bits let it. */
static void small_gradients_survive_in_f16(place p) {
  if (p.precision != AC_PRECISION_F16) return;
  const place floats = {p.device, AC_PRECISION_F32, false, false};
  p.watched = true;
  outcome reference = train_small(floats, (ac_loss_scaling_desc){0});
  outcome lost = train_small(p, (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_NONE});
  outcome kept = train_small(p, (ac_loss_scaling_desc){.interval = 10});
  assert_true(reference.last < 0.5 * reference.first);
  assert_true(fabs(lost.first - reference.first) <= 2e-3 * reference.first);
  assert_true(lost.last > 0.9 * lost.first);
  /* Logits are 5 of the 31 values that the backward pass stores for a sample. */
  assert_true(lost.flushed > 0.15);
  assert_true(kept.flushed < 0.01);
  assert_true(fabs(kept.last - reference.last) <= 0.02);
}
EVERYWHERE(small_gradients_survive_in_f16)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_scale_changes_no_bit_everywhere),
      cmocka_unit_test(splitting_keeps_the_scale_everywhere),
      cmocka_unit_test(gradients_are_read_unscaled_everywhere),
      cmocka_unit_test(a_bad_window_leaves_no_trace_everywhere),
      cmocka_unit_test(a_bad_window_leaves_no_trace_in_norms_everywhere),
      cmocka_unit_test(an_empty_window_keeps_the_scale_everywhere),
      cmocka_unit_test(replaying_is_as_if_the_scale_had_been_lower_everywhere),
      cmocka_unit_test(replaying_norms_is_as_if_the_scale_had_been_lower_everywhere),
      cmocka_unit_test(skipped_windows_count_as_steps_everywhere),
      cmocka_unit_test(the_last_window_is_replayed_everywhere),
      cmocka_unit_test(a_floor_that_does_not_help_is_divergence_everywhere),
      cmocka_unit_test(a_static_scale_gives_up_after_ten_windows_everywhere),
      cmocka_unit_test(bad_data_are_not_called_divergence_everywhere),
      cmocka_unit_test(small_gradients_survive_in_f16_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
