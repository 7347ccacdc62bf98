/* Windows of several losses at the edges of floats: losses that weigh next to nothing or nothing at
 * all, and looking for what is not finite. What is skipped changes nothing, and is explained. */
#include "support/losses.h"

#include "window/trainer.h"

#include <float.h>

/* Kinds have the factor 2. */
static const losses padded = {
    .ignore = true, .weighted = true, .flags = true, .factor = {0.5, 2, 0.7}};

/* Of the first eight samples one token of kinds weighs something, and so does one of those after
 * them. */
static samples weighing(const losses *l, float weight) {
  samples d = make_samples(l);
  for (int i = 0; i < COUNT * TOKENS; i++) {
    bool one = i == 2 * TOKENS || i == (BATCH + 1) * TOKENS;
    d.weights[i] = one ? weight : 0;
    if (one) d.kinds[i] = 1;
  }
  return d;
}

static ac_update skip_window(run *r, const losses *l, const samples *d) {
  const scalars before = read_scalars(r, false);
  double weight[LOSSES];
  ac_update update;
  weigh(l, d, 0, BATCH, weight);
  if (l->means == AC_LOSS_MEANS_GIVEN)
    assert_ok(ac_trainer_begin_window(r->trainer, BATCH, weight, loss_count(l)));
  assert_ok(feed_losses(r, d, 0, BATCH));
  assert_ok(ac_trainer_update(r->trainer, &update));
  const scalars after = read_scalars(r, false);
  assert_true(update.skipped && update.update == 0);
  assert_memory_equal(&before, &after, sizeof after);
  return update;
}

/* ---- next to nothing ------------------------------------------------------------------------- */

/* Eight samples by this weight and times the factor 2 are more than floats hold. */
#define TOO_LIGHT 2e-38f

/* No loss scale helps, so none is tried. */
static void a_loss_that_is_too_light_skips_the_window(const char *device) {
  for (int i = 0; i < 6; i++) {
    const losses l = with_means(padded, i % 2 ? AC_LOSS_MEANS_GIVEN : AC_LOSS_MEANS_COUNTED);
    const ac_loss_scaling kind = (ac_loss_scaling)(AC_LOSS_SCALING_NONE + i / 2);
    samples d = weighing(&l, TOO_LIGHT);
    run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3},
                         (ac_loss_scaling_desc){.kind = kind, .scale = 1024});
    for (int k = 0; k < 2; k++) {
      const ac_update update = skip_window(&r, &l, &d);
      assert_true(update.stuck && update.finite_loss && isfinite(update.loss));
      assert_near(device, "the weight", update.losses[KINDS].weight, 2e-38, 2e-44);
      assert_true(update.loss_scale == (kind == AC_LOSS_SCALING_NONE ? 1 : 1024));
    }
    d = make_samples(&l);
    const ac_update next = train_window("the next window", &r, &l, &d, 0, BATCH, BATCH, 1e-5);
    assert_true(next.update == 1 && !next.stuck);
    stop(&r);
  }
}
ON_EVERY_DEVICE(a_loss_that_is_too_light_skips_the_window)

/* By samples it is divided as any other. */
static void a_light_loss_has_a_mean_per_sample(const char *device) {
  const losses l = with_means(padded, AC_LOSS_MEANS_PER_SAMPLE);
  const samples d = weighing(&l, TOO_LIGHT);
  run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  train_window("means per sample", &r, &l, &d, 0, BATCH, BATCH, 1e-5);
  stop(&r);
}
ON_EVERY_DEVICE(a_light_loss_has_a_mean_per_sample)

/* A factor that only the scale takes beyond floats is an overflow like any other. */
static void a_lower_scale_lets_a_light_loss_train(const char *device) {
  const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
  const samples d = weighing(&l, 1e-37f);
  run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3},
                       (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1024});
  /* The factor is 2 x 8 / 1e-37 by an eighth of the scale. */
  for (double scale = 1024; scale / 8 * 1.6e38 > 3.4e38; scale /= 2) {
    const ac_update update = skip_window(&r, &l, &d);
    assert_true(update.loss_scale == scale && !update.stuck && update.finite_loss);
  }
  const ac_update update = train_window("a lower scale", &r, &l, &d, 0, BATCH, BATCH, 1e-5);
  assert_true(update.loss_scale == 16 && update.update == 1);
  stop(&r);
}
ON_EVERY_DEVICE(a_lower_scale_lets_a_light_loss_train)

/* The largest float is also a valid factor: with a weight of 1e-30 the gradient is small, and the
 * rate makes up for the rest. z = w x at w = 0: the gradient there is x (1/2 - t). */
static void the_largest_factor_trains(const char *device) {
  const float one = 1, target = 0, weight = 1e-30f;
  const ac_feed feeds[] = {{"x", &one}, {"t", &target}, {"weights", &weight}};
  const ac_plan_desc plan = {.batch = 1, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  ac_graph *g;
  run r;
  ac_update update;
  float w;
  assert_ok(ac_graph_create(&g));
  ac_tensor *z = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)),
                           ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_tensor *loss = ac_binary_cross_entropy(z, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1)),
                                            ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH)));
  ac_graph_add_loss(g, "largest", loss, (double)FLT_MAX);
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.schedule = {.lr = 2e-38}}));
  assert_ok(ac_trainer_accumulate(r.trainer, 1, feeds, 3));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &w));
  assert_true(!update.skipped);
  assert_near(device, "w", (double)w, -2e-38 * (double)FLT_MAX / 2, 1e-5);
  ac_graph_free(g);
  stop(&r);
}
ON_EVERY_DEVICE(the_largest_factor_trains)

/* ---- what the fit loop says ------------------------------------------------------------------ */

static void fit_names_the_loss_that_is_too_light(void **state) {
  (void)state;
  const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
  for (int i = 0; i < 3; i++) {
    const samples d = weighing(&l, TOO_LIGHT);
    run r = start_losses(
        "cpu", &l, (ac_plan_desc){.micro_batch = 3, .read_ahead = 1},
        (ac_loss_scaling_desc){.kind = (ac_loss_scaling)(AC_LOSS_SCALING_NONE + i), .scale = 1024});
    const scalars before = read_scalars(&r, false);
    ac_dataset *dataset = losses_dataset(&d);
    assert_refused(
        ac_fit(r.trainer, &(ac_fit_desc){.train = dataset, .epochs = 1, .no_shuffle = true}, NULL),
        AC_ERROR_NOT_FINITE,
        "step 1: the weight 2e-38 of loss kinds is too small to divide its factor 2 by");
    const scalars after = read_scalars(&r, false);
    assert_memory_equal(&before, &after, sizeof after);
    ac_dataset_free(dataset);
    stop(&r);
  }
}

/* y = w x, where the only sample of each window that weighs anything weighs 1e-30. */
static void fit_names_a_weight_that_is_too_small(void **state) {
  (void)state;
  ac_graph *g;
  run r;
  ac_dataset *dataset;
  const float x[2] = {1, 2}, t[2] = {3, 1}, weights[2] = {0, 1e-30f};
  static const ac_field fields[] = {{"x", AC_F32, 1}, {"t", AC_F32, 1}, {"weights", AC_F32, 1}};
  assert_ok(ac_graph_create(&g));
  ac_tensor *y = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)),
                           ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(y, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1)),
                                             ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH))));
  /* With a scale that low even normal weights are too small, which no device flushes. */
  const ac_trainer_desc desc = {.loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 1e-18}};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &(ac_plan_desc){.batch = 2}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  assert_ok(ac_dataset_from_memory(&dataset, 2, 3, fields, (const void *const[]){x, t, weights}));
  assert_refused(ac_fit(r.trainer, &(ac_fit_desc){.train = dataset, .epochs = 1}, NULL),
                 AC_ERROR_NOT_FINITE, "step 1: the weight 1e-30 is too small to divide by");
  float w = 1;
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &w));
  assert_true(w == 0);
  ac_dataset_free(dataset);
  ac_graph_free(g);
  stop(&r);
}

/* ---- nothing at all -------------------------------------------------------------------------- */

/* Kinds and flags alone, as both may weigh nothing; AdamW, as its step would change parameters even
 * without a gradient. */
static run start_weightless(const char *device, const losses *l, ac_loss_scaling_desc scaling) {
  run r;
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const inputs in = inputs_of(g, l);
  ac_tensor *h =
      ac_tanh(ac_linear(in.x, losses_matrix(g, "encoder", HIDDEN, WIDTH), NULL, AC_OUT_IN));
  ac_graph_add_loss(g, "kinds", kinds_loss(g, h, &in, l), 2);
  ac_graph_add_loss(g, "flags", flags_loss(g, h), 0.7);
  const ac_plan_desc plan = {
      .batch = BATCH, .micro_batch = 3, .loss_means = l->means, .read_ahead = 1};
  const ac_trainer_desc desc = {.seed = 9,
                                .optimizer = {.weight_decay = 0.5},
                                .schedule = {.lr = RATE},
                                .loss_scaling = scaling};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(g);
  return r;
}

/* Samples [first, COUNT) weigh something. */
static samples weighing_from(const losses *l, int first) {
  samples d = make_samples(l);
  for (int i = 0; i < first * TOKENS; i++) d.kinds[i] = -1;
  for (int i = 0; i < first; i++) d.shares[i] = 0;
  return d;
}

static void feed_weightless(run *r, const losses *l, const samples *d) {
  double weight[1 + LOSSES]; /* without pixels */
  weigh(l, d, 0, BATCH, weight);
  if (l->means == AC_LOSS_MEANS_GIVEN)
    assert_ok(ac_trainer_begin_window(r->trainer, BATCH, weight + KINDS, 2));
  assert_ok(feed_losses(r, d, 0, BATCH));
}

static void assert_weightless(const losses *l, const ac_update *u) {
  assert_true(u->skipped && !u->stuck && u->finite_loss && u->finite_gradient);
  const bool by_sample = l->means == AC_LOSS_MEANS_PER_SAMPLE;
  assert_true(isnan(u->loss) && isnan(u->grad_norm) && u->weight == BATCH && u->loss_count == 2);
  for (int k = 0; k < 2; k++) {
    assert_true(by_sample ? u->losses[k].loss == 0 : isnan(u->losses[k].loss));
    assert_true(isnan(u->losses[k].accuracy));
    assert_true(u->losses[k].weight == (by_sample ? BATCH : 0));
  }
}

/* It says nothing about the loss scale either, which would grow with every update. */
static void a_window_of_no_weight_changes_nothing(const char *device) {
  for (int i = 0; i < 6; i++) {
    const losses l = with_means(padded, (ac_loss_means)(i % 3));
    samples d = weighing_from(&l, BATCH);
    run r = start_weightless(
        device, &l,
        (ac_loss_scaling_desc){.kind = i < 3 ? AC_LOSS_SCALING_NONE : AC_LOSS_SCALING_DYNAMIC,
                               .scale = 64,
                               .interval = 1});
    const scalars before = read_scalars(&r, false);
    ac_update update;
    for (int k = 0; k < 2; k++) {
      feed_weightless(&r, &l, &d);
      assert_ok(ac_trainer_update(r.trainer, &update));
      assert_weightless(&l, &update);
      assert_true(update.update == 0 && update.loss_scale == (i < 3 ? 1 : 64));
    }
    const scalars after = read_scalars(&r, false);
    assert_memory_equal(&before, &after, sizeof after);
    d = make_samples(&l);
    for (int k = 0; k < 2; k++) {
      feed_weightless(&r, &l, &d);
      assert_ok(ac_trainer_update(r.trainer, &update));
      assert_true(!update.skipped && update.update == k + 1 && update.loss > 0);
      assert_true(update.loss_scale == (i < 3 ? 1 : 64 << k));
    }
    stop(&r);
  }
}
ON_EVERY_DEVICE(a_window_of_no_weight_changes_nothing)

/* The first of two windows weighs nothing. */
static void fit_goes_on_after_a_window_of_no_weight(void **state) {
  (void)state;
  const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
  const samples d = weighing_from(&l, BATCH);
  run r = start_weightless("cpu", &l, (ac_loss_scaling_desc){0});
  ac_dataset *dataset = losses_dataset(&d);
  const ac_fit_desc desc = {
      .train = dataset, .epochs = 1, .no_shuffle = true, .last_window = AC_LAST_UPDATE};
  ac_fit_result result;
  assert_ok(ac_fit(r.trainer, &desc, &result));
  assert_true(result.steps == 2 && result.updates == 1 && result.skipped == 0);
  assert_int_equal(result.samples, COUNT);
  ac_dataset_free(dataset);
  stop(&r);
}

/* A validation with data that weigh nothing does not count: neither patience nor a plateau takes it
 * for the best one. */
static void a_validation_of_no_weight_counts_for_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    const losses l = with_means(padded, i ? AC_LOSS_MEANS_PER_SAMPLE : AC_LOSS_MEANS_COUNTED);
    const samples d = make_samples(&l), none = weighing_from(&l, COUNT);
    run r = start_weightless("cpu", &l, (ac_loss_scaling_desc){0});
    ac_dataset *train = losses_dataset(&d), *validation = losses_dataset(&none);
    ac_evaluation e;
    ac_fit_result result;
    assert_ok(ac_trainer_evaluate(r.trainer, validation, 0, &e));
    assert_true(isnan(e.loss) && isnan(e.accuracy));
    for (int k = 0; k < 2; k++) assert_true(isnan(e.losses[k].accuracy));
    const ac_fit_desc desc = {.train = train,
                              .validation = validation,
                              .epochs = 4,
                              .eval_every = 1,
                              .patience = 1,
                              .last_window = AC_LAST_UPDATE};
    assert_ok(ac_fit(r.trainer, &desc, &result));
    assert_true(!result.ended_early && result.evaluated && isnan(result.final.loss));
    assert_int_equal(result.samples, 4 * COUNT);
    ac_dataset_free(train);
    ac_dataset_free(validation);
    stop(&r);
  }
}

/* ---- looking for it -------------------------------------------------------------------------- */

static void locate(run *r, const samples *d, const char *expected) {
  const ac_feed feeds[] = {{"x", d->x},
                           {"kinds", d->kinds},
                           {"weights", d->weights},
                           {"flags", d->flags},
                           {"shares", d->shares}};
  char where[128];
  assert_ok(ac_trainer_locate_nonfinite(r->trainer, 3, feeds, 5, where, sizeof where));
  assert_string_equal(where, expected);
}

/* Any loss that is not finite is found, and so is any loss with a factor that is not finite. */
static void the_loss_that_is_not_finite_is_found(const char *device) {
  static const struct {
    const char *where;
    bool finite[LOSSES];
  } cases[] = {{"op mean_squared_error", {false, true, true}},
               {"op cross_entropy", {true, false, true}},
               {"op binary_cross_entropy", {true, true, false}},
               {"op cross_entropy_gradient", {true, true, true}}};
  for (int i = 0; i < 4; i++) {
    const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
    samples d = i == 3 ? weighing(&l, TOO_LIGHT) : make_samples(&l);
    if (i == 0) d.x[0] = 3e19f;
    for (int k = 0; k < TOKENS && i == 1; k++) d.kinds[k] = 0, d.weights[k] = 3e38f;
    for (int k = 1; k < 3 && i == 2; k++) d.shares[k] = 3e38f;
    run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
    const ac_update update = skip_window(&r, &l, &d);
    for (int k = 0; k < LOSSES; k++)
      assert_true(cases[i].finite[k] == isfinite(update.losses[k].loss + update.losses[k].weight));
    locate(&r, &d, cases[i].where);
    d = make_samples(&l);
    train_window("the next window", &r, &l, &d, 0, BATCH, BATCH, 1e-5);
    stop(&r);
  }
}
ON_EVERY_DEVICE(the_loss_that_is_not_finite_is_found)

/* Two windows, each looked through in its middle or not: the sums of all losses stay. */
static scalars train_looked_through(const char *device, const losses *l, bool looked,
                                    ac_update updates[2]) {
  const samples d = make_samples(l);
  run r = start_losses(device, l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  for (int u = 0; u < 2; u++) {
    double weight[LOSSES];
    weigh(l, &d, u, BATCH, weight);
    assert_ok(ac_trainer_begin_window(r.trainer, BATCH, weight, loss_count(l)));
    for (int done = 0; done < BATCH; done += 4) {
      assert_ok(feed_losses(&r, &d, u + done, 4));
      if (looked) locate(&r, &d, "");
    }
    assert_ok(ac_trainer_update(r.trainer, &updates[u]));
  }
  const scalars after = read_scalars(&r, false);
  stop(&r);
  return after;
}

static void looking_leaves_the_window_alone(const char *device) {
  for (int fused = 0; fused < 2; fused++) {
    losses l = with_means(padded, AC_LOSS_MEANS_GIVEN);
    l.fused = fused;
    ac_update with[2], without[2];
    const scalars a = train_looked_through(device, &l, true, with),
                  b = train_looked_through(device, &l, false, without);
    assert_memory_equal(&a, &b, sizeof a);
    for (int u = 0; u < 2; u++) {
      assert_true(with[u].loss == without[u].loss && with[u].grad_norm == without[u].grad_norm);
      for (int k = 0; k < LOSSES; k++)
        assert_true(with[u].losses[k].loss == without[u].losses[k].loss &&
                    with[u].losses[k].accuracy == without[u].losses[k].accuracy);
    }
  }
}
ON_EVERY_DEVICE(looking_leaves_the_window_alone)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loss_that_is_too_light_skips_the_window_everywhere),
      cmocka_unit_test(a_light_loss_has_a_mean_per_sample_everywhere),
      cmocka_unit_test(a_lower_scale_lets_a_light_loss_train_everywhere),
      cmocka_unit_test(the_largest_factor_trains_everywhere),
      cmocka_unit_test(fit_names_the_loss_that_is_too_light),
      cmocka_unit_test(fit_names_a_weight_that_is_too_small),
      cmocka_unit_test(a_window_of_no_weight_changes_nothing_everywhere),
      cmocka_unit_test(fit_goes_on_after_a_window_of_no_weight),
      cmocka_unit_test(a_validation_of_no_weight_counts_for_nothing),
      cmocka_unit_test(the_loss_that_is_not_finite_is_found_everywhere),
      cmocka_unit_test(looking_leaves_the_window_alone_everywhere),
  };
  return cmocka_run_group_tests_name("extreme losses", tests, NULL, NULL);
}
