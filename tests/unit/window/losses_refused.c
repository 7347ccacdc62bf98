/* Refusals around several losses: their messages, and that a refusal changes nothing. Windows with
 * weights that are not known, or are not what was given, and graphs without sense. */
#include "support/losses.h"

static const losses padded = {
    .ignore = true, .weighted = true, .flags = true, .factor = {0.5, 2, 0.7}};

/* The parameters are the same, the window can only be discarded, and training goes on. */
static void assert_only_discarded(run *r, const losses *l, const samples *d,
                                  const scalars *before) {
  const scalars after = read_scalars(r, false);
  assert_memory_equal(before, &after, sizeof after);
  assert_refused(feed_losses(r, d, 0, 1), AC_ERROR_STATE, "discard it first");
  assert_refused(ac_trainer_update(r->trainer, NULL), AC_ERROR_STATE, "discard it first");
  ac_trainer_discard(r->trainer);
  assert_int_equal(train_window("after a discard", r, l, d, 0, BATCH, BATCH, 1e-5).update, 1);
}

/* ---- counted --------------------------------------------------------------------------------- */

static void counted_windows_come_in_one_call(const char *device) {
  const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
  const samples d = make_samples(&l);
  const double weights[LOSSES] = {1, 1, 1};
  run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  assert_refused(ac_trainer_begin_window(r.trainer, 1, weights, 3), AC_ERROR_STATE,
                 "the plan was not made for weights that are given");
  for (int count = 1; count <= 5; count += 4) {
    const scalars before = read_scalars(&r, false);
    char text[128];
    snprintf(text, sizeof text, "was counted for a window of %d samples; give windows in one call",
             count);
    assert_ok(feed_losses(&r, &d, 0, count));
    assert_refused(feed_losses(&r, &d, 5, 3), AC_ERROR_STATE, text);
    /* The window is as it was before that. */
    ac_update update;
    assert_ok(ac_trainer_update(r.trainer, &update));
    const scalars after = read_scalars(&r, false);
    const outcome o = reference(&l, &d, &before, 0, count);
    assert_update("a window", &l, &o, &update, count, &before, &after, 1e-5);
  }
  assert_ok(feed_losses(&r, &d, 0, 5));
  ac_trainer_discard(r.trainer);
  train_window("after a discard", &r, &l, &d, 2, 4, 4, 1e-5);
  stop(&r);
}
ON_EVERY_DEVICE(counted_windows_come_in_one_call)

/* ---- given ----------------------------------------------------------------------------------- */

static void weights_that_make_no_sense_are_refused(void **state) {
  (void)state;
  const losses l = with_means(padded, AC_LOSS_MEANS_GIVEN);
  const samples d = make_samples(&l);
  const double ok[LOSSES] = {8, 8, 8}, bad[] = {-1, (double)NAN, (double)INFINITY};
  run r = start_losses("cpu", &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  assert_refused(feed_losses(&r, &d, 0, BATCH), AC_ERROR_STATE,
                 "for this window of 8 samples first (ac_trainer_begin_window)");
  assert_refused(ac_trainer_begin_window(r.trainer, 8, ok, 2), AC_ERROR_ARGUMENT,
                 "2 weights of 8 samples, but 3 losses");
  assert_refused(ac_trainer_begin_window(r.trainer, 8, ok, 4), AC_ERROR_ARGUMENT,
                 "4 weights of 8 samples, but 3 losses");
  assert_refused(ac_trainer_begin_window(r.trainer, 0, ok, 3), AC_ERROR_ARGUMENT,
                 "3 weights of 0 samples");
  for (int k = 0; k < 3; k++) {
    double weights[LOSSES] = {8, 8, 8};
    char text[64];
    weights[KINDS] = bad[k];
    snprintf(text, sizeof text, "loss kinds cannot weigh %g", bad[k]);
    assert_refused(ac_trainer_begin_window(r.trainer, 8, weights, 3), AC_ERROR_ARGUMENT, text);
  }
  /* None of these began one. */
  assert_refused(feed_losses(&r, &d, 0, 1), AC_ERROR_STATE, "for this window of 1 samples first");
  train_window("the first window", &r, &l, &d, 0, BATCH, 5, 1e-5);
  /* What was given holds for one window. */
  assert_refused(feed_losses(&r, &d, 0, 1), AC_ERROR_STATE, "for this window of 1 samples first");
  assert_ok(ac_trainer_begin_window(r.trainer, 8, ok, 3));
  assert_ok(feed_losses(&r, &d, 0, 4));
  ac_trainer_discard(r.trainer);
  assert_refused(feed_losses(&r, &d, 0, 1), AC_ERROR_STATE, "for this window of 1 samples first");
  stop(&r);
}

static void windows_have_the_samples_that_were_given(const char *device) {
  const losses l = with_means(padded, AC_LOSS_MEANS_GIVEN);
  const samples d = make_samples(&l);
  double weight[LOSSES];
  weigh(&l, &d, 0, 6, weight);
  run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  const scalars before = read_scalars(&r, false);
  assert_ok(ac_trainer_begin_window(r.trainer, 6, weight, 3));
  assert_ok(feed_losses(&r, &d, 0, 4));
  assert_refused(ac_trainer_begin_window(r.trainer, 6, weight, 3), AC_ERROR_STATE,
                 "a window is in progress");
  assert_refused(feed_losses(&r, &d, 4, 3), AC_ERROR_STATE, "for this window of 7 samples first");
  assert_refused(
      ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT,
      "the window has 4 samples, but the weights of its losses were given for 6; nothing was "
      "changed");
  assert_only_discarded(&r, &l, &d, &before);
  stop(&r);
}
ON_EVERY_DEVICE(windows_have_the_samples_that_were_given)

static void weights_that_do_not_come_true_change_nothing(const char *device) {
  static const char *const names[LOSSES] = {"pixels", "kinds", "flags"};
  const losses l = with_means(padded, AC_LOSS_MEANS_GIVEN);
  const samples d = make_samples(&l);
  for (int k = 0; k < LOSSES; k++) {
    double weight[LOSSES];
    char text[128];
    weigh(&l, &d, 0, BATCH, weight);
    const double given = k == KINDS ? 0 : weight[k] + 0.5;
    snprintf(text, sizeof text,
             "loss %s has the weight %.9g, but %.9g was given; nothing was changed", names[k],
             weight[k], given);
    weight[k] = given;
    run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
    const scalars before = read_scalars(&r, false);
    assert_ok(ac_trainer_begin_window(r.trainer, BATCH, weight, 3));
    assert_ok(feed_losses(&r, &d, 0, BATCH));
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT, text);
    assert_only_discarded(&r, &l, &d, &before);
    stop(&r);
  }
}
ON_EVERY_DEVICE(weights_that_do_not_come_true_change_nothing)

/* ---- a device that is wrong ------------------------------------------------------------------ */

static const ac_backend *right;

/* The weight of each cross-entropy comes to half as much again. */
static ac_status run_miscounting(void *state, const ac_op_args *args) {
  const ac_status status = right->run(state, args);
  float *sums = args->out[0].data;
  if (args->op == AC_OP_cross_entropy) sums[2] *= 1.5f;
  return status;
}

/* However little it is. */
static void a_weight_that_was_not_fed_changes_nothing(void **state) {
  (void)state;
  const losses l = with_means(padded, AC_LOSS_MEANS_COUNTED);
  samples d = make_samples(&l);
  for (int i = 0; i < COUNT * TOKENS; i++) d.weights[i] = 0;
  d.weights[0] = 0x1p-27f;
  d.kinds[0] = 0;
  run r = start_losses("cpu", &l, (ac_plan_desc){.micro_batch = BATCH}, (ac_loss_scaling_desc){0});
  const scalars before = read_scalars(&r, false);
  ac_backend wrong = *r.device->backend;
  wrong.run = run_miscounting;
  right = r.device->backend;
  r.device->backend = &wrong;
  assert_ok(feed_losses(&r, &d, 0, BATCH));
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_INTERNAL,
                 "the device counted losses of kinds of weight 1.11758709e-08, but samples of "
                 "weight 7.4505806e-09 were fed; nothing was changed");
  r.device->backend = right;
  assert_only_discarded(&r, &l, &d, &before);
  stop(&r);
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum { ROWS = 5 };

/* y = w x, against t twice; the second time a sample weighs the sigmoid of s. */
static ac_graph *weighing_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *s = ac_sigmoid(ac_input(g, "s", AC_F32, SHAPE(AC_BATCH)));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_graph_add_loss(g, "even", ac_mean_squared_error(y, t, NULL), 1);
  ac_graph_add_loss(g, "weighed", ac_mean_squared_error(y, t, s), 2);
  assert_ok(ac_graph_status(g));
  return g;
}

/* From w = 0 a step of plain SGD with rate 1 goes to -d/dw = 2 (mean of x t) of each loss. */
static void train_weighing(run *r, ac_loss_means means) {
  const float x[ROWS] = {1, 2, -1, 0.5f, 1}, t[ROWS] = {1, 0.5f, 2, -1, 0.25f},
              s[ROWS] = {0, 1, -2, 3, 0.5f};
  const ac_feed feeds[] = {{"x", x}, {"t", t}, {"s", s}};
  double even = 0, weighed = 0, weight = 0;
  for (int i = 0; i < ROWS; i++) {
    double w = 1 / (1 + exp(-(double)s[i])), xt = (double)x[i] * (double)t[i];
    even += xt / ROWS;
    weighed += w * xt;
    weight += w;
  }
  ac_update update;
  float w;
  if (means == AC_LOSS_MEANS_GIVEN)
    assert_ok(ac_trainer_begin_window(r->trainer, ROWS, (double[]){ROWS, weight}, 2));
  assert_ok(ac_trainer_accumulate(r->trainer, ROWS, feeds, 3));
  assert_ok(ac_trainer_update(r->trainer, &update));
  assert_ok(ac_trainer_get_parameter(r->trainer, 0, 0, 1, &w));
  weighed /= means == AC_LOSS_MEANS_GIVEN ? weight : ROWS;
  assert_near("computed weights", "w", (double)w, 2 * even + 4 * weighed, 1e-5);
  assert_near("computed weights", "their sum", update.losses[1].weight,
              means == AC_LOSS_MEANS_GIVEN ? weight : ROWS, 1e-5);
}

static void computed_weights_have_to_be_given(const char *device) {
  ac_graph *g = weighing_graph();
  run r;
  ac_plan_desc desc = {
      .batch = ROWS, .micro_batch = 2, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_refused(ac_plan_create(&r.plan, g, r.device, &desc), AC_ERROR_UNSUPPORTED,
                 "the weight of loss weighed does not follow from inputs alone");
  assert_null(r.plan);
  desc.loss_means = AC_LOSS_MEANS_PER_SAMPLE + 1;
  assert_refused(ac_plan_create(&r.plan, g, r.device, &desc), AC_ERROR_ARGUMENT,
                 "unknown means of losses 3");
  for (int k = AC_LOSS_MEANS_GIVEN; k <= AC_LOSS_MEANS_PER_SAMPLE; k++) {
    desc.loss_means = (ac_loss_means)k;
    assert_ok(ac_plan_create(&r.plan, g, r.device, &desc));
    assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
    train_weighing(&r, desc.loss_means);
    ac_trainer_free(r.trainer);
    ac_plan_free(r.plan);
  }
  ac_device_close(r.device);
  ac_graph_free(g);
}
ON_EVERY_DEVICE(computed_weights_have_to_be_given)

/* An index that one loss ignores is not a class for another loss with the same targets. */
static void targets_are_checked_for_every_loss(void **state) {
  (void)state;
  static const ac_cross_entropy_desc minus_one = {.ignore = true, .ignore_index = -1},
                                     minus_two = {.ignore = true, .ignore_index = -2};
  const struct {
    const ac_cross_entropy_desc *first, *second;
    bool allowed[2]; /* -1 and -2 */
  } cases[] = {{&minus_one, &minus_one, {true, false}},
               {&minus_one, NULL, {false, false}},
               {NULL, &minus_one, {false, false}},
               {&minus_one, &minus_two, {false, false}}};
  for (int k = 0; k < 4; k++) {
    ac_graph *g;
    run r;
    assert_ok(ac_graph_create(&g));
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDTH));
    ac_tensor *kinds = ac_input(g, "kinds", AC_I32, SHAPE(AC_BATCH));
    ac_tensor *a = ac_linear(x, losses_matrix(g, "a", CLASSES, WIDTH), NULL, AC_OUT_IN);
    ac_tensor *b = ac_linear(x, losses_matrix(g, "b", CLASSES, WIDTH), NULL, AC_OUT_IN);
    ac_graph_add_loss(g, "a", ac_cross_entropy(a, kinds, NULL, cases[k].first), 1);
    ac_graph_add_loss(g, "b", ac_cross_entropy(b, kinds, NULL, cases[k].second), 1);
    ac_cross_entropy(b, kinds, NULL, NULL); /* no loss of the graph */
    assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu", .threads = 2}));
    assert_ok(ac_plan_create(&r.plan, g, r.device, &(ac_plan_desc){.batch = 2}));
    assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
    ac_graph_free(g);
    for (int i = 0; i < 2; i++) {
      const float pixels_of[2 * WIDTH] = {1, 2, 3};
      const int32_t targets[2] = {3, -1 - i};
      const ac_feed feeds[] = {{"x", pixels_of}, {"kinds", targets}};
      if (cases[k].allowed[i]) assert_ok(ac_trainer_accumulate(r.trainer, 2, feeds, 2));
      else
        assert_refused(ac_trainer_accumulate(r.trainer, 2, feeds, 2), AC_ERROR_ARGUMENT,
                       "at position 1, outside [0, 4)");
      ac_trainer_discard(r.trainer);
    }
    stop(&r);
  }
}

/* ---- the fit loop ---------------------------------------------------------------------------- */

static void fit_has_to_know_windows(void **state) {
  (void)state;
  static const struct {
    ac_loss_means means;
    int64_t micro_batch;
    int read_ahead;
    const char *text;
  } ways[] = {
      {AC_LOSS_MEANS_COUNTED, 3, 0, "plan with batches read ahead (read_ahead), or for means per"},
      {AC_LOSS_MEANS_GIVEN, BATCH, 0, "weights of losses that are given window by window"},
      {AC_LOSS_MEANS_GIVEN, 3, 2, "weights of losses that are given window by window"}};
  for (int i = 0; i < 3; i++) {
    const losses l = with_means(padded, ways[i].means);
    const samples d = make_samples(&l);
    run r = start_losses(
        "cpu", &l,
        (ac_plan_desc){.micro_batch = ways[i].micro_batch, .read_ahead = ways[i].read_ahead},
        (ac_loss_scaling_desc){0});
    const scalars before = read_scalars(&r, false);
    ac_dataset *dataset = losses_dataset(&d);
    assert_refused(ac_fit(r.trainer, &(ac_fit_desc){.train = dataset, .epochs = 1}, NULL),
                   AC_ERROR_ARGUMENT, ways[i].text);
    const scalars after = read_scalars(&r, false);
    assert_memory_equal(&before, &after, sizeof after);
    ac_dataset_free(dataset);
    stop(&r);
  }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The sentences about names and factors are in graph.c. */
static void graphs_have_each_loss_once_and_eight_at_most(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2)), *loss = NULL;
    for (int i = 0; i < (k ? AC_MAX_LOSSES : 1); i++) {
      char name[16];
      snprintf(name, sizeof name, "l%d", i);
      loss = ac_mean_squared_error(x, x, NULL);
      ac_graph_add_loss(g, name, loss, 1);
    }
    assert_ok(ac_graph_status(g));
    ac_graph_add_loss(g, "more", k ? ac_mean_squared_error(x, x, NULL) : loss, 1);
    assert_int_equal(ac_graph_status(g), AC_ERROR_ARGUMENT);
    assert_contains(ac_graph_message(g),
                    k ? "\"more\": the graph has as many losses as there can be"
                      : "\"more\": the graph has this loss already");
    ac_graph_free(g);
  }
}

/* All of them at once: eight times the same loss is one of eight times the factor. */
static void eight_losses_train(const char *device) {
  ac_graph *g;
  run r;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  for (int i = 0; i < AC_MAX_LOSSES; i++) {
    char name[16];
    snprintf(name, sizeof name, "l%d", i);
    ac_graph_add_loss(g, name, ac_mean_squared_error(y, t, NULL), i + 1);
  }
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(
      ac_plan_create(&r.plan, g, r.device,
                     &(ac_plan_desc){.batch = 2, .micro_batch = 1, .optimizer = {.kind = AC_SGD}}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.schedule = {.lr = 0.5}}));
  ac_graph_free(g);
  const float data[2] = {1, 1}, targets[2] = {1, 2};
  const ac_feed feeds[] = {{"x", data}, {"t", targets}};
  ac_update update;
  float w;
  assert_ok(ac_trainer_accumulate(r.trainer, 2, feeds, 2));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &w));
  assert_int_equal(update.loss_count, AC_MAX_LOSSES);
  assert_near(device, "w", (double)w, 36 * 1.5, 1e-4);
  assert_near(device, "the loss", update.loss, 36 * 2.5, 1e-4);
  for (int i = 0; i < AC_MAX_LOSSES; i++) assert_true(update.losses[i].loss == 2.5);
  stop(&r);
}
ON_EVERY_DEVICE(eight_losses_train)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counted_windows_come_in_one_call_everywhere),
      cmocka_unit_test(weights_that_make_no_sense_are_refused),
      cmocka_unit_test(windows_have_the_samples_that_were_given_everywhere),
      cmocka_unit_test(weights_that_do_not_come_true_change_nothing_everywhere),
      cmocka_unit_test(a_weight_that_was_not_fed_changes_nothing),
      cmocka_unit_test(computed_weights_have_to_be_given_everywhere),
      cmocka_unit_test(targets_are_checked_for_every_loss),
      cmocka_unit_test(fit_has_to_know_windows),
      cmocka_unit_test(graphs_have_each_loss_once_and_eight_at_most),
      cmocka_unit_test(eight_losses_train_everywhere),
  };
  return cmocka_run_group_tests_name("refused losses", tests, NULL, NULL);
}
