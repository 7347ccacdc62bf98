/* Windows and updates on the CPU, and on every OpenCL device there is: the way a batch is split
 * does not matter, a failed update changes nothing, the same seed gives the same bits. */
#include "support/files.h"
#include "support/runs.h"

#include "core/error.h"

#include <math.h>

/* ---- splitting ------------------------------------------------------------------------------- */

/* 20 updates on batches of 23 with ragged targets, dropout included. Keys' biases have no gradient
 * but rounding noise (softmax does not see a shift), which Adam would blow up to full steps with
 * its usual epsilon of 1e-8. */
static float *train_split(const char *device, ac_precision precision, int64_t micro_batch,
                          double *losses, size_t *total) {
  corpus c = make_corpus();
  run r =
      start(device, &model,
            (ac_plan_desc){.batch = SAMPLES, .micro_batch = micro_batch, .precision = precision},
            (ac_trainer_desc){
                .seed = 3, .schedule = {.lr = 1e-3}, .optimizer = {.clip = 1, .epsilon = 1e-5}});
  for (int u = 0; u < 20; u++) {
    ac_update update;
    assert_ok(feed(&r, &c, 0, SAMPLES));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

static void splitting_changes_nothing(const char *device) {
  double whole[20], split[20];
  size_t total, same;
  float *a = train_split(device, AC_PRECISION_F32, SAMPLES, whole, &total);
  assert_true(whole[19] < 0.8 * whole[0]);
  static const int64_t sizes[] = {12, 7, 1};
  for (int i = 0; i < 3; i++) {
    float *b = train_split(device, AC_PRECISION_F32, sizes[i], split, &same);
    assert_int_equal(total, same);
    for (int u = 0; u < 20; u++) assert_true(fabs(split[u] - whole[u]) <= 1e-5 * whole[u]);
    assert_true(distance(a, b, total) <= 1e-5);
    free(b);
  }
  free(a);
}
ON_EVERY_DEVICE(splitting_changes_nothing)

static void the_same_seed_gives_the_same_bits(const char *device) {
  double first[20], second[20];
  size_t total;
  float *a = train_split(device, AC_PRECISION_F32, 7, first, &total);
  float *b = train_split(device, AC_PRECISION_F32, 7, second, &total);
  assert_memory_equal(first, second, sizeof first);
  assert_memory_equal(a, b, total * sizeof *a);
  free(a);
  free(b);
}
ON_EVERY_DEVICE(the_same_seed_gives_the_same_bits)

/* In 16 bits a last bit of a float may decide which way a value is rounded. */
static void devices_agree(const char *device) {
  static const double losses[] = {1e-5, 2e-3, 2e-3}, weights[] = {1e-4, 1e-2, 5e-2};
  double cpu[20], other[20];
  size_t total;
  for (ac_precision p = AC_PRECISION_F32; p <= AC_PRECISION_BF16; p++) {
    float *a = train_split("cpu", p, 12, cpu, &total),
          *b = train_split(device, p, 12, other, &total);
    for (int u = 0; u < 20; u++) assert_true(fabs(other[u] - cpu[u]) <= losses[p] * cpu[u]);
    assert_true(distance(a, b, total) <= weights[p]);
    free(a);
    free(b);
  }
}
ON_EVERY_DEVICE(devices_agree)

/* The reported loss and norm are those of the mean: feeding everything twice changes neither. */
static void losses_are_means(const char *device) {
  corpus c = make_corpus();
  test_gpt still = model;
  still.dropout = 0;
  ac_update once, twice;
  for (int times = 1; times <= 2; times++) {
    run r = start(device, &still, (ac_plan_desc){.batch = SAMPLES, .micro_batch = 8},
                  (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-3}});
    for (int i = 0; i < times; i++) assert_ok(feed(&r, &c, 0, SAMPLES));
    assert_ok(ac_trainer_update(r.trainer, times == 1 ? &once : &twice));
    stop(&r);
  }
  double weight = 0;
  for (int i = 0; i < SAMPLES * CONTEXT; i++)
    if (c.targets[i] != -1) weight += (double)c.weights[i];
  assert_true(fabs(once.weight - weight) < 1e-3);
  assert_true(fabs(twice.weight - 2 * weight) < 1e-3);
  assert_true(fabs(twice.loss - once.loss) <= 1e-6 * once.loss);
  assert_true(fabs(twice.grad_norm - once.grad_norm) <= 1e-5 * once.grad_norm);
}
ON_EVERY_DEVICE(losses_are_means)

/* ---- recomputation --------------------------------------------------------------------------- */

static float *train_budget(const char *device, ac_plan_desc desc, int updates, double *losses,
                           ac_plan_info *info, size_t *total) {
  corpus c = make_corpus();
  run r = start(device, &model, desc, (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-3}});
  *info = *ac_plan_get_info(r.plan);
  assert_int_equal(ac_device_peak_bytes(r.device), info->bytes.total);
  for (int u = 0; u < updates; u++) {
    ac_update update;
    assert_ok(feed(&r, &c, u % 7, 8));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

/* Keeping everything, recomputing as several budgets want it, recomputing everything, and what a
 * plan takes that may leave out working copies instead: the same bits after all updates with
 * dropout, at the same micro-batch. */
static void recompute_in(const char *device, ac_precision precision, int updates) {
  enum { MOST = 12 };
  double kept[MOST] = {0}, again[MOST] = {0};
  ac_plan_info info;
  size_t total;
  ac_plan_desc desc = {.batch = 8,
                       .micro_batch = 4,
                       .precision = precision,
                       .working_copies = AC_WORKING_COPIES_KEPT,
                       .recompute = AC_RECOMPUTE_NONE};
  float *a = train_budget(device, desc, updates, kept, &info, &total);
  assert_int_equal(info.recomputed_ops, 0);
  uint64_t high = info.bytes.total;
  desc.recompute = AC_RECOMPUTE_ALL;
  float *b = train_budget(device, desc, updates, again, &info, &total);
  assert_true(info.recomputed_ops > 0 && info.bytes.total < high);
  assert_memory_equal(kept, again, sizeof kept);
  assert_memory_equal(a, b, total * sizeof *a);
  free(b);
  uint64_t low = info.bytes.total;
  desc.recompute = AC_RECOMPUTE_AUTO;
  for (int i = 1; i <= 6; i++) {
    desc.working_copies = i <= 3 ? AC_WORKING_COPIES_KEPT : AC_WORKING_COPIES_AUTO;
    desc.memory = high - (high - low) * (uint64_t)(i <= 3 ? i : i - 3) / 3;
    b = train_budget(device, desc, updates, again, &info, &total);
    assert_true(info.bytes.total <= desc.memory);
    assert_true(info.recomputed_ops > 0 || info.rounds_anew);
    assert_memory_equal(kept, again, sizeof kept);
    assert_memory_equal(a, b, total * sizeof *a);
    free(b);
  }
  free(a);
}

static void recomputing_changes_no_bit(const char *device) {
  recompute_in(device, AC_PRECISION_F32, 12);
  recompute_in(device, AC_PRECISION_F16, 12);
  recompute_in(device, AC_PRECISION_BF16, 12);
}
ON_EVERY_DEVICE(recomputing_changes_no_bit)

/* Updates [first, last) of the others. */
static float *train_part(const char *device, ac_plan_desc desc, int first, int last,
                         size_t *total) {
  const test_path path = in_folder("part");
  corpus c = make_corpus();
  run r = start(device, &model, desc, (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-3}});
  if (first > 0) assert_ok(ac_trainer_load_state(r.trainer, path.text));
  for (int u = first; u < last; u++) {
    assert_ok(feed(&r, &c, u % 7, 8));
    assert_ok(ac_trainer_update(r.trainer, NULL));
  }
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

/* What is saved with working copies goes on without, and the other way, with the same bits. */
static void states_are_of_either_way(const char *device) {
  static const ac_precision precisions[] = {AC_PRECISION_F16, AC_PRECISION_BF16};
  for (int k = 0; k < 4; k++) {
    ac_plan_desc desc = {.batch = 8, .precision = precisions[k / 2]}, other = desc;
    size_t total;
    desc.working_copies = k % 2 ? AC_WORKING_COPIES_KEPT : AC_WORKING_COPIES_NONE;
    other.working_copies = k % 2 ? AC_WORKING_COPIES_NONE : AC_WORKING_COPIES_KEPT;
    float *a = train_part(device, desc, 0, 6, &total);
    free(train_part(device, desc, 0, 3, &total));
    float *b = train_part(device, other, 3, 6, &total);
    assert_memory_equal(a, b, total * sizeof *a);
    free(a);
    free(b);
  }
}
ON_EVERY_DEVICE(states_are_of_either_way)

/* ---- transactions ---------------------------------------------------------------------------- */

static void a_failed_update_changes_nothing(const char *device) {
  corpus c = make_corpus();
  run r = start(device, &model, (ac_plan_desc){.batch = 8},
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2, .warmup = 5}});
  run twin = start(device, &model, (ac_plan_desc){.batch = 8},
                   (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2, .warmup = 5}});
  ac_update update, good;
  for (int u = 0; u < 3; u++) {
    assert_ok(feed(&r, &c, 0, 8));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    assert_ok(feed(&twin, &c, 0, 8));
    assert_ok(ac_trainer_update(twin.trainer, NULL));
  }
  size_t total;
  float *before = all_parameters(&r, &total);
  /* One bad weight makes everything after it NaN, also gradients. */
  int index = ac_trainer_find_parameter(r.trainer, "h1.ln_1.weight");
  float kept, bad = NAN;
  assert_ok(ac_trainer_get_parameter(r.trainer, index, 3, 1, &kept));
  assert_ok(ac_trainer_set_parameter(r.trainer, index, 3, 1, &bad));
  assert_ok(feed(&r, &c, 8, 8));
  char where[128];
  ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, 8, feeds, 3, where, sizeof where));
  assert_string_equal(where, "parameter h1.ln_1.weight");
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped);
  assert_false(update.finite_loss);
  assert_int_equal(update.update, 3);
  assert_ok(ac_trainer_set_parameter(r.trainer, index, 3, 1, &kept));
  float *after = all_parameters(&r, &total);
  assert_memory_equal(before, after, total * sizeof *before);
  free(before);
  free(after);
  /* Moments, step counter, schedule and random counters are also untouched: both go on alike. */
  for (int u = 0; u < 2; u++) {
    assert_ok(feed(&r, &c, 8, 8));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_ok(feed(&twin, &c, 8, 8));
    assert_ok(ac_trainer_update(twin.trainer, &good));
    assert_true(update.loss == good.loss && update.grad_norm == good.grad_norm);
    assert_true(update.lr == good.lr && update.update == good.update && !update.skipped);
  }
  before = all_parameters(&r, &total), after = all_parameters(&twin, &total);
  assert_memory_equal(before, after, total * sizeof *before);
  free(before);
  free(after);
  stop(&r);
  stop(&twin);
}
ON_EVERY_DEVICE(a_failed_update_changes_nothing)

/* Looking for a bad value runs ops that add to gradients; some of them also yield other results. */
static void locating_leaves_the_window_alone(const char *device) {
  corpus c = make_corpus();
  for (int fused = 0; fused < 2; fused++) {
    test_gpt m = model;
    m.fused = fused;
    run r = start(device, &m, (ac_plan_desc){.batch = 8},
                  (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
    ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
    float before[2][24 * 17], loss[2];
    char where[128];
    int index = ac_trainer_find_parameter(r.trainer, "wte.w");
    for (int k = 0; k < 2; k++) {
      ac_update update;
      assert_ok(feed(&r, &c, 0, 8));
      assert_ok(ac_trainer_get_gradient(r.trainer, index, 0, 24 * 17, before[0]));
      if (k) assert_ok(ac_trainer_locate_nonfinite(r.trainer, 8, feeds, 3, where, sizeof where));
      if (k) assert_string_equal(where, "");
      assert_ok(ac_trainer_get_gradient(r.trainer, index, 0, 24 * 17, before[1]));
      assert_memory_equal(before[0], before[1], sizeof before[0]);
      assert_ok(ac_trainer_update(r.trainer, &update));
      loss[k] = (float)update.loss;
    }
    assert_true(loss[1] < loss[0]);
    stop(&r);
  }
}
ON_EVERY_DEVICE(locating_leaves_the_window_alone)

static void an_overflow_is_located(const char *device) {
  corpus c = make_corpus();
  run r = start(device, &model, (ac_plan_desc){.batch = 8},
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  int index = ac_trainer_find_parameter(r.trainer, "h1.fc.w");
  float huge = 3e38f;
  for (int i = 0; i < 24; i++)
    assert_ok(ac_trainer_set_parameter(r.trainer, index, i * 96, 1, &huge));
  ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  char where[128];
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, 8, feeds, 3, where, sizeof where));
  assert_string_equal(where, "op linear (h1)");
  stop(&r);
}
ON_EVERY_DEVICE(an_overflow_is_located)

/* What ops read of a parameter is its copy in 16 bits. */
static void locate_beyond_f16(const char *device, ac_working_copies copies) {
  corpus c = make_corpus();
  run r = start(device, &model,
                (ac_plan_desc){.batch = 8, .precision = AC_PRECISION_F16, .working_copies = copies},
                (ac_trainer_desc){.seed = 3});
  float large = 1e6f;
  assert_ok(ac_trainer_set_parameter(r.trainer, ac_trainer_find_parameter(r.trainer, "h1.fc.w"), 5,
                                     1, &large));
  ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  char where[128];
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, 8, feeds, 3, where, sizeof where));
  assert_string_equal(where, "parameter h1.fc.w, too large for f16");
  stop(&r);
}

static void a_weight_beyond_f16_is_located(const char *device) {
  locate_beyond_f16(device, AC_WORKING_COPIES_KEPT);
  locate_beyond_f16(device, AC_WORKING_COPIES_NONE);
}
ON_EVERY_DEVICE(a_weight_beyond_f16_is_located)

/* So is what they read of an input. */
static void an_input_beyond_16_bits_is_located(const char *device) {
  static const struct {
    ac_precision precision;
    float x;
    const char *where;
  } cases[] = {{AC_PRECISION_F16, 70000, "input x, too large for f16"},
               {AC_PRECISION_BF16, 3.4e38f, "input x, too large for bf16"}};
  for (int i = 0; i < 2; i++) {
    run r;
    ac_graph *g;
    char where[128];
    const float y = 0;
    const ac_feed feeds[] = {{"x", &cases[i].x}, {"y", &y}};
    assert_ok(ac_graph_create(&g));
    ac_tensor *z = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)),
                             ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
    ac_graph_set_loss(g,
                      ac_mean_squared_error(z, ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1)), NULL));
    assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device}));
    assert_ok(ac_plan_create(&r.plan, g, r.device,
                             &(ac_plan_desc){.batch = 1, .precision = cases[i].precision}));
    assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
    assert_ok(ac_trainer_locate_nonfinite(r.trainer, 1, feeds, 2, where, sizeof where));
    assert_string_equal(where, cases[i].where);
    ac_graph_free(g);
    stop(&r);
  }
}
ON_EVERY_DEVICE(an_input_beyond_16_bits_is_located)

/* ---- a device that fails --------------------------------------------------------------------- */

static struct {
  const ac_backend *backend;
  ac_op op;
  int left; /* runs of the op that succeed */
} failing;

static ac_status run_or_fail(void *state, const ac_op_args *args) {
  if (args->op == failing.op && failing.left-- == 0)
    return ac_fail(AC_ERROR_DEVICE, "test: the device is gone");
  return failing.backend->run(state, args);
}

static ac_status run_all_or_fail(void *state, const ac_op_args *args, int count) {
  for (int i = 0; i < count; i++) AC_TRY(run_or_fail(state, &args[i]));
  return AC_OK;
}

/* In the middle of a window nothing is lost that discarding does not undo; in the middle of the
 * parameters' steps nothing undoes what is half stepped. */
static void fail_half_way(const char *name, bool together) {
  corpus c = make_corpus();
  run r = start(name, &model, (ac_plan_desc){.batch = 8}, (ac_trainer_desc){.seed = 3});
  ac_backend copy = *r.device->backend;
  copy.run = run_or_fail;
  copy.run_all = together ? run_all_or_fail : NULL;
  failing.backend = r.device->backend;
  r.device->backend = &copy;

  failing.op = AC_OP_layer_norm_input_gradient;
  failing.left = 1;
  assert_refused(feed(&r, &c, 0, 8), AC_ERROR_DEVICE, "the device is gone");
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "discard");
  ac_trainer_discard(r.trainer);
  assert_ok(feed(&r, &c, 0, 8));

  failing.op = AC_OP_gradient_statistics;
  failing.left = 2;
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_DEVICE, "the device is gone");
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "discard");
  ac_trainer_discard(r.trainer);
  assert_ok(feed(&r, &c, 0, 8));

  failing.op = AC_OP_adamw;
  failing.left = 3;
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_DEVICE, "the device is gone");
  ac_trainer_discard(r.trainer);
  assert_refused(feed(&r, &c, 0, 8), AC_ERROR_STATE, "some parameters");
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "some parameters");
  r.device->backend = failing.backend;
  stop(&r);
}

static void a_device_fails_half_way(const char *name) {
  fail_half_way(name, false);
  fail_half_way(name, true);
}
ON_EVERY_DEVICE(a_device_fails_half_way)

static ac_status upload_something(void *state, void *handle, uint64_t offset, const void *data,
                                  uint64_t bytes) {
  if (!data || !bytes) return ac_fail(AC_ERROR_INTERNAL, "test: nothing to upload");
  return failing.backend->upload(state, handle, offset, data, bytes);
}

/* An array of 0 elements may be NULL, and none of it reaches the device. */
static void no_elements_are_nothing_to_do(const char *device) {
  for (int f16 = 0; f16 < 2; f16++) {
    run r =
        start(device, &model,
              (ac_plan_desc){.batch = 8, .precision = f16 ? AC_PRECISION_F16 : AC_PRECISION_F32},
              (ac_trainer_desc){.seed = 3});
    const int index = ac_trainer_find_parameter(r.trainer, "h1.fc.w");
    corpus c = make_corpus();
    assert_ok(feed(&r, &c, 0, 8));
    ac_backend copy = *r.device->backend;
    copy.upload = upload_something;
    failing.backend = r.device->backend;
    r.device->backend = &copy;
    assert_ok(ac_trainer_set_parameter(r.trainer, index, 7, 0, NULL));
    assert_ok(ac_trainer_get_parameter(r.trainer, index, 7, 0, NULL));
    assert_ok(ac_trainer_get_gradient(r.trainer, index, 7, 0, NULL));
    assert_ok(ac_trainer_set_state(r.trainer, index, 0, 7, 0, NULL));
    assert_ok(ac_trainer_get_state(r.trainer, index, 0, 7, 0, NULL));
    assert_refused(ac_trainer_set_parameter(r.trainer, index, -1, 0, NULL), AC_ERROR_ARGUMENT,
                   "asked for 0 from -1");
    r.device->backend = failing.backend;
    stop(&r);
  }
}
ON_EVERY_DEVICE(no_elements_are_nothing_to_do)

static void clipping_bounds_the_step(const char *device) {
  corpus c = make_corpus();
  float *parameters[2];
  size_t total;
  ac_update update[2];
  for (int i = 0; i < 2; i++) {
    run r =
        start(device, &model,
              (ac_plan_desc){.batch = 8, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
              (ac_trainer_desc){.seed = 3,
                                .schedule = {.lr = i ? 1 : -1},
                                .optimizer = {.clip = 0.25, .momentum = -1}});
    assert_ok(feed(&r, &c, 0, 8));
    assert_ok(ac_trainer_update(r.trainer, &update[i]));
    parameters[i] = all_parameters(&r, &total);
    stop(&r);
  }
  double moved = 0;
  for (size_t i = 0; i < total; i++) {
    double d = (double)parameters[0][i] - (double)parameters[1][i];
    moved += d * d;
  }
  assert_true(update[1].grad_norm > 0.3);
  assert_true(fabs(sqrt(moved) - 0.25) < 1e-4);
  free(parameters[0]);
  free(parameters[1]);
}
ON_EVERY_DEVICE(clipping_bounds_the_step)

/* ---- states and inputs ----------------------------------------------------------------------- */

static void wrong_calls_are_refused(void **state) {
  (void)state;
  corpus c = make_corpus();
  run r =
      start("cpu", &model, (ac_plan_desc){.batch = 4}, (ac_trainer_desc){.schedule = {.lr = 1}});
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "nothing was accumulated");
  ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  assert_refused(ac_trainer_accumulate(r.trainer, 4, feeds, 2), AC_ERROR_ARGUMENT,
                 "input \"weights\" was not fed");
  assert_refused(ac_trainer_accumulate(r.trainer, 4, NULL, 0), AC_ERROR_ARGUMENT,
                 "input \"tokens\" was not fed");
  assert_refused(ac_trainer_accumulate(r.trainer, 0, feeds, 3), AC_ERROR_ARGUMENT, "0 samples");
  c.tokens[5] = VOCAB;
  assert_refused(ac_trainer_accumulate(r.trainer, 4, feeds, 3), AC_ERROR_ARGUMENT,
                 "input \"tokens\" holds 17 at position 5, outside [0, 17)");
  c.tokens[5] = -1;
  assert_refused(ac_trainer_accumulate(r.trainer, 4, feeds, 3), AC_ERROR_ARGUMENT, "holds -1");
  c.tokens[5] = 0;
  c.targets[2] = -2;
  assert_refused(ac_trainer_accumulate(r.trainer, 4, feeds, 3), AC_ERROR_ARGUMENT,
                 "input \"targets\" holds -2");
  c.targets[2] = -1;
  c.weights[7] = NAN;
  assert_refused(ac_trainer_accumulate(r.trainer, 4, feeds, 3), AC_ERROR_ARGUMENT,
                 "input \"weights\" holds the weight nan");
  /* Nothing of all that has entered the window. */
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "nothing was accumulated");
  float data[4];
  assert_refused(ac_trainer_get_parameter(r.trainer, 0, 1 << 20, 4, data), AC_ERROR_ARGUMENT,
                 "elements; asked for 4 from");
  assert_refused(ac_trainer_get_parameter(r.trainer, 99, 0, 4, data), AC_ERROR_ARGUMENT,
                 "parameter 99 of");
  ac_trainer *other;
  assert_refused(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.schedule = {.lr = NAN}}),
                 AC_ERROR_ARGUMENT, "learning rates");
  assert_refused(
      ac_trainer_create(&other, r.plan,
                        &(ac_trainer_desc){.schedule = {.kind = AC_SCHEDULE_COSINE, .lr = 1}}),
      AC_ERROR_ARGUMENT, "a cosine schedule needs");
  static const int unknown[] = {-1, AC_SCHEDULE_COUNT, 99};
  for (int i = 0; i < 3; i++) {
    const ac_schedule schedule = {.kind = (ac_schedule_kind)unknown[i], .lr = 1, .total = 9};
    assert_refused(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.schedule = schedule}),
                   AC_ERROR_ARGUMENT, "unknown kind of schedule");
    assert_true(ac_schedule_rate(&schedule, 3) == 0);
  }
  /* The rate of a negative lr is 0, and that of lr 0 AdamW's default. */
  static const double above[][2] = {{-1, 1e-4}, {0, 2e-3}, {0.1, 0.2}};
  for (int i = 0; i < 3; i++) {
    ac_schedule schedule = {
        .kind = AC_SCHEDULE_COSINE, .lr = above[i][0], .min_lr = above[i][1], .total = 9};
    assert_refused(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.schedule = schedule}),
                   AC_ERROR_ARGUMENT, "above the learning rate");
    schedule.min_lr = i == 0 ? 0 : 1e-3; /* at most it */
    assert_ok(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.schedule = schedule}));
    ac_trainer_free(other);
  }
  assert_refused(
      ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.optimizer = {.epsilon = -1}}),
      AC_ERROR_ARGUMENT, "epsilon -1 must be a positive number from 1.2e-38");
  assert_refused(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.optimizer = {.beta2 = 1}}),
                 AC_ERROR_ARGUMENT, "beta1 0.9 and beta2 1 must be below 1");
  stop(&r);
}

/* The parameters after two updates; free them. */
static float *trained_by(ac_optimizer_desc planned, ac_optimizer_desc own, size_t *total) {
  const corpus c = make_corpus();
  run r = start("cpu", &model, (ac_plan_desc){.batch = 8, .optimizer = planned},
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}, .optimizer = own});
  for (int u = 0; u < 2; u++) {
    assert_ok(feed(&r, &c, 0, 8));
    assert_ok(ac_trainer_update(r.trainer, NULL));
  }
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

/* Settings mean the same in the plan and in the trainer, whose own come first. */
static void a_trainer_reads_the_settings_of_its_plan(void **state) {
  (void)state;
  const ac_optimizer_desc all = {.kind = AC_SGD,
                                 .weight_decay = 0.1,
                                 .nesterov = true,
                                 .clip = 0.5},
                          other = {.kind = AC_SGD, .weight_decay = 0.3, .clip = 2},
                          kind = {.kind = AC_SGD}, none = {.kind = AC_ADAMW};
  size_t total;
  float *want = trained_by(all, none, &total), *trainer = trained_by(kind, all, &total),
        *both = trained_by(other, all, &total), *without = trained_by(kind, none, &total);
  assert_memory_equal(want, trainer, total * sizeof *want);
  assert_memory_equal(want, both, total * sizeof *want);
  assert_true(memcmp(want, without, total * sizeof *want) != 0);
  free(want);
  free(trainer);
  free(both);
  free(without);
}

/* What a plan depends on is not a trainer's. */
static void a_trainer_keeps_to_its_plan(void **state) {
  (void)state;
  const ac_optimizer_desc refused[] = {{.kind = AC_LION},         {.state = AC_STATE_8BIT},
                                       {.state_f32 = "w*"},       {.sgd_no_momentum = true},
                                       {.callback_states = 1},    {.callback_part = 9},
                                       {.clipping = AC_CLIP_EACH}};
  run r = start("cpu", &model, (ac_plan_desc){.batch = 8, .optimizer = {.kind = AC_SGD}},
                (ac_trainer_desc){.optimizer = {.kind = AC_SGD}});
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ac_trainer *other;
    assert_refused(ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.optimizer = refused[i]}),
                   AC_ERROR_ARGUMENT, "the plan depends on the kind of the optimizer");
    assert_null(other);
  }
  stop(&r);
}

/* Weights so small that the factor of the gradient exceeds floats, or so large that their sum does.
 */
static void absurd_weights_change_nothing(void **state) {
  (void)state;
  static const float absurd[] = {1e-42f, 3e38f};
  for (int k = 0; k < 2; k++) {
    corpus c = make_corpus();
    for (int i = 0; i < SAMPLES * CONTEXT; i++) c.weights[i] = absurd[k];
    run r =
        start("cpu", &model, (ac_plan_desc){.batch = 4}, (ac_trainer_desc){.schedule = {.lr = 1}});
    size_t total;
    float *before = all_parameters(&r, &total);
    ac_update update;
    assert_ok(feed(&r, &c, 0, 4));
    assert_ok(ac_trainer_update(r.trainer, &update));
    float *after = all_parameters(&r, &total);
    assert_true(update.skipped);
    assert_memory_equal(before, after, total * sizeof *before);
    free(before);
    free(after);
    stop(&r);
  }
}

/* A window with ignored rows only has no mean: it is skipped, and training goes on. */
static void an_empty_weight_is_skipped(void **state) {
  (void)state;
  corpus c = make_corpus();
  for (int i = 0; i < SAMPLES * CONTEXT; i++) c.targets[i] = -1;
  run r =
      start("cpu", &model, (ac_plan_desc){.batch = 4}, (ac_trainer_desc){.schedule = {.lr = 1}});
  ac_update update;
  assert_ok(feed(&r, &c, 0, 4));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped);
  assert_true(update.weight == 0 && isnan(update.loss) && isnan(update.grad_norm));
  assert_int_equal(update.update, 0);
  stop(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trainer_reads_the_settings_of_its_plan),
      cmocka_unit_test(a_trainer_keeps_to_its_plan),
      cmocka_unit_test(splitting_changes_nothing_everywhere),
      cmocka_unit_test(the_same_seed_gives_the_same_bits_everywhere),
      cmocka_unit_test(devices_agree_everywhere),
      cmocka_unit_test(recomputing_changes_no_bit_everywhere),
      cmocka_unit_test(states_are_of_either_way_everywhere),
      cmocka_unit_test(losses_are_means_everywhere),
      cmocka_unit_test(a_failed_update_changes_nothing_everywhere),
      cmocka_unit_test(locating_leaves_the_window_alone_everywhere),
      cmocka_unit_test(an_overflow_is_located_everywhere),
      cmocka_unit_test(a_weight_beyond_f16_is_located_everywhere),
      cmocka_unit_test(an_input_beyond_16_bits_is_located_everywhere),
      cmocka_unit_test(a_device_fails_half_way_everywhere),
      cmocka_unit_test(no_elements_are_nothing_to_do_everywhere),
      cmocka_unit_test(clipping_bounds_the_step_everywhere),
      cmocka_unit_test(wrong_calls_are_refused),
      cmocka_unit_test(absurd_weights_change_nothing),
      cmocka_unit_test(an_empty_weight_is_skipped),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
