/* The gradient noise scale: a window's estimates against what its gradients say, the average on a
 * quadratic with a known covariance, and when nothing is measured. */
#include "support/states.h"

#include "support/noisy_points.h"

enum { EFFECTIVE = 64, TOKEN_WINDOW = 8 };

/* ---- a quadratic ----------------------------------------------------------------------------- */

static ac_noise_scale measure(const char *device, const ac_plan_desc *plan, int64_t windows) {
  ac_dataset *data = noisy_points();
  ac_graph *graph = noisy_points_graph();
  run r = start_graph(device, graph, plan, &noisy_points_still);
  ac_noise_scale noise;
  const ac_fit_desc fit = {.train = data, .steps = windows};
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
  end_run(&r);
  ac_graph_free(graph);
  ac_dataset_free(data);
  return noise;
}

/* 600 windows; their average is worth about 200: within 10 %, and within three of the deviations
 * that are reported. */
static void a_quadratics_scale_is_found(const char *device) {
  static const int64_t micro_batches[] = {4, 8, 20, 32};
  const double exact = noisy_points_scale();
  for (size_t i = 0; i < sizeof micro_batches / sizeof *micro_batches; i++) {
    const ac_plan_desc plan = {
        .batch = EFFECTIVE, .micro_batch = micro_batches[i], .optimizer = {.kind = AC_SGD}};
    const ac_noise_scale noise = measure(device, &plan, 600);
    print_message("%s, micro-batch %2d: %.3f +- %.3f, exactly %.3f\n", device,
                  (int)micro_batches[i], noise.batch, noise.deviation, exact);
    assert_int_equal(noise.windows, 600);
    assert_true(fabs(noise.batch / exact - 1) < 0.1);
    assert_true(fabs(noise.batch - exact) < 3 * noise.deviation && noise.deviation < 0.1 * exact);
  }
}
ON_SHARED_DEVICES(a_quadratics_scale_is_found)

/* ---- one window ------------------------------------------------------------------------------ */

static double squares_of(const run *r, double weight) {
  double squares = 0;
  float g[WIDTH * WIDTH];
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int count = (int)elements(r->trainer, i);
    assert_ok(ac_trainer_get_gradient(r->trainer, i, 0, count, g));
    for (int k = 0; k < count; k++) squares += (double)g[k] * (double)g[k] / weight / weight;
  }
  return squares;
}

/* Rows of the loss that count, in samples [0, count). */
static double tokens_in(int count) {
  double tokens = 0;
  for (int i = 0; i < count; i++) {
    const sample s = make_sample(i, 0);
    for (int k = 0; k < TOKENS; k++) tokens += s.kinds[k] >= 0;
  }
  return tokens;
}

/* A model with one loss, which ignores tokens. */
static ac_graph *tokens_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_cross_entropy_desc desc = {.ignore = true, .ignore_index = -1};
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, TOKENS, WIDTH)),
            *kinds = ac_input(g, "kinds", AC_I32, SHAPE(AC_BATCH, TOKENS)),
            *h = ac_linear(x, matrix(g, "w", WIDTH, WIDTH), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_cross_entropy(h, kinds, NULL, &desc));
  assert_ok(ac_graph_status(g));
  return g;
}

static void a_window_says_what_its_gradients_say(void **state) {
  (void)state;
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_F16};
  for (int p = 0; p < 2; p++) {
    ac_graph *graph = tokens_graph();
    const ac_plan_desc plan = {.batch = TOKEN_WINDOW, .micro_batch = 3, .precision = precisions[p]};
    ac_trainer_desc desc = noisy_points_still;
    desc.noise_every = 2;
    run r = start_graph("cpu", graph, &plan, &desc);
    ac_update update;
    ac_noise_scale noise;
    assert_ok(feed_samples(&r, 0, 3));
    const double small = tokens_in(3), big = tokens_in(TOKEN_WINDOW);
    const double first = squares_of(&r, small);
    float x[TOKEN_WINDOW][TOKENS * WIDTH];
    int32_t kinds[TOKEN_WINDOW][TOKENS];
    for (int i = 3; i < TOKEN_WINDOW; i++) {
      const sample s = make_sample(i, 0);
      memcpy(x[i], s.x, sizeof s.x);
      memcpy(kinds[i], s.kinds, sizeof s.kinds);
    }
    assert_ok(ac_trainer_accumulate(r.trainer, TOKEN_WINDOW - 3,
                                    (ac_feed[]){{"x", x[3]}, {"kinds", kinds[3]}}, 2));
    const double all = squares_of(&r, big), b = small * TOKEN_WINDOW / big;
    assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
    assert_true(noise.windows == 0 && isnan(noise.batch) && isnan(noise.variance));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
    const double g = (TOKEN_WINDOW * all - b * first) / (TOKEN_WINDOW - b),
                 s = (first - all) / (1 / b - 1.0 / TOKEN_WINDOW);
    assert_true(fabs(noise.gradient_squares - g) < 1e-5 * all);
    assert_true(fabs(noise.variance - s) < 1e-5 * s);
    if (g > 0) assert_true(fabs(update.noise_scale - s / g) < 1e-3 * s / g);
    else assert_true(isnan(update.noise_scale));

    /* Not every window is measured, and one that is discarded is none. */
    assert_ok(feed_samples(&r, 0, TOKEN_WINDOW));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(ac_trainer_gradient_norm(r.trainer, 0) > 0);
    assert_ok(feed_samples(&r, 0, TOKEN_WINDOW - 1));
    assert_true(ac_trainer_gradient_norm(r.trainer, 0) == 0); /* neither window's */
    ac_trainer_discard(r.trainer);
    assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
    assert_int_equal(noise.windows, 1);
    assert_ok(feed_samples(&r, 0, TOKEN_WINDOW));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
    assert_int_equal(noise.windows, 2);
    end_run(&r);
    ac_graph_free(graph);
  }
}

/* ---- where nothing is measured --------------------------------------------------------------- */

static void some_plans_measure_nothing(void **state) {
  (void)state;
  const ac_plan_desc whole = {.batch = EFFECTIVE, .micro_batch = EFFECTIVE},
                     arena = {.batch = EFFECTIVE, .micro_batch = EFFECTIVE, .whole_windows = true},
                     fused = {.batch = EFFECTIVE, .gradients = AC_GRADIENTS_FUSED},
                     folded = {.batch = EFFECTIVE,
                               .micro_batch = 8,
                               .optimizer = {.kind = AC_SGD},
                               .gradients = AC_GRADIENTS_FOLDED};
  const ac_plan_desc plans[] = {whole, arena, fused, folded};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    const ac_noise_scale noise = measure("cpu", &plans[i], 3);
    assert_true(noise.windows == 0 && isnan(noise.batch) && isnan(noise.gradient_squares));
  }
}

/* Measuring changes nothing else. */
static void results_stay(const char *device) {
  snapshot s[2];
  for (int k = 0; k < 2; k++) {
    ac_dataset *data = dataset_of(COUNT);
    run r = start_model(device, &(shape_of_model){.norm = true, .two = true},
                        &(ac_plan_desc){.batch = BATCH,
                                        .micro_batch = 1,
                                        .batch_norm = AC_BATCH_NORM_MICRO,
                                        .loss_means = AC_LOSS_MEANS_PER_SAMPLE},
                        &(ac_trainer_desc){.noise_every = k});
    ac_noise_scale noise;
    assert_ok(ac_fit(r.trainer, &(ac_fit_desc){.train = data, .steps = 9}, NULL));
    assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
    assert_int_equal(noise.windows, k ? 9 : 0);
    s[k] = look_at(&r);
    end_run(&r);
    ac_dataset_free(data);
  }
  assert_same("with the noise scale", &s[1], &s[0]);
}
ON_SHARED_DEVICES(results_stay)

/* If windows take long compared with the pass over gradients, each is measured; otherwise only a
 * few. This follows from the plan alone. */
static void it_costs_little(void **state) {
  (void)state;
  ac_dataset *data = noisy_points();
  ac_graph *graph = noisy_points_graph();
  ac_trainer_desc desc = noisy_points_still;
  desc.noise_every = -1;
  const ac_plan_desc plan = {.batch = 8, .micro_batch = 4};
  run r = start_graph("cpu", graph, &plan, &desc);
  ac_noise_scale noise;
  assert_ok(ac_fit(r.trainer, &(ac_fit_desc){.train = data, .steps = 400}, NULL));
  assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
  assert_true(noise.windows >= 4 && noise.windows < 40);
  end_run(&r);
  ac_graph_free(graph);
  ac_dataset_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_quadratics_scale_is_found_everywhere),
      cmocka_unit_test(a_window_says_what_its_gradients_say),
      cmocka_unit_test(some_plans_measure_nothing),
      cmocka_unit_test(results_stay_everywhere),
      cmocka_unit_test(it_costs_little),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
