/* Batch norm in training: plans do not split its batch unless told to, its running statistics are
 * those of whole windows, and evaluation uses them. On the CPU and on every OpenCL device. */
#include "support/devices.h"
#include "support/models.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 23, CHANNELS = 3, POSITIONS = 4, ROW = CHANNELS * POSITIONS };

static ac_tensor *vector_of(ac_graph *g, const char *name, float value, bool frozen) {
  ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}, .frozen = frozen};
  return ac_parameter(g, name, SHAPE(CHANNELS), &desc);
}

static ac_tensor *norm(ac_graph *g, ac_tensor *x, const char *scope, bool affine) {
  char name[4][64];
  static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
  for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "%s.%s", scope, parts[i]);
  ac_graph_scope(g, scope);
  ac_tensor *gamma = affine ? vector_of(g, name[0], 1, false) : NULL;
  ac_tensor *beta = affine ? vector_of(g, name[1], 0, false) : NULL;
  ac_tensor *y =
      ac_batch_norm(x, gamma, beta, vector_of(g, name[2], 0, true), vector_of(g, name[3], 1, true),
                    &(ac_batch_norm_desc){.momentum = 0.25f});
  ac_graph_scope(g, NULL);
  return y;
}

/* The first norm sees the input and has no gradient, the second is in the middle, and a third feeds
 * an output that the loss does not depend on. */
static ac_graph *model(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, POSITIONS));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, CHANNELS, POSITIONS));
  ac_tensor *y = norm(g, x, "first", false);
  y = ac_linear(y, test_matrix(g, "a", "w", POSITIONS, POSITIONS), NULL, AC_OUT_IN);
  ac_graph_set_output(g, "aside", norm(g, y, "aside", true));
  y = ac_silu(norm(g, ac_silu(y), "second", true));
  y = ac_linear(y, test_matrix(g, "b", "w", POSITIONS, POSITIONS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(y, t, NULL));
  return g;
}

typedef struct samples {
  float x[SAMPLES * ROW], t[SAMPLES * ROW];
} samples;

static samples make_samples(void) {
  samples s;
  uint32_t state = 7;
  for (int i = 0; i < SAMPLES * ROW; i++) {
    state = state * 1664525u + 1013904223u;
    s.x[i] = (float)(state >> 8) * 0x1p-23f + (float)(i / POSITIONS % CHANNELS) +
             (float)(i / ROW) / SAMPLES;
    s.t[i] = (float)(state & 0xff) * 0x1p-8f - s.x[i] / 4;
  }
  return s;
}

static run start(const char *name, ac_plan_desc desc) {
  desc.batch = SAMPLES;
  desc.batch_norm = AC_BATCH_NORM_MICRO;
  return run_of(open_device(name), model(), &desc,
                &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
}

static ac_update train(run *r, const samples *s, int count) {
  ac_update update;
  const ac_feed feeds[] = {{"x", s->x}, {"t", s->t}};
  assert_ok(ac_trainer_accumulate(r->trainer, count, feeds, 2));
  assert_ok(ac_trainer_update(r->trainer, &update));
  return update;
}

static void read(run *r, const char *name, float values[CHANNELS]) {
  int index = ac_trainer_find_parameter(r->trainer, name);
  assert_true(index >= 0);
  assert_ok(ac_trainer_get_parameter(r->trainer, index, 0, CHANNELS, values));
}

static void write(run *r, const char *name, const float values[CHANNELS]) {
  int index = ac_trainer_find_parameter(r->trainer, name);
  assert_true(index >= 0);
  assert_ok(ac_trainer_set_parameter(r->trainer, index, 0, CHANNELS, values));
}

/* ---- running statistics ---------------------------------------------------------------------- */

/* Of the first `count` samples, in double. */
static void whole_window(const samples *s, int count, int c, double *mean, double *variance) {
  double n = (double)count * POSITIONS;
  *mean = *variance = 0;
  for (int i = 0; i < count * POSITIONS; i++)
    *mean += (double)s->x[i / POSITIONS * ROW + c * POSITIONS + i % POSITIONS] / n;
  for (int i = 0; i < count * POSITIONS; i++)
    *variance +=
        pow((double)s->x[i / POSITIONS * ROW + c * POSITIONS + i % POSITIONS] - *mean, 2) / (n - 1);
}

/* Whatever the split, and run once or twice, two windows of different length leave what the samples
 * of each as a whole have. */
static void check_running(const char *device) {
  static const int64_t sizes[] = {SAMPLES, 7, 1};
  samples s = make_samples();
  for (int i = 0; i < 3; i++)
    for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
      run r =
          start(device, (ac_plan_desc){.micro_batch = sizes[i], .recompute = (ac_recompute)policy});
      assert_false(train(&r, &s, SAMPLES).skipped);
      assert_false(train(&r, &s, 11).skipped);
      float mean[CHANNELS], variance[CHANNELS];
      read(&r, "first.running_mean", mean);
      read(&r, "first.running_var", variance);
      for (int c = 0; c < CHANNELS; c++) {
        double m[2], v[2];
        whole_window(&s, SAMPLES, c, &m[0], &v[0]);
        whole_window(&s, 11, c, &m[1], &v[1]);
        assert_true(fabs((double)mean[c] - 0.25 * (0.75 * m[0] + m[1])) < 1e-6);
        assert_true(fabs((double)variance[c] - (0.5625 + 0.25 * (0.75 * v[0] + v[1]))) < 2e-6);
      }
      read(&r, "second.running_mean", mean);
      assert_true(mean[0] != 0);
      read(&r, "aside.running_mean", mean);
      assert_true(mean[0] == 0);
      stop(&r);
    }
}

/* A variance far below epsilon, which hides it in 1/std, is pooled with all its digits. */
static void check_small(const char *device) {
  samples s = make_samples();
  for (int i = 0; i < SAMPLES * ROW; i++) s.x[i] *= 3e-5f;
  for (int64_t micro_batch = SAMPLES; micro_batch > 0; micro_batch -= 8) {
    run r = start(device, (ac_plan_desc){.micro_batch = micro_batch});
    float variance[CHANNELS] = {0};
    write(&r, "first.running_var", variance);
    assert_false(train(&r, &s, SAMPLES).skipped);
    read(&r, "first.running_var", variance);
    for (int c = 0; c < CHANNELS; c++) {
      double m, v;
      whole_window(&s, SAMPLES, c, &m, &v);
      assert_true(v < 1e-9);
      assert_true(fabs((double)variance[c] - 0.25 * v) < 1e-5 * v);
    }
    stop(&r);
  }
}

static void small_variances_keep_their_digits(void **state) {
  (void)state;
  on_every_device(check_small);
}

static void running_statistics_are_those_of_windows(void **state) {
  (void)state;
  on_every_device(check_running);
}

static void check_recomputation(const char *device) {
  samples s = make_samples();
  float kept[4][CHANNELS], again[4][CHANNELS];
  for (int precision = AC_PRECISION_F32; precision <= AC_PRECISION_BF16; precision++)
    for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
      bool plain = policy == AC_RECOMPUTE_NONE;
      float(*values)[CHANNELS] = plain ? kept : again;
      run r = start(device, (ac_plan_desc){.micro_batch = 6,
                                           .precision = (ac_precision)precision,
                                           .recompute = (ac_recompute)policy});
      for (int u = 0; u < 5; u++) assert_false(train(&r, &s, SAMPLES).skipped);
      read(&r, "second.running_mean", values[0]);
      read(&r, "second.running_var", values[1]);
      read(&r, "second.weight", values[2]);
      read(&r, "first.running_var", values[3]);
      stop(&r);
      if (!plain) assert_memory_equal(kept, again, sizeof kept);
    }
}

static void recomputing_changes_no_bit(void **state) {
  (void)state;
  on_every_device(check_recomputation);
}

/* A bad weight makes everything after it NaN: the update is skipped, and looking for the place also
 * disturbs nothing. */
static void check_skipped(const char *device) {
  samples s = make_samples();
  run r = start(device, (ac_plan_desc){.micro_batch = 6});
  assert_false(train(&r, &s, SAMPLES).skipped);
  float before[2][CHANNELS], after[2][CHANNELS], kept[CHANNELS], bad[CHANNELS] = {NAN, NAN, NAN};
  read(&r, "first.running_mean", before[0]);
  read(&r, "second.running_var", before[1]);
  read(&r, "second.bias", kept);
  write(&r, "second.bias", bad);
  assert_true(train(&r, &s, SAMPLES).skipped);
  read(&r, "first.running_mean", after[0]);
  read(&r, "second.running_var", after[1]);
  assert_memory_equal(before, after, sizeof before);
  write(&r, "second.bias", kept);

  run twin = start(device, (ac_plan_desc){.micro_batch = 6});
  const ac_feed feeds[] = {{"x", s.x}, {"t", s.t}};
  char where[128];
  assert_false(train(&twin, &s, SAMPLES).skipped);
  assert_ok(ac_trainer_accumulate(twin.trainer, SAMPLES, feeds, 2));
  assert_ok(ac_trainer_locate_nonfinite(twin.trainer, 3, feeds, 2, where, sizeof where));
  assert_string_equal(where, "");
  assert_ok(ac_trainer_update(twin.trainer, NULL));
  assert_false(train(&r, &s, SAMPLES).skipped);
  read(&r, "second.running_var", before[0]);
  read(&twin, "second.running_var", after[0]);
  assert_memory_equal(before[0], after[0], sizeof before[0]);
  stop(&twin);
  stop(&r);
}

static void a_skipped_update_changes_nothing(void **state) {
  (void)state;
  on_every_device(check_skipped);
}

/* What windows change in the norms. */
static void read_all(run *r, float values[6][CHANNELS]) {
  static const char *const names[] = {"first.running_mean",  "first.running_var",  "second.weight",
                                      "second.running_mean", "second.running_var", "second.bias"};
  for (int i = 0; i < 6; i++) read(r, names[i], values[i]);
}

/* Samples that floats hold with a variance that they do not: 1/std is 0, so that loss and gradients
 * are finite, and yet the window is skipped. With squares that floats do not hold either, it is
 * not.
 */
static void check_variance(const char *device) {
  const samples good = make_samples();
  samples large = good;
  for (int i = 0; i < SAMPLES * ROW; i++) large.x[i] = i % 2 ? 1e20f : -1e20f;
  for (int64_t micro_batch = SAMPLES; micro_batch > 0; micro_batch -= 8) {
    run r = start(device, (ac_plan_desc){.micro_batch = micro_batch});
    float before[6][CHANNELS], after[6][CHANNELS];
    assert_false(train(&r, &good, SAMPLES).skipped);
    read_all(&r, before);
    const ac_update update = train(&r, &large, SAMPLES);
    assert_true(update.finite_loss && isfinite(update.loss) && isinf(update.grad_norm));
    assert_true(!update.finite_gradient && update.skipped && update.stuck && update.update == 1);
    read_all(&r, after);
    assert_memory_equal(before, after, sizeof before);
    const ac_update next = train(&r, &good, SAMPLES);
    read_all(&r, after);
    stop(&r);

    run twin = start(device, (ac_plan_desc){.micro_batch = micro_batch});
    assert_false(train(&twin, &good, SAMPLES).skipped);
    assert_true(train(&twin, &good, SAMPLES).grad_norm == next.grad_norm);
    read_all(&twin, before);
    assert_memory_equal(before, after, sizeof before);
    stop(&twin);
  }
}

static void a_variance_beyond_floats_is_skipped(void **state) {
  (void)state;
  on_every_device(check_variance);
}

static void check_large(const char *device) {
  samples s = make_samples();
  for (int i = 0; i < SAMPLES * ROW; i++) s.x[i] *= 1e13f;
  run r = start(device, (ac_plan_desc){.micro_batch = 6});
  float variance[CHANNELS];
  const ac_update update = train(&r, &s, SAMPLES);
  assert_true(!update.skipped && update.finite_gradient && isfinite(update.grad_norm));
  read(&r, "first.running_var", variance);
  assert_true(variance[0] > 1e24f);
  const int index = ac_trainer_find_parameter(r.trainer, "first.running_mean");
  assert_true(ac_trainer_gradient_norm(r.trainer, index) == 0);
  stop(&r);
}

static void large_statistics_are_no_part_of_the_norm(void **state) {
  (void)state;
  on_every_device(check_large);
}

/* ---- frozen statistics ----------------------------------------------------------------------- */

static ac_graph *fine_tuned(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, POSITIONS));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, CHANNELS, POSITIONS));
  x = ac_linear(x, test_matrix(g, "a", "w", POSITIONS, POSITIONS), NULL, AC_OUT_IN);
  for (int trained = 1; trained >= 0; trained--) {
    const char *name = trained ? "trained" : "bare";
    char mean[64], variance[64];
    snprintf(mean, sizeof mean, "%s.running_mean", name);
    snprintf(variance, sizeof variance, "%s.running_var", name);
    x = ac_batch_norm(x, trained ? vector_of(g, "gamma", 1.5f, false) : NULL,
                      trained ? vector_of(g, "beta", 0.25f, false) : NULL,
                      vector_of(g, mean, 0.5f, true), vector_of(g, variance, 2, true),
                      &(ac_batch_norm_desc){.frozen_statistics = true});
    x = ac_silu(x);
  }
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  return g;
}

/* Its batch may be split, also into single samples, without AC_BATCH_NORM_MICRO, and that changes
 * nothing; its running statistics stay what they are, to the bit. */
static void check_frozen(const char *name) {
  static const int64_t sizes[] = {SAMPLES, 5, 1};
  samples s = make_samples();
  float *first = NULL;
  size_t total = 0;
  for (int i = 0; i < 3; i++) {
    run r = run_of(open_device(name), fine_tuned(),
                   &(ac_plan_desc){.batch = SAMPLES, .micro_batch = sizes[i]},
                   &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
    for (int u = 0; u < 10; u++) assert_false(train(&r, &s, SAMPLES).skipped);
    float mean[CHANNELS], variance[CHANNELS], gamma[CHANNELS];
    read(&r, "trained.running_mean", mean);
    read(&r, "bare.running_var", variance);
    read(&r, "gamma", gamma);
    for (int c = 0; c < CHANNELS; c++)
      assert_true(mean[c] == 0.5f && variance[c] == 2 && gamma[c] != 1.5f);
    float *all = all_parameters(&r, &total);
    if (first) assert_true(distance(first, all, total) <= 1e-5);
    if (first) free(all);
    else first = all;
    stop(&r);
  }
  free(first);
}

static void frozen_statistics_couple_no_samples(void **state) {
  (void)state;
  on_every_device(check_frozen);
}

/* [B, C]: one sample is one value of a channel. */
static ac_graph *of_vectors(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2)),
                           ac_parameter(g, "w", SHAPE(3, 2), ZEROS), NULL, AC_OUT_IN);
  x = ac_batch_norm(x, NULL, NULL, vector_of(g, "mean", 0, true), vector_of(g, "variance", 1, true),
                    NULL);
  ac_graph_set_loss(g,
                    ac_mean_squared_error(x, ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 3)), NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static void one_value_of_a_channel_is_refused(void **state) {
  (void)state;
  static const struct {
    ac_plan_desc desc;
    const char *why; /* NULL: it is not */
  } cases[] = {
      {{.batch = 1}, "a batch of 1 in micro-batches of 1 has a micro-batch of 1"},
      {{.batch = 4, .micro_batch = 1, .batch_norm = AC_BATCH_NORM_MICRO}, "has a micro-batch of 1"},
      {{.batch = 5, .micro_batch = 2, .batch_norm = AC_BATCH_NORM_MICRO}, "has a micro-batch of 1"},
      {{.batch = 4, .micro_batch = 2, .batch_norm = AC_BATCH_NORM_MICRO}, NULL},
      {{.batch = 1, .purpose = AC_EVALUATE}, NULL},
      {{.batch = 2}, NULL}};
  ac_graph *graph = of_vectors();
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_plan *plan;
    const ac_status status = ac_plan_create(&plan, graph, device, &cases[i].desc);
    if (!cases[i].why) {
      assert_ok(status);
      ac_plan_free(plan);
    } else {
      assert_refused(status, AC_ERROR_ARGUMENT, "needs at least 2 samples");
      assert_refused(status, AC_ERROR_ARGUMENT, cases[i].why);
    }
  }
  /* Sizes that the search finds have none either. */
  for (int64_t batch = 2; batch < 12; batch++) {
    ac_plan_alternative list[64];
    ac_plan *plan;
    int count;
    assert_ok(ac_plan_create(&plan, graph, device,
                             &(ac_plan_desc){.batch = batch, .batch_norm = AC_BATCH_NORM_MICRO}));
    assert_ok(ac_plan_alternatives(plan, list, 64, &count));
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
      assert_true(list[i].micro_batch > 1 && batch % list[i].micro_batch != 1);
    ac_plan_free(plan);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Nor may a fit's schedule of batches have stages of one sample. */
static void batches_of_one_value_are_refused(void **state) {
  (void)state;
  run r;
  ac_graph *graph = of_vectors();
  ac_dataset *dataset;
  const ac_field fields[] = {{"x", AC_F32, 2}, {"y", AC_F32, 3}};
  const float x[8 * 2] = {1, 2, 3}, y[8 * 3] = {3, 2, 1};
  assert_ok(ac_dataset_from_memory(&dataset, 8, 2, fields, (const void *[]){x, y}));
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &(ac_plan_desc){.batch = 4}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
  for (int64_t batch = 1; batch <= 2; batch++) {
    const ac_batch_stage stages[] = {{.batch = batch}, {.batch = 4, .from = 2}};
    const ac_fit_desc fit = {.train = dataset, .steps = 3, .batches = stages, .batch_count = 2};
    const ac_status status = ac_fit(r.trainer, &fit, NULL);
    if (batch > 1) assert_ok(status);
    else assert_refused(status, AC_ERROR_ARGUMENT, "needs at least 2 samples");
  }
  ac_dataset_free(dataset);
  ac_graph_free(graph);
  stop(&r);
}

/* A short last window of one sample: there is no variance to move towards, and no gradient. */
static void check_short_window(const char *name) {
  run r;
  ac_graph *graph = of_vectors();
  const float x[2] = {1, 2}, y[3] = {1, 2, 3};
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  float before[6], after[6], mean[3], variance[3];
  ac_update update;
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = name}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device,
                           &(ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_SGD}}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 6, before));
  assert_ok(ac_trainer_accumulate(r.trainer, 1, feeds, 2));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 6, after));
  assert_ok(ac_trainer_get_parameter(r.trainer, ac_trainer_find_parameter(r.trainer, "mean"), 0, 3,
                                     mean));
  assert_ok(ac_trainer_get_parameter(r.trainer, ac_trainer_find_parameter(r.trainer, "variance"), 0,
                                     3, variance));
  assert_memory_equal(before, after, sizeof before);
  assert_true(fabs(update.loss - 14.0 / 3) < 1e-5); /* of y = 0 */
  for (int c = 0; c < 3; c++) {
    const float value = before[2 * c] * x[0] + before[2 * c + 1] * x[1];
    assert_true(fabs((double)(mean[c] - 0.1f * value)) < 1e-6 && variance[c] == 1);
  }
  ac_graph_free(graph);
  stop(&r);
}

static void a_short_window_of_one_value_leaves_the_variance(void **state) {
  (void)state;
  on_every_device(check_short_window);
}

static void refuses_to_fit(const samples *s, const char *where) {
  const ac_field fields[] = {{"x", AC_F32, ROW}, {"t", AC_F32, ROW}};
  const void *data[] = {s->x, s->t};
  char sentence[160];
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, data));
  run r = start("cpu", (ac_plan_desc){.micro_batch = 6});
  snprintf(sentence, sizeof sentence,
           "the pooled mean or variance is not finite; it first appears in %s", where);
  assert_refused(
      ac_fit(r.trainer, &(ac_fit_desc){.train = dataset, .epochs = 1, .no_shuffle = true}, NULL),
      AC_ERROR_NOT_FINITE, sentence);
  ac_dataset_free(dataset);
  stop(&r);
}

/* In a micro-batch, or only where they come together. */
static void a_fit_names_statistics_that_are_not_finite(void **state) {
  (void)state;
  samples s = make_samples();
  for (int i = 0; i < SAMPLES * ROW; i++) s.x[i] = i % 2 ? 1e20f : -1e20f;
  refuses_to_fit(&s, "op batch_norm (first)");
  for (int i = 0; i < SAMPLES * ROW; i++) s.x[i] = i / ROW / 6 % 2 ? 1e20f : -1e20f;
  refuses_to_fit(&s, "the pooled statistics of parameter first.running_mean");
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Running statistics do not depend on the batch: a sample's loss is the same whatever it is
 * evaluated with. */
static void check_evaluation(const char *device) {
  samples s = make_samples();
  run r = start(device, (ac_plan_desc){.micro_batch = 8});
  for (int u = 0; u < 3; u++) train(&r, &s, SAMPLES);
  double one_by_one = 0;
  const ac_field fields[] = {{"x", AC_F32, ROW}, {"t", AC_F32, ROW}};
  ac_evaluation whole = {0};
  for (int first = -1; first < SAMPLES; first++) {
    int at = first < 0 ? 0 : first * ROW;
    const void *data[] = {s.x + at, s.t + at};
    ac_dataset *dataset;
    ac_evaluation result;
    assert_ok(ac_dataset_from_memory(&dataset, first < 0 ? SAMPLES : 1, 2, fields, data));
    assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &result));
    ac_dataset_free(dataset);
    if (first < 0) whole = result;
    else one_by_one += result.loss / SAMPLES;
  }
  assert_true(fabs(whole.loss - one_by_one) < 1e-6 * whole.loss);
  stop(&r);
}

static void evaluation_uses_the_running_statistics(void **state) {
  (void)state;
  on_every_device(check_evaluation);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void a_batch_is_split_only_when_asked(void **state) {
  (void)state;
  ac_device *device;
  ac_plan *plan;
  ac_graph *graph = model();
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  ac_plan_desc desc = {.batch = 64, .micro_batch = 16};
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_ARGUMENT,
                 "plan: batch_norm (first) looks at all samples of a batch of 64");
  assert_contains(ac_last_error(), "group norm");
  desc.batch_norm = AC_BATCH_NORM_MICRO;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_int_equal(ac_plan_get_info(plan)->accumulation_steps, 4);
  ac_plan_free(plan);

  desc = (ac_plan_desc){.batch = 64};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_int_equal(ac_plan_get_info(plan)->micro_batch, 64);
  ac_plan_alternative list[64];
  int count;
  assert_ok(ac_plan_alternatives(plan, list, 64, &count));
  assert_true(count > 0);
  for (int i = 0; i < count && i < 64; i++) assert_int_equal(list[i].micro_batch, 64);
  uint64_t whole = ac_plan_get_info(plan)->bytes.total;
  ac_plan_free(plan);

  desc.memory = whole / 2;
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
  const ac_plan_offer offer = test_offer(graph, device, desc, AC_RELIEF_MICRO_BATCH_NORM);
  assert_true(offer.bytes > 0 && offer.micro_batch == 1);
  desc.batch_norm = AC_BATCH_NORM_MICRO;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_true(ac_plan_get_info(plan)->micro_batch < 64);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Where batches stay whole, a window comes in one piece. */
static void a_window_comes_in_one_piece(void **state) {
  (void)state;
  ac_graph *graph = model();
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  samples s = make_samples();
  const ac_feed feeds[] = {{"x", s.x}, {"t", s.t}};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 8}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 1e-2}}));
  assert_refused(ac_trainer_accumulate(trainer, 9, feeds, 2), AC_ERROR_STATE, "in one piece");
  assert_ok(ac_trainer_accumulate(trainer, 4, feeds, 2));
  assert_refused(ac_trainer_accumulate(trainer, 4, feeds, 2), AC_ERROR_STATE, "in one piece");
  assert_ok(ac_trainer_update(trainer, NULL));
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* ---- the fit loop ---------------------------------------------------------------------------- */

static void fit(const ac_plan_desc *desc, ac_last_window policy, int epochs,
                float values[][CHANNELS]) {
  run r;
  samples s = make_samples();
  const ac_field fields[] = {{"x", AC_F32, ROW}, {"t", AC_F32, ROW}};
  const void *data[] = {s.x, s.t};
  ac_dataset *dataset;
  ac_graph *graph = model();
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, data));
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = "cpu", .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, desc));
  assert_ok(ac_trainer_create(&r.trainer, r.plan,
                              &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}}));
  ac_fit_result result;
  assert_ok(
      ac_fit(r.trainer,
             &(ac_fit_desc){.train = dataset, .epochs = epochs, .seed = 5, .last_window = policy},
             &result));
  int64_t all = (int64_t)epochs * SAMPLES, whole = SAMPLES / desc->batch;
  int64_t steps[] = {epochs * (whole + 1), (all + desc->batch - 1) / desc->batch, epochs * whole};
  assert_int_equal(result.steps, steps[policy]);
  assert_int_equal(result.samples, policy == AC_LAST_DROP ? steps[policy] * desc->batch : all);
  read(&r, "first.running_mean", values[0]);
  read(&r, "first.running_var", values[1]);
  read(&r, "second.running_var", values[2]);
  read(&r, "second.weight", values[3]);
  stop(&r);
  ac_dataset_free(dataset);
  ac_graph_free(graph);
}

/* Whatever becomes of the last window, whether batches are whole or split and longer or shorter
 * than an epoch, reading ahead changes no bit. */
static void reading_ahead_changes_no_bit(void **state) {
  (void)state;
  static const int64_t batches[] = {8, 2 * SAMPLES + 3};
  for (int policy = AC_LAST_UPDATE; policy <= AC_LAST_DROP; policy++)
    for (int b = 0; b < (policy == AC_LAST_DROP ? 1 : 2); b++)
      for (int split = 0; split < 2; split++) {
        float values[2][4][CHANNELS];
        for (int ahead = 0; ahead < 2; ahead++) {
          ac_plan_desc desc = {.batch = batches[b], .read_ahead = ahead};
          if (split) desc.micro_batch = 3, desc.batch_norm = AC_BATCH_NORM_MICRO;
          fit(&desc, (ac_last_window)policy, 3, values[ahead]);
        }
        assert_memory_equal(values[0], values[1], sizeof values[0]);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(running_statistics_are_those_of_windows),
      cmocka_unit_test(frozen_statistics_couple_no_samples),
      cmocka_unit_test(one_value_of_a_channel_is_refused),
      cmocka_unit_test(batches_of_one_value_are_refused),
      cmocka_unit_test(a_short_window_of_one_value_leaves_the_variance),
      cmocka_unit_test(small_variances_keep_their_digits),
      cmocka_unit_test(recomputing_changes_no_bit),
      cmocka_unit_test(a_skipped_update_changes_nothing),
      cmocka_unit_test(a_variance_beyond_floats_is_skipped),
      cmocka_unit_test(large_statistics_are_no_part_of_the_norm),
      cmocka_unit_test(a_fit_names_statistics_that_are_not_finite),
      cmocka_unit_test(evaluation_uses_the_running_statistics),
      cmocka_unit_test(a_batch_is_split_only_when_asked),
      cmocka_unit_test(a_window_comes_in_one_piece),
      cmocka_unit_test(reading_ahead_changes_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
