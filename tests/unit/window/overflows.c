/* Settings that are finite as doubles but not as floats, and models that have overflowed. The
 * settings are refused before anything changes; the models never replace a file on the disk, in any
 * way. */
#include "support/files.h"

#include "support/runs.h"

#include <math.h>

enum { OUT = 2, IN = 3, COUNT = OUT * IN, BATCH = 2 };

/* y = x w^T + b, mean squared error. */
static ac_graph *line(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(OUT, IN), ZEROS);
  ac_tensor *y = ac_linear(x, w, ac_parameter(g, "b", SHAPE(OUT), NULL), AC_OUT_IN);
  ac_graph_set_loss(g,
                    ac_mean_squared_error(y, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, OUT)), NULL));
  return g;
}

static const float xs[BATCH * IN] = {1, 2, -1, 0.5f, -2, 3}, ts[BATCH * OUT] = {1, -1, 2, 0.5f};

static void feed_window(run *r) {
  const ac_feed feeds[] = {{"x", xs}, {"t", ts}};
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 2));
}

static run begin(const char *device, ac_plan_desc plan, ac_trainer_desc desc) {
  run r;
  ac_graph *graph = line();
  plan.batch = BATCH;
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 1}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  ac_graph_free(graph);
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  for (int k = 0; k < 2; k++) {
    const float values[COUNT] = {0.5f, -0.25f, 1, 0.125f, -1, 2};
    assert_ok(ac_trainer_set_parameter(r.trainer, k, 0, k ? OUT : COUNT, values));
  }
  return r;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Beyond floats, or 0 or too small as one. */
static void settings_are_checked_as_floats(void **state) {
  static const struct {
    ac_optimizer_kind kind;
    ac_trainer_desc desc;
    const char *says;
  } refused[] = {
      {AC_ADAMW, {.schedule = {.lr = 1e39}}, "1e+39"},
      {AC_SGD, {.schedule = {.lr = 1e300}}, "1e+300"},
      {AC_SGD, {.schedule = {.lr = 1e-46}}, "too small for a float"},
      {AC_SGD, {.schedule = {.lr = 1, .min_lr = 1e39}}, "1e+39"},
      {AC_ADAMW, {.optimizer = {.epsilon = 1e-46}}, "epsilon 1e-46"},
      {AC_ADAM_MINI, {.optimizer = {.epsilon = 1e-40}}, "epsilon 1e-40"},
      {AC_ADAMW, {.optimizer = {.epsilon = 1e39}}, "epsilon 1e+39"},
      {AC_ADAMW, {.optimizer = {.weight_decay = 1e39}}, "weight decay 1e+39"},
      {AC_SGD, {.optimizer = {.momentum = 1e39}}, "momentum 1e+39"},
      {AC_SGD, {.optimizer = {.clip = 1e-46}}, "clip 1e-46"},
      {AC_MUON, {.optimizer = {.adamw_rate = 1e39}}, "1e+39"},
      {AC_ADAMW, {.optimizer = {.beta2 = 1}}, "below 1"},
      {AC_SGD, {.average_decay = 1}, "below 1"},
      {AC_SGD, {.loss_scaling = {AC_LOSS_SCALING_STATIC, .scale = 1e39}}, "1e+39"},
      {AC_SGD, {.group_count = 1, .groups = {{"w", {.rate = 1e39}}}}, "rate 1e+39"},
      {AC_SGD, {.group_count = 1, .groups = {{"w", {.weight_decay = 1e39}}}}, "weight decay 1e+39"},
      {AC_SGD, {.group_count = 1, .groups = {{"w", {.clip = 1e-46}}}}, "clip 1e-46"},
  };
  (void)state;
  ac_device *device = open_device("cpu");
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ac_trainer *trainer;
    ac_plan *plan;
    ac_graph *graph = line();
    const ac_plan_desc desc = {
        .batch = BATCH, .optimizer = {.kind = refused[i].kind}, .average = true};
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    assert_refused(ac_trainer_create(&trainer, plan, &refused[i].desc), AC_ERROR_ARGUMENT,
                   refused[i].says);
    ac_plan_free(plan);
    ac_graph_free(graph);
  }
  ac_device_close(device);
}

static double own_rate;
static double rate_of(void *user, int64_t update, double scheduled) {
  (void)user, (void)update, (void)scheduled;
  return own_rate;
}

static void read_both(run *r, float values[COUNT + OUT]) {
  assert_ok(ac_trainer_get_parameter(r->trainer, 0, 0, COUNT, values));
  assert_ok(ac_trainer_get_parameter(r->trainer, 1, 0, OUT, values + COUNT));
}

/* What is a float by itself and none times another is refused by the update, which changes nothing
 * and is made once the rate is a number. */
static void products_are_checked_as_floats(const char *device) {
  static const struct {
    ac_optimizer_kind kind;
    ac_gradients gradients;
    double rate;
    ac_trainer_desc desc;
    const char *says;
  } refused[] = {
      {AC_SGD, AC_GRADIENTS_BUFFER, 1e39, {.seed = 0}, "learning rate of update 0 would be 1e+39"},
      {AC_ADAMW, AC_GRADIENTS_FUSED, (double)NAN, {.seed = 0}, "learning rate of update 0"},
      {AC_SGD,
       AC_GRADIENTS_FUSED,
       1e30,
       {.group_count = 1, .groups = {{"b", {.rate = 1e30}}}},
       "learning rate of parameter b would be 1e+60"},
      {AC_ADAMW,
       AC_GRADIENTS_FUSED_LOCAL,
       1e30,
       {.group_count = 1, .groups = {{"b", {.rate = 1e30}}}},
       "parameter b"},
      {AC_ADAMW,
       AC_GRADIENTS_BUFFER,
       1e30,
       {.optimizer = {.weight_decay = 1e30}},
       "learning rate times its weight decay of parameter w would be 1e+60"},
      {AC_LION,
       AC_GRADIENTS_FUSED_LOCAL,
       1e30,
       {.group_count = 1, .groups = {{"b", {.weight_decay = 1e30}}}},
       "parameter b"},
      {AC_MUON,
       AC_GRADIENTS_BUFFER,
       1e30,
       {.optimizer = {.adamw_rate = 1e30}},
       "would be 1e+60, too large for a float"},
      {AC_ADAM_MINI, AC_GRADIENTS_BUFFER, 1e38, {.seed = 0}, "by 1 - beta1^t"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    float before[COUNT + OUT], after[COUNT + OUT];
    ac_trainer_desc desc = refused[i].desc;
    desc.rate = rate_of;
    run r = begin(
        device,
        (ac_plan_desc){.optimizer = {.kind = refused[i].kind}, .gradients = refused[i].gradients},
        desc);
    read_both(&r, before);
    feed_window(&r);
    own_rate = refused[i].rate;
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT, refused[i].says);
    assert_contains(ac_last_error(), "nothing was changed");
    read_both(&r, after);
    assert_memory_equal(before, after, sizeof before);
    own_rate = 1e-30;
    assert_ok(ac_trainer_update(r.trainer, NULL));
    stop(&r);
  }
}
ON_EVERY_DEVICE(products_are_checked_as_floats)

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct kept_file {
  test_path path;
  unsigned char *bytes;
  size_t size;
} kept_file;

static kept_file keep_file(const char *name) {
  kept_file f = {.path = in_folder(name)};
  f.bytes = read_file(f.path.text, &f.size);
  return f;
}

static void assert_kept(const kept_file *f) {
  size_t size;
  unsigned char *bytes = read_file(f->path.text, &size);
  assert_int_equal(size, f->size);
  assert_memory_equal(bytes, f->bytes, size);
  free(bytes);
}

static void assert_model_refused(run *r, const kept_file *model, const char *says) {
  assert_refused(ac_trainer_save(r->trainer, model->path.text, NULL, 0), AC_ERROR_NOT_FINITE, says);
  assert_refused(ac_trainer_save_part(r->trainer, model->path.text, "w", NULL, 0),
                 AC_ERROR_NOT_FINITE, says);
  assert_kept(model);
}

static void assert_state_refused(run *r, const kept_file *state, const char *says) {
  assert_refused(ac_trainer_save_state(r->trainer, state->path.text, NULL, 0), AC_ERROR_NOT_FINITE,
                 says);
  assert_kept(state);
}

/* In the parameter, and in what the optimizer keeps of another. */
static void check_value(run *r, const kept_file *model, const kept_file *state, float bad) {
  float was;
  assert_ok(ac_trainer_get_parameter(r->trainer, 0, 4, 1, &was));
  assert_ok(ac_trainer_set_parameter(r->trainer, 0, 4, 1, &bad));
  assert_model_refused(r, model, "element 4 of tensor \"w\" is not finite");
  assert_state_refused(r, state, "element 4 of tensor \"w\" is not finite");
  assert_ok(ac_trainer_save_part(r->trainer, in_folder("part").text, "b", NULL, 0));
  assert_ok(ac_trainer_set_parameter(r->trainer, 0, 4, 1, &was));
  assert_ok(ac_trainer_get_state(r->trainer, 1, 0, 1, 1, &was));
  assert_ok(ac_trainer_set_state(r->trainer, 1, 0, 1, 1, &bad));
  assert_state_refused(r, state, "element 1 of tensor \"accrue/state.0/b\" is not finite");
  assert_ok(ac_trainer_set_state(r->trainer, 1, 0, 1, 1, &was));
}

/* An average that overflows between two weights that do not: no gradient moves them. */
static void spoil_average(run *r) {
  static const float nothing[BATCH * IN];
  const ac_feed feeds[] = {{"x", nothing}, {"t", ts}};
  for (int k = 0; k < 2; k++) {
    const float far = k ? -3e38f : 3e38f;
    assert_ok(ac_trainer_set_parameter(r->trainer, 0, 4, 1, &far));
    if (!k) assert_ok(ac_trainer_set_updates(r->trainer, 0));
    assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 2));
    assert_ok(ac_trainer_update(r->trainer, NULL));
  }
}

static void good_files_stay(const char *device) {
  static const float bad[] = {(float)NAN, INFINITY, -INFINITY};
  const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_BF16};
  for (int p = 0; p < 2; p++) {
    run r = begin(
        device,
        (ac_plan_desc){.optimizer = {.kind = AC_SGD}, .average = true, .precision = precisions[p]},
        (ac_trainer_desc){.schedule = {.lr = 1e-3}, .optimizer = {.momentum = 0.5}});
    feed_window(&r);
    assert_ok(ac_trainer_update(r.trainer, NULL));
    assert_ok(ac_trainer_save(r.trainer, in_folder("model").text, NULL, 0));
    assert_ok(ac_trainer_save_state(r.trainer, in_folder("state").text, NULL, 0));
    kept_file model = keep_file("model"), state = keep_file("state");
    for (int i = 0; i < 3; i++) check_value(&r, &model, &state, bad[i]);
    spoil_average(&r);
    assert_state_refused(&r, &state, "element 4 of tensor \"accrue/average/w\" is not finite");
    assert_ok(ac_trainer_save(r.trainer, in_folder("part").text, NULL, 0));
    assert_ok(ac_trainer_use_average(r.trainer, true));
    assert_model_refused(&r, &model, "element 4 of tensor \"w\" is not finite");
    free(model.bytes);
    free(state.bytes);
    stop(&r);
  }
}
ON_EVERY_DEVICE(good_files_stay)

/* ---- the last update ------------------------------------------------------------------------- */

/* Nothing comes after it that would show what it has made of the weights. */
static void the_last_update_is_looked_at(const char *device) {
  static const float far[BATCH * OUT] = {100, -100, 200, 50};
  const ac_field fields[] = {{"x", AC_F32, IN}, {"t", AC_F32, OUT}};
  const void *const data[] = {xs, far};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, BATCH, 2, fields, data));
  for (int steps = 1; steps <= 2; steps++) {
    run r = begin(device, (ac_plan_desc){.optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
                  (ac_trainer_desc){.schedule = {.kind = AC_SCHEDULE_EXPONENTIAL,
                                                 .lr = steps == 1 ? 3e38 : 0.1,
                                                 .gamma = 3e38},
                                    .optimizer = {.clip = -1}});
    ac_fit_result result;
    const ac_fit_desc desc = {.train = dataset, .steps = steps};
    assert_refused(ac_fit(r.trainer, &desc, &result), AC_ERROR_NOT_FINITE,
                   steps == 1 ? "step 1: the update overflowed: element 0 of parameter w"
                              : "step 2: the update overflowed: element 0 of parameter w");
    assert_int_equal(result.updates, steps);
    stop(&r);
  }
  ac_dataset_free(dataset);
}
ON_EVERY_DEVICE(the_last_update_is_looked_at)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_are_checked_as_floats),
      cmocka_unit_test(products_are_checked_as_floats_everywhere),
      cmocka_unit_test(good_files_stay_everywhere),
      cmocka_unit_test(the_last_update_is_looked_at_everywhere),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
