/* Plans that keep no gradients over micro-batches fold each into what the optimizer keeps. With SGD
 * and Muon that changes rounding alone, with AdamW it is AdamA. On the CPU and on every OpenCL
 * device. */
#include "support/files.h"
#include "support/passes.h"

#include "core/error.h"
#include "support/models.h"

#include <math.h>

enum { MICRO_BATCH = 3 };

static const ac_plan_desc folded = {
    .batch = BATCH, .micro_batch = MICRO_BATCH, .gradients = AC_GRADIENTS_FOLDED};

static ac_plan_desc with(ac_plan_desc plan, ac_optimizer_kind optimizer, ac_gradients gradients) {
  plan.optimizer.kind = optimizer;
  plan.gradients = gradients;
  return plan;
}

/* ---- as with a buffer ------------------------------------------------------------------------ */

/* All that is kept first for a parameter, as all_parameters. */
static float *all_momenta(run *r, size_t total) {
  float *all = malloc(total * sizeof *all), *next = all;
  assert_non_null(all);
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int64_t count = elements(r->trainer, i);
    assert_ok(ac_trainer_get_state(r->trainer, i, 0, 0, count, next));
    next += count;
  }
  return all;
}

/* Windows of all kinds of micro-batches: of 3, 3 and 2, of 3, 3 and 1, of 3 and 3. */
static float *train_in_pieces(const char *device, ac_plan_desc plan, const ac_trainer_desc *desc,
                              float **momenta, size_t *count) {
  const corpus c = make_corpus();
  run r = start(device, &model, plan, *desc);
  const ac_plan_info *info = ac_plan_get_info(r.plan);
  assert_int_equal(info->gradients, plan.gradients);
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    assert_ok(feed(&r, &c, u % 7, BATCH - u % 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    assert_int_equal(isnan(update.grad_norm), plan.gradients == AC_GRADIENTS_FOLDED);
  }
  assert_int_equal(ac_device_peak_bytes(r.device), info->bytes.total);
  float *parameters = all_parameters(&r, count);
  *momenta = all_momenta(&r, *count);
  stop(&r);
  return parameters;
}

/* AdamW, to which Muon leaves vectors, makes whole steps of what rounding leaves of gradients that
 * are zero, as of the biases of keys; so it makes small ones here. */
static void momentum_is_what_it_was(const char *device) {
  static const struct {
    ac_plan_desc plan;
    ac_trainer_desc trainer;
  } cases[] = {
      /* A loss scale by which nothing could be divided that is not multiplied with it. */
      {{.optimizer = {.kind = AC_SGD}},
       {.schedule = {.lr = 1e-2},
        .optimizer = {.weight_decay = 0.1},
        .loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 1e-18}}},
      {{.optimizer = {.kind = AC_SGD},
        .precision = AC_PRECISION_BF16,
        .recompute = AC_RECOMPUTE_ALL},
       {.schedule = {.lr = 1e-4}, .loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 512}}},
      {{.optimizer = {.kind = AC_MUON}},
       {.schedule = {.lr = 1e-3},
        .optimizer = {.weight_decay = 0.1, .muon_no_nesterov = true, .adamw_rate = 1e-6}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_plan_desc plan = cases[i].plan;
    ac_trainer_desc desc = cases[i].trainer;
    float *parameters[2], *momenta[2];
    size_t count;
    plan.batch = BATCH;
    plan.micro_batch = MICRO_BATCH;
    desc.seed = 3;
    for (int k = 0; k < 2; k++) {
      plan.gradients = k ? AC_GRADIENTS_FOLDED : AC_GRADIENTS_BUFFER;
      parameters[k] = train_in_pieces(device, plan, &desc, &momenta[k], &count);
    }
    const double off = distance(parameters[0], parameters[1], count);
    if (!(off <= 1e-6)) fail_msg("%s, case %zu: weights are off by %g", device, i, off);
    assert_true(distance(momenta[0], momenta[1], count) <= 1e-5);
    for (int k = 0; k < 2; k++) {
      free(parameters[k]);
      free(momenta[k]);
    }
  }
}
ON_EVERY_DEVICE(momentum_is_what_it_was)

/* ---- AdamA ----------------------------------------------------------------------------------- */

static double weight_of(const corpus *c, int first, int count) {
  double sum = 0;
  for (int i = first * CONTEXT; i < (first + count) * CONTEXT; i++)
    if (c->targets[i] != -1) sum += (double)c->weights[i];
  return sum;
}

static void assert_near(const char *what, const double *expected, const float *is, int64_t count) {
  double moved = 0, all = 0;
  for (int64_t i = 0; i < count; i++) {
    moved += pow(expected[i] - (double)is[i], 2);
    all += pow(expected[i], 2);
  }
  if (!(moved <= 1e-11 * all)) fail_msg("%s is off by %g", what, sqrt(moved / all));
}

/* One window of two trainers with the same parameters: one that folds, and one that yields the
 * gradient of each micro-batch. The formulas are those of AdamW with a sum of squares. */
static void check_window(run *folds, run *plain, const corpus *c, int t, int index, int count) {
  enum { MOST = 4096 };
  const double b1 = 0.8, b2 = 0.95, rate = 1e-2, decay = 0.1, epsilon = 1e-8;
  const double weight = weight_of(c, t, count);
  static float p[MOST], m[MOST], v[MOST], g[MOST];
  static double ep[MOST], em[MOST], ev[MOST];
  const int64_t n = elements(folds->trainer, index);
  ac_tensor_info info;
  assert_true(n <= MOST);
  assert_ok(ac_trainer_parameter_info(folds->trainer, index, &info));
  assert_ok(ac_trainer_get_parameter(folds->trainer, index, 0, n, p));
  assert_ok(ac_trainer_get_state(folds->trainer, index, 0, 0, n, m));
  assert_ok(ac_trainer_get_state(folds->trainer, index, 1, 0, n, v));
  for (int64_t i = 0; i < n; i++) em[i] = b1 * (double)m[i], ev[i] = b2 * (double)v[i];
  for (int first = 0; first < count; first += MICRO_BATCH) {
    const int piece = count - first < MICRO_BATCH ? count - first : MICRO_BATCH;
    assert_ok(feed(plain, c, t + first, piece));
    assert_ok(ac_trainer_get_gradient(plain->trainer, index, 0, n, g));
    ac_trainer_discard(plain->trainer);
    for (int64_t i = 0; i < n; i++) {
      em[i] += (1 - b1) * (double)g[i] / weight;
      ev[i] += (1 - b2) * pow((double)g[i] / weight, 2);
    }
  }
  for (int64_t i = 0; i < n; i++)
    ep[i] = (double)p[i] * (1 - (info.rank > 1 ? rate * decay : 0)) -
            rate / (1 - pow(b1, t + 1)) * em[i] / (sqrt(ev[i] / (1 - pow(b2, t + 1))) + epsilon);
  assert_ok(feed(folds, c, t, count));
  assert_ok(ac_trainer_update(folds->trainer, NULL));
  assert_ok(ac_trainer_get_parameter(folds->trainer, index, 0, n, p));
  assert_ok(ac_trainer_get_state(folds->trainer, index, 0, 0, n, m));
  assert_ok(ac_trainer_get_state(folds->trainer, index, 1, 0, n, v));
  assert_near("a first moment", em, m, n);
  assert_near("a second moment", ev, v, n);
  assert_near("a weight", ep, p, n);
}

static void adamw_becomes_adama(const char *device) {
  const ac_trainer_desc desc = {.seed = 3,
                                .schedule = {.lr = 1e-2},
                                .optimizer = {.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}};
  const corpus c = make_corpus();
  test_gpt m = model;
  m.dropout = 0;
  run folds = start(device, &m, folded, desc);
  run plain = start(device, &m, with(folded, AC_ADAMW, AC_GRADIENTS_BUFFER), desc);
  for (int t = 0; t < 12; t++) {
    for (int i = 0; i < ac_trainer_parameter_count(plain.trainer); i++) {
      static float values[4096];
      const int64_t n = elements(folds.trainer, i);
      assert_ok(ac_trainer_get_parameter(folds.trainer, i, 0, n, values));
      assert_ok(ac_trainer_set_parameter(plain.trainer, i, 0, n, values));
    }
    check_window(&folds, &plain, &c, t, t % 8, BATCH - t % 3);
  }
  stop(&folds);
  stop(&plain);
}
ON_EVERY_DEVICE(adamw_becomes_adama)

/* ---- states ---------------------------------------------------------------------------------- */

/* What each window weighs is given, so that it may come in pieces. */
static ac_status feed_piece(run *r, const corpus *c, int u, int first, int count) {
  if (first == 0) {
    const double weight = weight_of(c, u, BATCH);
    AC_TRY(ac_trainer_begin_window(r->trainer, BATCH, &weight, 1));
  }
  return feed(r, c, u + first, count);
}

/* Saved between windows, and in the middle of one. */
static void states_go_on_with_the_same_bits(const char *device) {
  static const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_SGD, AC_MUON};
  const test_path path = in_folder("state");
  const corpus c = make_corpus();
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.muon_no_nesterov = true}};
  for (int k = 0; k < 3; k++) {
    ac_plan_desc plan = with(folded, kinds[k], AC_GRADIENTS_FOLDED);
    float *parameters[3];
    size_t count;
    plan.loss_means = AC_LOSS_MEANS_GIVEN;
    for (int way = 0; way < 3; way++) {
      run r = start(device, &model, plan, desc);
      for (int u = 0; u < 6; u++) {
        const int before = way == 2 && u == 3 ? MICRO_BATCH : 0;
        if (before) assert_ok(feed_piece(&r, &c, u, 0, before));
        if (way && u == 3) {
          assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
          stop(&r);
          r = start(device, &model, plan, desc);
          assert_ok(ac_trainer_load_state(r.trainer, path.text));
        }
        assert_ok(feed_piece(&r, &c, u, before, BATCH - before));
        assert_ok(ac_trainer_update(r.trainer, NULL));
      }
      parameters[way] = all_parameters(&r, &count);
      stop(&r);
      assert_memory_equal(parameters[0], parameters[way], count * sizeof(float));
    }
    plan.gradients = AC_GRADIENTS_BUFFER;
    run other = start(device, &model, plan, desc);
    assert_refused(ac_trainer_load_state(other.trainer, path.text), AC_ERROR_FORMAT,
                   "holds no tensor \"accrue/gradient/");
    stop(&other);
    for (int way = 0; way < 3; way++) free(parameters[way]);
  }
}
ON_EVERY_DEVICE(states_go_on_with_the_same_bits)

/* ---- what cannot be taken back --------------------------------------------------------------- */

static bool skips;
static double factor;
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user;
  assert_false(isfinite(decision->grad_norm));
  assert_true(isnan(ac_trainer_gradient_norm(trainer, 0)));
  decision->skip = skips;
  decision->factor *= factor;
}

static void windows_are_not_taken_back(const char *device) {
  const test_path path = in_folder("state");
  const corpus c = make_corpus();
  float value = NAN;
  size_t count;
  run r = start(device, &model, folded,
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}, .decide = decide});
  skips = false, factor = 1;
  assert_ok(feed(&r, &c, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  float *before = all_parameters(&r, &count);

  assert_ok(feed(&r, &c, 1, BATCH));
  assert_refused(ac_trainer_get_gradient(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                 "keeps no gradients (AC_GRADIENTS_FOLDED)");
  assert_refused(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                 "folded into the optimizer's state; update first");
  assert_refused(ac_trainer_set_state(r.trainer, 0, 0, 0, 1, &value), AC_ERROR_STATE,
                 "folded into the optimizer's state; update first");
  assert_refused(feed(&r, &c, 1, 1), AC_ERROR_STATE, "give windows in one call");
  skips = true;
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "can neither skip nor scale");
  skips = false, factor = 0.5;
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "can neither skip nor scale");
  factor = 1;
  assert_ok(ac_trainer_update(r.trainer, NULL));
  float *after = all_parameters(&r, &count);

  /* A window that is left, and one that is not finite. */
  for (int way = 0; way < 2; way++) {
    if (way) assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &value));
    assert_ok(feed(&r, &c, 2, BATCH));
    skips = way; /* whatever a decision says of a window that is not finite */
    if (way) assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_NOT_FINITE, "not finite");
    else ac_trainer_discard(r.trainer);
    assert_refused(feed(&r, &c, 2, BATCH), AC_ERROR_STATE, "load a state");
    assert_refused(ac_trainer_save_state(r.trainer, path.text, NULL, 0), AC_ERROR_STATE,
                   "load a state");
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    float *again = all_parameters(&r, &count);
    assert_memory_equal(again, before, count * sizeof *again);
    free(again);
    skips = false;
    assert_ok(feed(&r, &c, 1, BATCH));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    again = all_parameters(&r, &count);
    assert_memory_equal(again, after, count * sizeof *again);
    free(again);
  }

  free(before);
  free(after);
  stop(&r);
}
ON_EVERY_DEVICE(windows_are_not_taken_back)

/* ---- what weighs nothing --------------------------------------------------------------------- */

/* The second moments of all parameters; 0 for parameters without one. Muon has one for vectors. */
static float *all_second_moments(run *r, size_t total) {
  float *all = calloc(total, sizeof *all), *next = all;
  assert_non_null(all);
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int64_t count = elements(r->trainer, i);
    ac_trainer_get_state(r->trainer, i, 1, 0, count, next); /* fails where there is none */
    next += count;
  }
  return all;
}

/* A window with ignored tokens only, one with weights of zero, one with weights that are too small
 * to divide by; or the window as it is. */
static corpus lightened(const corpus *c, int kind) {
  corpus light = *c;
  for (int i = 0; i < SAMPLES * CONTEXT; i++) {
    if (kind == 1) light.targets[i] = -1;
    if (kind == 2) light.weights[i] = 0;
    if (kind == 3) light.weights[i] *= 1e-42f;
  }
  return light;
}

static void assert_same_report(const ac_update *a, const ac_update *b) {
  assert_int_equal(a->update, b->update);
  assert_int_equal(a->skipped, b->skipped);
  assert_int_equal(a->stuck, b->stuck);
  assert_int_equal(a->finite_loss, b->finite_loss);
  assert_int_equal(a->finite_gradient, b->finite_gradient);
  assert_true(a->weight == b->weight && a->loss_scale == b->loss_scale && a->lr == b->lr);
  assert_true(a->momentum == b->momentum && a->left_out == b->left_out);
  assert_true(a->losses[0].weight == b->losses[0].weight);
  if (a->weight == 0)
    assert_true(isnan(a->loss) && isnan(b->loss) && isnan(a->losses[0].loss) &&
                isnan(b->losses[0].loss));
}

/* Skipped, with the report that there is with a buffer, before the first update and later. After
 * them all is as without them. */
static void windows_that_weigh_nothing_are_skipped(const char *device) {
  static const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_SGD, AC_MUON};
  static const int windows[] = {1, 2, 0, 0, 2, 1, 0, 3, 0};
  enum { WINDOWS = sizeof windows / sizeof *windows, WAYS = 3 }; /* buffer; folded; folded, none */
  const corpus c = make_corpus();
  const ac_trainer_desc desc = {
      .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.muon_no_nesterov = true}};
  for (int k = 0; k < 3; k++) {
    ac_update updates[WAYS][WINDOWS];
    float *kept[WAYS][3];
    size_t count;
    for (int way = 0; way < WAYS; way++) {
      const ac_gradients gradients = way ? AC_GRADIENTS_FOLDED : AC_GRADIENTS_BUFFER;
      run r = start(device, &model, with(folded, kinds[k], gradients), desc);
      for (int u = 0; u < WINDOWS; u++) {
        const corpus light = lightened(&c, windows[u]);
        if (way == 2 && windows[u]) continue;
        assert_ok(feed(&r, &light, u % 7, BATCH));
        assert_ok(ac_trainer_update(r.trainer, &updates[way][u]));
        assert_int_equal(updates[way][u].skipped, windows[u] != 0);
        assert_int_equal(isnan(updates[way][u].grad_norm), way != 0 || updates[way][u].weight == 0);
      }
      assert_int_equal(updates[way][WINDOWS - 1].update, 4);
      kept[way][0] = all_parameters(&r, &count);
      kept[way][1] = all_momenta(&r, count);
      kept[way][2] = all_second_moments(&r, count);
      stop(&r);
    }
    for (int u = 0; u < WINDOWS; u++) assert_same_report(&updates[0][u], &updates[1][u]);
    for (int what = 0; what < 3; what++) {
      assert_memory_equal(kept[1][what], kept[2][what], count * sizeof(float));
      for (int way = 0; way < WAYS; way++) free(kept[way][what]);
    }
  }
}
ON_EVERY_DEVICE(windows_that_weigh_nothing_are_skipped)

/* Nothing is folded of it, so it may be saved half way, left half way, and asked to be skipped.
 * That it weighs something all the same is an error after which nothing was changed. */
static void nothing_of_them_is_folded(const char *device) {
  const test_path path = in_folder("state");
  const corpus c = make_corpus(), light = lightened(&c, 2);
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 1e-2}, .decide = decide};
  const double nothing = 0;
  ac_plan_desc plan = folded;
  ac_update update;
  size_t count;
  plan.loss_means = AC_LOSS_MEANS_GIVEN;
  skips = false, factor = 1;
  run r = start(device, &model, plan, desc);
  assert_ok(feed_piece(&r, &c, 0, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  float *before = all_parameters(&r, &count), *momenta = all_momenta(&r, count);

  assert_ok(ac_trainer_begin_window(r.trainer, BATCH, &nothing, 1));
  assert_ok(feed(&r, &light, 1, MICRO_BATCH));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  ac_trainer_discard(r.trainer);
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  assert_ok(feed(&r, &light, 1 + MICRO_BATCH, BATCH - MICRO_BATCH));
  skips = true;
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped && update.finite_loss && update.weight == 0);
  skips = false;

  assert_ok(ac_trainer_begin_window(r.trainer, BATCH, &nothing, 1));
  assert_ok(feed(&r, &c, 1, BATCH));
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT, "but 0 was given");
  ac_trainer_discard(r.trainer);
  float *after = all_parameters(&r, &count), *still = all_momenta(&r, count);
  assert_memory_equal(before, after, count * sizeof *after);
  assert_memory_equal(momenta, still, count * sizeof *still);
  assert_ok(feed_piece(&r, &c, 1, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_false(update.skipped);
  free(before), free(momenta), free(after), free(still);
  stop(&r);
}
ON_EVERY_DEVICE(nothing_of_them_is_folded)

/* y = w x against t twice, weighed by what is left of s above zero. */
static ac_graph *weighing_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *t = ac_input(g, "t", AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *s = ac_relu(ac_input(g, "s", AC_F32, AC_SHAPE(AC_BATCH)));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", AC_SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_graph_add_loss(g, "one", ac_mean_squared_error(y, t, s), 1);
  ac_graph_add_loss(g, "other", ac_mean_squared_error(y, t, s), 2);
  assert_ok(ac_graph_status(g));
  return g;
}

/* The sum of computed weights is known only after the window, when it was folded already. */
static void what_is_not_known_before_is_not_skipped(const char *device) {
  static const float x[BATCH] = {1, 1, 1, 1, 1, 1, 1, 1};
  float s[BATCH] = {1, 0, 2, 0, 0, 0, 0, 0};
  const ac_feed feeds[] = {{"x", x}, {"t", x}, {"s", s}};
  ac_plan_desc plan = with(folded, AC_SGD, AC_GRADIENTS_FOLDED);
  ac_trainer_desc desc = {.schedule = {.lr = 1e-2}};
  plan.loss_means = AC_LOSS_MEANS_PER_SAMPLE;
  ac_graph *graph = weighing_graph();
  ac_trainer *trainer;
  ac_plan *made;
  ac_device *opened = open_device(device);
  assert_ok(ac_plan_create(&made, graph, opened, &plan));
  assert_ok(ac_trainer_create(&trainer, made, &desc));
  ac_graph_free(graph);
  assert_ok(ac_trainer_accumulate(trainer, BATCH, feeds, 3));
  assert_ok(ac_trainer_update(trainer, NULL));
  s[0] = s[2] = -1;
  assert_ok(ac_trainer_accumulate(trainer, BATCH, feeds, 3));
  assert_refused(ac_trainer_update(trainer, NULL), AC_ERROR_ARGUMENT, "weigh nothing");
  assert_null(strstr(ac_last_error(), "not finite"));
  assert_refused(ac_trainer_accumulate(trainer, BATCH, feeds, 3), AC_ERROR_STATE, "load a state");
  ac_trainer_free(trainer);
  ac_plan_free(made);
  ac_device_close(opened);
}
ON_EVERY_DEVICE(what_is_not_known_before_is_not_skipped)

/* ---- the loop of ac_fit ---------------------------------------------------------------------- */

static int asked;
static bool stop_in_a_window(void *user) {
  (void)user;
  return ++asked == 5; /* before the second micro-batch of the second window */
}

static void fits_go_on(const char *device) {
  const corpus c = make_corpus();
  const ac_field fields[] = {
      {"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}, {"weights", AC_F32, CONTEXT}};
  const void *arrays[] = {c.tokens, c.targets, c.weights};
  const ac_trainer_desc desc = {.seed = 3, .schedule = {.lr = 1e-2}};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 3, fields, arrays));
  float *parameters[3];
  size_t count;
  for (int way = 0; way < 3; way++) {
    ac_plan_desc plan = with(folded, AC_SGD, way < 2 ? AC_GRADIENTS_FOLDED : AC_GRADIENTS_BUFFER);
    ac_fit_desc fit = {.train = dataset, .epochs = 3, .last_window = AC_LAST_CARRY};
    ac_fit_result result;
    run r = start(device, &model, plan, desc);
    if (way < 2)
      assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT,
                     "counted before a window begins");
    stop(&r);
    plan.read_ahead = 1;
    r = start(device, &model, plan, desc);
    asked = 0;
    if (way == 1) fit.stop = stop_in_a_window;
    assert_ok(ac_fit(r.trainer, &fit, &result));
    if (way == 1) {
      assert_true(result.stopped);
      fit.stop = NULL;
      fit.resume = true;
      assert_ok(ac_fit(r.trainer, &fit, &result));
    }
    assert_int_equal(result.updates, 9);
    parameters[way] = all_parameters(&r, &count);
    stop(&r);
  }
  assert_memory_equal(parameters[0], parameters[1], count * sizeof(float));
  assert_true(distance(parameters[2], parameters[0], count) <= 1e-6);
  for (int way = 0; way < 3; way++) free(parameters[way]);
  ac_dataset_free(dataset);
}
ON_EVERY_DEVICE(fits_go_on)

/* ---- plans ----------------------------------------------------------------------------------- */

static uint64_t cells_of(const ac_plan *plan, ac_role role) {
  uint64_t bytes = 0;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].role == role) bytes += plan->cells[i].bytes;
  return bytes;
}

/* What is left are values of a micro-batch, and with Muon the gradients of what AdamW steps. */
static void gradients_have_no_cells(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_SGD, AC_MUON};
  const test_gpt m = {4, 64, 16, 512, 2, 0, false, true};
  for (int k = 0; k < 3; k++) {
    const ac_plan_desc desc = {.batch = 4, .micro_batch = 1, .optimizer = {.kind = kinds[k]}};
    ac_plan *kept = plan_of(device, &m, with(desc, kinds[k], AC_GRADIENTS_BUFFER));
    ac_plan *folds = plan_of(device, &m, with(desc, kinds[k], AC_GRADIENTS_FOLDED));
    const ac_plan_bytes *a = &ac_plan_get_info(kept)->bytes, *b = &ac_plan_get_info(folds)->bytes;
    assert_int_equal(a->parameters, b->parameters);
    assert_int_equal(a->optimizer, b->optimizer);
    assert_int_equal(a->io, b->io);
    assert_int_equal(cells_of(kept, AC_ROLE_GRADIENT),
                     (uint64_t)ac_plan_get_info(kept)->parameter_count * sizeof(float));
    if (kinds[k] != AC_MUON) assert_int_equal(cells_of(folds, AC_ROLE_GRADIENT), 0);
    const uint64_t gone = cells_of(kept, AC_ROLE_GRADIENT) - cells_of(folds, AC_ROLE_GRADIENT);
    /* The rest is in the arena: less than the largest gradient, of the table, and some blocks. */
    assert_true(b->gradients < a->gradients - gone + gone / 2);
    assert_int_equal(a->total - a->activations - a->workspace - a->gradients,
                     b->total - b->activations - b->workspace - b->gradients);
    assert_true(b->total + gone / 2 < a->total);
    ac_plan_free(kept);
    ac_plan_free(folds);
  }
  ac_device_close(device);
}

/* A budget that nothing else meets is told of it. */
static void refusals_offer_it(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  const test_gpt m = {4, 64, 16, 512, 2, 0, false, true};
  ac_graph *graph = test_gpt_graph(&m);
  ac_plan_desc desc = {.batch = 4, .memory = 1};
  assert_true(test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_FOLDED).bytes > 0);
  desc.optimizer.kind = AC_SGD;
  assert_true(test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_FOLDED).bytes > 0);
  desc.optimizer.kind = AC_LION;
  assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_FOLDED).bytes, 0);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void what_contradicts_is_refused(void **state) {
  (void)state;
  static const struct {
    ac_plan_desc plan;
    const char *sentence;
  } plans[] = {
      {{.optimizer = {.kind = AC_LION}}, "only AdamW, SGD and Muon take folded gradients"},
      {{.optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
       "keeps nothing that gradients could be"},
      {{.optimizer = {.state = AC_STATE_8BIT}}, "optimizer state in f32"},
      {{.gradient_storage = AC_GRADIENT_BF16},
       "need weights, gradients and optimizer state in f32"},
      {{.precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16}, "need weights, gradients"},
  };
  static const struct {
    ac_plan_desc plan;
    ac_trainer_desc trainer;
    const char *sentence;
  } trainers[] = {
      {{.optimizer = {.kind = AC_SGD}}, {.optimizer = {.nesterov = true}}, "Nesterov's look-ahead"},
      {{.optimizer = {.kind = AC_MUON}}, {.optimizer = {.clip = 0}}, "Nesterov's look-ahead"},
      {{.optimizer = {.kind = AC_ADAMW}},
       {.optimizer = {.clip = 1}},
       "cannot be clipped by the norm of all"},
      {{.precision = AC_PRECISION_F16}, {.seed = 1}, "a dynamic loss scale needs windows"},
  };
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  ac_graph *graph = test_gpt_graph(&model);
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    ac_plan *plan;
    ac_plan_desc desc = plans[i].plan;
    desc.batch = BATCH;
    desc.gradients = AC_GRADIENTS_FOLDED;
    assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_ARGUMENT,
                   plans[i].sentence);
  }
  for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
    ac_plan_desc desc = trainers[i].plan;
    desc.batch = BATCH;
    desc.gradients = AC_GRADIENTS_FOLDED;
    ac_plan *plan = plan_of(device, &model, desc);
    ac_trainer *trainer;
    assert_refused(ac_trainer_create(&trainer, plan, &trainers[i].trainer), AC_ERROR_ARGUMENT,
                   trainers[i].sentence);
    ac_plan_free(plan);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

/* ---- what holds of plans --------------------------------------------------------------------- */

static int find_fold(const ac_plan *plan, int from) {
  while (ac_node_at(plan->graph, plan->main.steps[from].node)->op != AC_OP_fold) from++;
  return from;
}

static void steps_out_of_place_are_found(void **state) {
  (void)state;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  ac_plan *plan = plan_of(device, &model, folded);
  const int first = find_fold(plan, 0), second = find_fold(plan, first + 1);
  assert_ok(ac_plan_check(plan));
  move(&plan->main, first, 0);
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would add to a sum that was final");
  move(&plan->main, 0, first);
  assert_ok(ac_plan_check(plan));
  const ac_step kept = plan->main.steps[second];
  plan->main.steps[second] = plan->main.steps[first];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would fold a gradient twice");
  plan->main.steps[second] = kept;
  plan->main.steps[second].out[0] = plan->main.steps[first].out[0];
  assert_refused(ac_plan_check(plan), AC_ERROR_INTERNAL, "would be lost");
  plan->main.steps[second] = kept;
  assert_ok(ac_plan_check(plan));
  ac_plan_free(plan);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(momentum_is_what_it_was_everywhere),
      cmocka_unit_test(adamw_becomes_adama_everywhere),
      cmocka_unit_test(states_go_on_with_the_same_bits_everywhere),
      cmocka_unit_test(windows_are_not_taken_back_everywhere),
      cmocka_unit_test(windows_that_weigh_nothing_are_skipped_everywhere),
      cmocka_unit_test(nothing_of_them_is_folded_everywhere),
      cmocka_unit_test(what_is_not_known_before_is_not_skipped_everywhere),
      cmocka_unit_test(fits_go_on_everywhere),
      cmocka_unit_test(gradients_have_no_cells),
      cmocka_unit_test(refusals_offer_it),
      cmocka_unit_test(what_contradicts_is_refused),
      cmocka_unit_test(steps_out_of_place_are_found),
  };
  return cmocka_run_group_tests_name("folded", tests, make_test_folder, remove_test_folder);
}
