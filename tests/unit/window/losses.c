/* Several losses: a window's loss is the sum of factor x mean, each mean over its own weight,
 * however the window is split, planned, stored and fed. Compared with loops in double (losses.h),
 * on every device. */
#include "support/losses.h"

#include "window/trainer.h"

/* Roundings of floats, sums of a hundred terms and tanh: about 1e-6 of what is compared. In 16 bits
 * activations and their gradients are off by 2^-11 or 2^-8 each, and some of a handful add up. */
static const double tolerances[] = {
    [AC_PRECISION_F32] = 1e-5, [AC_PRECISION_F16] = 5e-3, [AC_PRECISION_BF16] = 2.5e-2};

static const losses plain = {.factor = {1, 0.3}};
static const losses padded = {
    .ignore = true, .weighted = true, .flags = true, .factor = {0.5, 2, 0.7}};

static const char *name_of(const char *device, const ac_plan_desc *plan, const losses *l,
                           int piece) {
  static char name[160];
  snprintf(name, sizeof name, "%s %s, micro-batch %d, recompute %d, means %d, calls of %d%s%s",
           device, ac_precision_name(plan->precision), (int)plan->micro_batch, (int)plan->recompute,
           (int)l->means, piece, plan->whole_windows ? ", whole windows" : "",
           l->fused ? ", fused" : "");
  return name;
}

/* A whole window, one that is short and does not begin at the first sample, and a third after
 * these. */
static void train_three(const char *device, const losses *l, ac_plan_desc plan,
                        ac_loss_scaling_desc scaling, int piece) {
  const samples d = make_samples(l);
  const char *name = name_of(device, &plan, l, piece);
  double tolerance = tolerances[plan.precision];
  run r = start_losses(device, l, plan, scaling);
  train_window(name, &r, l, &d, 0, BATCH, piece, tolerance);
  train_window(name, &r, l, &d, BATCH, COUNT - BATCH, piece, tolerance);
  train_window(name, &r, l, &d, 2, BATCH - 1, piece, tolerance);
  stop(&r);
}

/* ---- in floats ------------------------------------------------------------------------------- */

static const int64_t micro_batches[] = {1, 3, BATCH};
static const ac_recompute policies[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL};

/* Where every row weighs one nothing has to be known before, so windows come in any pieces. */
static void plain_losses_are_their_sum(const char *device) {
  for (int i = 0; i < 12; i++)
    train_three(
        device, &plain,
        (ac_plan_desc){.micro_batch = micro_batches[i % 3], .recompute = policies[i / 3 % 2]},
        (ac_loss_scaling_desc){0}, i < 6 ? BATCH : 5);
  for (int i = 0; i < 2; i++)
    train_three(
        device, &plain,
        (ac_plan_desc){.micro_batch = BATCH, .recompute = policies[i], .whole_windows = true},
        (ac_loss_scaling_desc){0}, BATCH);
}
ON_EVERY_DEVICE(plain_losses_are_their_sum)

/* Micro-batches weigh unequally, and some nothing. */
static void padded_losses_have_means_of_their_own(const char *device) {
  for (int i = 0; i < 12; i++) {
    const losses l = with_means(padded, (ac_loss_means)(i / 3 % 3));
    ac_plan_desc plan = {.micro_batch = micro_batches[i % 3], .recompute = policies[i % 2]};
    if (i < 9) train_three(device, &l, plan, (ac_loss_scaling_desc){0}, i < 3 ? BATCH : 5);
    else train_three(device, &padded, plan, (ac_loss_scaling_desc){0}, BATCH);
  }
  train_three(device, &padded, (ac_plan_desc){.micro_batch = BATCH, .whole_windows = true},
              (ac_loss_scaling_desc){0}, BATCH);
}
ON_EVERY_DEVICE(padded_losses_have_means_of_their_own)

/* The sums of linear_cross_entropy come out of a backward node, those of the others do not. */
static void fused_losses_are_one_of_several(const char *device) {
  const losses fused[] = {{.fused = true, .factor = {1, 0.3}},
                          {.fused = true, .ignore = true, .flags = true, .factor = {0.5, 2, 0.7}}};
  for (int i = 0; i < 6; i++)
    train_three(device, &fused[i % 2],
                (ac_plan_desc){.micro_batch = micro_batches[i % 3], .recompute = policies[i % 2]},
                (ac_loss_scaling_desc){0}, BATCH);
}
ON_EVERY_DEVICE(fused_losses_are_one_of_several)

/* It contributes nothing, and the window counts: all is ignored, or weighs nothing. */
static void a_loss_of_no_weight_is_left_out(const char *device) {
  for (int i = 0; i < 5; i++) {
    losses l = with_means(padded, (ac_loss_means)(i % 3));
    l.fused = i == 3;
    samples d = make_samples(&l);
    for (int k = 0; k < COUNT * TOKENS && i != 4; k++) d.kinds[k] = -1;
    for (int k = 0; k < COUNT && i != 1; k++) d.shares[k] = 0;
    run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
    const ac_update update =
        train_window("a loss of no weight", &r, &l, &d, 0, BATCH, BATCH, tolerances[0]);
    const ac_loss_mean *nothing = &update.losses[i == 4 ? FLAGS : KINDS];
    /* By samples it has a mean, of zeros; by its own weight there is none. */
    assert_true(update.update == 1 &&
                (nothing->weight > 0 ? nothing->loss == 0 : isnan(nothing->loss)));
    d = make_samples(&l);
    train_window("the window after it", &r, &l, &d, 0, BATCH, BATCH, tolerances[0]);
    stop(&r);
  }
}
ON_EVERY_DEVICE(a_loss_of_no_weight_is_left_out)

/* Whichever of its inputs the graph has first. */
static void inputs_come_in_any_order(const char *device) {
  for (int i = KINDS_FIRST; i <= WEIGHTS_FIRST; i++) {
    losses l = padded;
    l.first_input = i;
    train_three(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0}, BATCH);
  }
}
ON_EVERY_DEVICE(inputs_come_in_any_order)

/* One loss that has to be counted is enough, also if it is the first. From w = 0 a step of plain
 * SGD with rate 1 goes to 2 (mean of x t) of each loss. */
static void the_first_of_them_is_weighted(const char *device) {
  const float x[3] = {1, 2, -1}, t[3] = {1, 0.5f, 2}, weights[3] = {0.25f, 0, 0.5f};
  const ac_feed feeds[] = {{"x", x}, {"t", t}, {"weights", weights}};
  const ac_plan_desc plan = {.batch = 3, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  ac_graph *g;
  run r;
  float w;
  assert_ok(ac_graph_create(&g));
  ac_tensor *targets = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *y = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)),
                           ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_tensor *of_samples = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_graph_add_loss(g, "weighted", ac_mean_squared_error(y, targets, of_samples), 1);
  ac_graph_add_loss(g, "even", ac_mean_squared_error(y, targets, NULL), 1);
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
  ac_graph_free(g);
  assert_ok(ac_trainer_accumulate(r.trainer, 3, feeds, 3));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &w));
  assert_near(device, "w", (double)w, 2 * (0.25 - 1) / 0.75 + 2 * (1 + 1 - 2) / 3.0, 1e-6);
  stop(&r);
}
ON_EVERY_DEVICE(the_first_of_them_is_weighted)

/* ---- in 16 bits ------------------------------------------------------------------------------ */

static void sixteen_bits_are_near(const char *device) {
  static const ac_loss_scaling_desc scalings[] = {{.kind = AC_LOSS_SCALING_STATIC, .scale = 1024},
                                                  {.kind = AC_LOSS_SCALING_DYNAMIC}};
  for (int i = 0; i < 8; i++) {
    const ac_plan_desc plan = {.micro_batch = 3,
                               .recompute = policies[i / 2 % 2],
                               .precision = i % 2 ? AC_PRECISION_BF16 : AC_PRECISION_F16};
    train_three(device, i < 4 ? &plain : &padded, plan, scalings[i % 4 == 1 || i % 4 == 2], BATCH);
  }
}
ON_EVERY_DEVICE(sixteen_bits_are_near)

/* Trains a window of eight samples once the scale is low enough; returns how often it was not.
 * Until then each time leaves no trace but a scale that is half. */
static int train_when_it_fits(run *r, const losses *l, const samples *d, int first, double *scale) {
  const scalars before = read_scalars(r, false);
  ac_update update;
  for (int skipped = 0; skipped < 16; skipped++, *scale /= 2) {
    assert_ok(feed_losses(r, d, first, BATCH));
    assert_ok(ac_trainer_update(r->trainer, &update));
    assert_true(update.loss_scale == *scale && update.finite_loss && !update.stuck);
    assert_true(update.skipped == !update.finite_gradient);
    const scalars after = read_scalars(r, false);
    if (update.skipped) {
      assert_memory_equal(&before, &after, sizeof before);
      continue;
    }
    const outcome o = reference(l, d, &before, first, BATCH);
    assert_update("the scale that fits", l, &o, &update, BATCH, &before, &after,
                  tolerances[AC_PRECISION_F16]);
    return skipped;
  }
  fail_msg("no scale fits");
  return -1;
}

/* Whatever loss it was that overflowed. */
static void an_overflow_halves_the_scale(const char *device) {
  for (int i = 0; i < 2; i++) {
    losses l = padded;
    l.factor[i ? FLAGS : PIXELS] *= 16;
    const samples d = make_samples(&l);
    double scale = 1 << 20;
    run r =
        start_losses(device, &l, (ac_plan_desc){.micro_batch = 3, .precision = AC_PRECISION_F16},
                     (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC, .scale = scale});
    assert_in_range(train_when_it_fits(&r, &l, &d, 0, &scale), 1, 12);
    assert_in_range(train_when_it_fits(&r, &l, &d, 3, &scale), 0, 2);
    stop(&r);
  }
}
ON_EVERY_DEVICE(an_overflow_halves_the_scale)

/* The first of them alone, where the others are bounded. */
static void one_that_is_not_finite_skips_the_window(const char *device) {
  samples d = make_samples(&padded);
  run r =
      start_losses(device, &padded, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  const scalars before = read_scalars(&r, false);
  ac_update update;
  for (int k = 0; k < WIDTH; k++) d.x[k] = 3e19f;
  assert_ok(feed_losses(&r, &d, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped && update.stuck && !update.finite_loss && update.update == 0);
  assert_true(!isfinite(update.losses[PIXELS].loss) && isfinite(update.losses[KINDS].loss));
  const scalars after = read_scalars(&r, false);
  assert_memory_equal(&before, &after, sizeof after);
  d = make_samples(&padded);
  train_window("the next window", &r, &padded, &d, 0, BATCH, BATCH, tolerances[0]);
  stop(&r);
}
ON_EVERY_DEVICE(one_that_is_not_finite_skips_the_window)

/* ---- the fit loop ---------------------------------------------------------------------------- */

typedef struct fitting {
  run r;
  losses l;
  samples d;
  scalars before;
  int windows;
} fitting;

static bool after_window(void *user, const ac_fit_event *event) {
  fitting *f = user;
  int first = f->windows++ % 2 ? BATCH : 0, count = first ? COUNT - BATCH : BATCH;
  assert_int_equal(event->samples, count);
  const outcome o = reference(&f->l, &f->d, &f->before, first, count);
  const scalars after = read_scalars(&f->r, false);
  assert_update("fit", &f->l, &o, &event->update, count, &f->before, &after, tolerances[0]);
  f->before = after;
  return true;
}

/* Windows of 8 and 3 samples, which are read ahead, or are one micro-batch, or need not be known.
 */
static void fit_knows_what_windows_weigh(const char *device) {
  static const struct {
    int64_t micro_batch;
    int read_ahead;
    bool whole_windows;
    ac_loss_means means;
  } ways[] = {{3, 2, false, AC_LOSS_MEANS_COUNTED},
              {BATCH, 0, false, AC_LOSS_MEANS_COUNTED},
              {BATCH, 1, true, AC_LOSS_MEANS_COUNTED},
              {3, 0, false, AC_LOSS_MEANS_PER_SAMPLE}};
  for (int i = 0; i < 4; i++) {
    fitting f = {.l = with_means(padded, ways[i].means)};
    f.d = make_samples(&f.l);
    f.r = start_losses(device, &f.l,
                       (ac_plan_desc){.micro_batch = ways[i].micro_batch,
                                      .read_ahead = ways[i].read_ahead,
                                      .whole_windows = ways[i].whole_windows},
                       (ac_loss_scaling_desc){0});
    f.before = read_scalars(&f.r, false);
    ac_dataset *dataset = losses_dataset(&f.d);
    const ac_fit_desc desc = {.train = dataset,
                              .epochs = 2,
                              .no_shuffle = true,
                              .loader_threads = 2,
                              .last_window = AC_LAST_UPDATE,
                              .callback = after_window,
                              .user = &f};
    ac_fit_result result;
    assert_ok(ac_fit(f.r.trainer, &desc, &result));
    assert_true(f.windows == 4 && result.samples == 2 * COUNT && result.skipped == 0);
    ac_dataset_free(dataset);
    stop(&f.r);
  }
}
ON_EVERY_DEVICE(fit_knows_what_windows_weigh)

/* ---- evaluation ------------------------------------------------------------------------------ */

static void assert_evaluation(const char *where, const losses *l, const samples *d,
                              const scalars *p, int count, const ac_evaluation *e) {
  const outcome o = reference(l, d, p, 0, count);
  assert_means(where, l, &o, e->loss, e->losses, e->loss_count, tolerances[0]);
  assert_true(e->weight == count);
  assert_true(e->accuracy == e->losses[PIXELS].accuracy);
}

static void sessions_and_trainers_evaluate(const char *device) {
  for (int i = 0; i < 5; i++) {
    losses l = with_means(i ? padded : plain, i ? (ac_loss_means)(i % 3) : AC_LOSS_MEANS_COUNTED);
    l.fused = i == 4;
    const samples d = make_samples(&l);
    run r = start_losses(device, &l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
    ac_dataset *dataset = losses_dataset(&d);
    const scalars p = read_scalars(&r, false);
    ac_graph *graph = losses_graph(&l);
    ac_plan *plan;
    ac_session *session;
    assert_ok(
        ac_plan_create(&plan, graph, r.device,
                       &(ac_plan_desc){.purpose = AC_EVALUATE, .batch = 4, .loss_means = l.means}));
    assert_ok(ac_session_create(&session, plan, 77));
    for (int k = 0; k < PARAMETERS; k++)
      if (ac_trainer_find_parameter(r.trainer, places[k].name) >= 0)
        assert_ok(ac_session_set_parameter(session, places[k].name, 0, places[k].count,
                                           p.of + places[k].first));
    for (int limit = 0; limit <= 5; limit += 5) {
      ac_evaluation e;
      assert_ok(ac_trainer_evaluate(r.trainer, dataset, limit, &e));
      assert_evaluation("a trainer's evaluation", &l, &d, &p, limit ? limit : COUNT, &e);
      assert_ok(ac_session_evaluate(session, dataset, limit, &e));
      assert_evaluation("a session's evaluation", &l, &d, &p, limit ? limit : COUNT, &e);
    }
    ac_session_free(session);
    ac_plan_free(plan);
    ac_graph_free(graph);
    ac_dataset_free(dataset);
    stop(&r);
  }
}
ON_EVERY_DEVICE(sessions_and_trainers_evaluate)

static void assert_same_update(const ac_update *a, const ac_update *b) {
  assert_true(a->loss == b->loss && a->weight == b->weight && a->grad_norm == b->grad_norm);
  assert_true(a->update == b->update && a->skipped == b->skipped);
  assert_int_equal(a->loss_count, b->loss_count);
  for (int k = 0; k < a->loss_count; k++)
    assert_true(a->losses[k].loss == b->losses[k].loss &&
                a->losses[k].weight == b->losses[k].weight &&
                a->losses[k].accuracy == b->losses[k].accuracy);
}

/* Three windows, the middle of each interrupted or not. */
static scalars train_interrupted(const char *device, const losses *l, bool interrupted,
                                 ac_update updates[3]) {
  const samples d = make_samples(l);
  run r = start_losses(device, l, (ac_plan_desc){.micro_batch = 3}, (ac_loss_scaling_desc){0});
  ac_dataset *dataset = losses_dataset(&d);
  for (int u = 0; u < 3; u++) {
    double weight[LOSSES];
    weigh(l, &d, u, BATCH, weight);
    if (l->means == AC_LOSS_MEANS_GIVEN)
      assert_ok(ac_trainer_begin_window(r.trainer, BATCH, weight, loss_count(l)));
    for (int done = 0; done < BATCH; done += 4) {
      ac_evaluation e;
      if (interrupted) assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &e));
      assert_ok(feed_losses(&r, &d, u + done, 4));
    }
    ac_evaluation e;
    if (interrupted) assert_ok(ac_trainer_evaluate(r.trainer, dataset, 5, &e));
    assert_ok(ac_trainer_update(r.trainer, &updates[u]));
  }
  const scalars after = read_scalars(&r, false);
  ac_dataset_free(dataset);
  stop(&r);
  return after;
}

static void evaluating_leaves_the_window_alone(const char *device) {
  for (int i = 0; i < 3; i++) {
    losses l = i ? with_means(padded, (ac_loss_means)i) : plain;
    ac_update with[3], without[3];
    const scalars a = train_interrupted(device, &l, true, with),
                  b = train_interrupted(device, &l, false, without);
    for (int u = 0; u < 3; u++) assert_same_update(&with[u], &without[u]);
    assert_memory_equal(&a, &b, sizeof a);
  }
}
ON_EVERY_DEVICE(evaluating_leaves_the_window_alone)

/* ---- one loss -------------------------------------------------------------------------------- */

/* Cross-entropy alone; some tokens are ignored. `factor` 0: it is set. */
static run start_one(const char *device, double factor, double clip) {
  const losses l = {.ignore = true, .weighted = true};
  run r;
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const inputs in = inputs_of(g, &l);
  ac_tensor *h = ac_tanh(ac_linear(in.x, losses_matrix(g, "encoder", HIDDEN, WIDTH),
                                   losses_matrix(g, "encoder.bias", HIDDEN, 0), AC_OUT_IN));
  ac_tensor *loss = kinds_loss(g, h, &in, &l);
  if (factor == 0) ac_graph_set_loss(g, loss);
  else ac_graph_add_loss(g, "main", loss, factor);
  const ac_plan_desc plan = {
      .batch = BATCH, .micro_batch = 3, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  const ac_trainer_desc desc = {.seed = 9, .schedule = {.lr = RATE}, .optimizer = {.clip = clip}};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, g, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(g);
  return r;
}

/* Updates and an evaluation. */
static scalars train_one(const char *device, double factor, double clip, ac_update updates[3],
                         ac_evaluation *evaluation) {
  const losses l = {.ignore = true, .weighted = true};
  const samples d = make_samples(&l);
  run r = start_one(device, factor, clip);
  ac_dataset *dataset = losses_dataset(&d);
  for (int u = 0; u < 3; u++) {
    for (int done = 0; done < BATCH - u; done += 4)
      assert_ok(feed_losses(&r, &d, u + done, done + 4 > BATCH - u ? BATCH - u - done : 4));
    assert_ok(ac_trainer_update(r.trainer, &updates[u]));
  }
  assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, evaluation));
  const scalars after = read_scalars(&r, false);
  ac_dataset_free(dataset);
  stop(&r);
  return after;
}

static void one_that_is_added_is_one_that_is_set(const char *device) {
  ac_update set[3], added[3];
  ac_evaluation e[2];
  const scalars a = train_one(device, 0, 0.05, set, &e[0]),
                b = train_one(device, 1, 0.05, added, &e[1]);
  for (int u = 0; u < 3; u++) assert_same_update(&set[u], &added[u]);
  assert_memory_equal(&a, &b, sizeof a);
  assert_true(e[0].loss == e[1].loss && e[0].weight == e[1].weight);
  assert_true(e[0].accuracy == e[1].accuracy && e[0].losses[0].loss == e[0].loss);
}
ON_EVERY_DEVICE(one_that_is_added_is_one_that_is_set)

/* A single loss also has its factor. With a power of two no bit changes. */
static void the_only_loss_has_its_factor(const char *device) {
  ac_update whole[3], half[3];
  ac_evaluation e[2];
  const scalars a = train_one(device, 1, 0, whole, &e[0]),
                b = train_one(device, 0.5, 0, half, &e[1]);
  run r = start_one(device, 1, 0);
  const scalars p = read_scalars(&r, false);
  stop(&r);
  assert_true(half[0].loss == whole[0].loss / 2 && half[0].losses[0].loss == whole[0].loss);
  assert_true(half[0].grad_norm == whole[0].grad_norm / 2 && half[0].weight == whole[0].weight);
  assert_memory_not_equal(&a, &b, sizeof a);
  assert_memory_not_equal(&p, &b, sizeof b);
  assert_true(e[1].loss == e[1].losses[0].loss / 2);
}
ON_EVERY_DEVICE(the_only_loss_has_its_factor)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_losses_are_their_sum_everywhere),
      cmocka_unit_test(padded_losses_have_means_of_their_own_everywhere),
      cmocka_unit_test(fused_losses_are_one_of_several_everywhere),
      cmocka_unit_test(inputs_come_in_any_order_everywhere),
      cmocka_unit_test(the_first_of_them_is_weighted_everywhere),
      cmocka_unit_test(a_loss_of_no_weight_is_left_out_everywhere),
      cmocka_unit_test(sixteen_bits_are_near_everywhere),
      cmocka_unit_test(an_overflow_halves_the_scale_everywhere),
      cmocka_unit_test(one_that_is_not_finite_skips_the_window_everywhere),
      cmocka_unit_test(fit_knows_what_windows_weigh_everywhere),
      cmocka_unit_test(sessions_and_trainers_evaluate_everywhere),
      cmocka_unit_test(evaluating_leaves_the_window_alone_everywhere),
      cmocka_unit_test(one_that_is_added_is_one_that_is_set_everywhere),
      cmocka_unit_test(the_only_loss_has_its_factor_everywhere),
  };
  return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
