/* Groups of parameters with a rate, a weight decay and a clip of their own: against PyTorch's, in
 * every way of keeping gradients, changed in between, in states, and refused. */
#include "support/practice.h"

static const char *device_name;

static ac_trainer_desc grouped(const op_vector *v) {
  return (ac_trainer_desc){.optimizer = {.weight_decay = practice_number(v, "weight_decay"),
                                         .clip = practice_number(v, "clip")},
                           .groups = {{"conv.weight",
                                       {.rate = practice_number(v, "rate0"),
                                        .weight_decay = practice_number(v, "decay0")}},
                                      {"*.bias",
                                       {.rate = practice_number(v, "rate1"),
                                        .weight_decay = practice_number(v, "decay1")}},
                                      {"head.*", {.clip = practice_number(v, "clip2")}}},
                           .group_count = 3};
}

/* The first group from the fourth update on. */
static void change(ac_trainer *trainer, const op_vector *v) {
  const ac_group_settings then = {.rate = practice_number(v, "rate_then"), .weight_decay = -1};
  ac_group_settings now;
  assert_ok(ac_trainer_set_group(trainer, 0, &then));
  assert_ok(ac_trainer_get_group(trainer, 0, &now));
  assert_true(now.rate == then.rate && now.weight_decay == then.weight_decay && now.clip == 0);
}

static void check_ways(const op_vector *v) {
  static const ac_plan_desc ways[] = {
      {.micro_batch = 4}, {.micro_batch = 3}, {.gradients = AC_GRADIENTS_FUSED}};
  const int updates = (int)practice_number(v, "updates");
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    run r = practice_begin(device_name, v, ways[k], grouped(v));
    for (int u = 0; u < updates; u++) {
      ac_update update;
      if (u == 3) change(r.trainer, v);
      practice_feed(&r, v, u);
      assert_ok(ac_trainer_update(r.trainer, &update));
      practice_check(&r, v, "p", u, ac_trainer_get_parameter);
      double biases = 0;
      for (int i = 1; i < PRACTICE_PARAMETERS; i += 2)
        biases += pow(ac_trainer_gradient_norm(r.trainer, i), 2);
      assert_int_equal(update.group_count, 3);
      assert_true(update.group_norms[0] == ac_trainer_gradient_norm(r.trainer, 0));
      assert_true(fabs(update.group_norms[1] - sqrt(biases)) < 1e-9);
      assert_true(update.group_norms[2] == ac_trainer_gradient_norm(r.trainer, 4));
      assert_true(update.group_norms[2] > practice_number(v, "clip2"));
    }
    stop(&r);
  }
}

static void check_pytorch(const char *device) {
  device_name = device;
  practice_cases("groups_", 2, check_ways);
}

ON_EVERY_DEVICE(check_pytorch)

/* ---- other ways ------------------------------------------------------------------------------ */

/* Where nothing is clipped, locally is as with a buffer, to the bit. */
static void check_local(const op_vector *v) {
  float values[2][PRACTICE_COUNT];
  for (int local = 0; local < 2; local++) {
    ac_trainer_desc desc = grouped(v);
    desc.optimizer.clip = desc.groups[2].settings.clip = 0;
    const ac_gradients way = local ? AC_GRADIENTS_FUSED_LOCAL : AC_GRADIENTS_BUFFER;
    run r = practice_begin("cpu", v, (ac_plan_desc){.gradients = way, .micro_batch = 4}, desc);
    for (int u = 0; u < 4; u++) {
      if (u == 3) change(r.trainer, v);
      practice_feed(&r, v, u);
      assert_ok(ac_trainer_update(r.trainer, NULL));
    }
    float *to = values[local];
    for (int i = 0; i < PRACTICE_PARAMETERS; to += practice_counts[i++])
      assert_ok(ac_trainer_get_parameter(r.trainer, i, 0, practice_counts[i], to));
    stop(&r);
  }
  assert_memory_equal(values[0], values[1], sizeof *values);
}

/* A clip of the group bounds each one's gradient; of SGD's first update it is the whole step. */
static void check_local_clip(const op_vector *v) {
  if (practice_number(v, "adamw") != 0) return;
  ac_trainer_desc desc = {.optimizer = {.momentum = -1, .clip = 10},
                          .groups = {{"mid.*", {.clip = 0.01}}, {"head.*", {.rate = -1}}},
                          .group_count = 2};
  run r = practice_begin("cpu", v, (ac_plan_desc){.gradients = AC_GRADIENTS_FUSED_LOCAL}, desc);
  const double *before = op_vector_find(v, "p0")->data, lr = practice_number(v, "lr");
  practice_feed(&r, v, 0);
  assert_ok(ac_trainer_update(r.trainer, NULL));
  for (int i = 0; i < PRACTICE_PARAMETERS; before += practice_counts[i++]) {
    float values[PRACTICE_COUNT];
    double squares = 0;
    assert_ok(ac_trainer_get_parameter(r.trainer, i, 0, practice_counts[i], values));
    for (int64_t e = 0; e < practice_counts[i]; e++)
      squares += pow((double)values[e] - (double)(float)before[e], 2);
    const double norm = ac_trainer_gradient_norm(r.trainer, i), want = i >= 4   ? 0
                                                                       : i >= 2 ? fmin(norm, 0.01)
                                                                                : norm;
    assert_true(fabs(sqrt(squares) - lr * want) <= 1e-6);
  }
  stop(&r);
}

static void locally(void **state) {
  (void)state;
  practice_cases("groups_", 2, check_local);
  practice_cases("groups_", 2, check_local_clip);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* What was changed goes with the state, and what was not is the description's. */
static void check_states(const op_vector *v) {
  const test_path path = in_folder("groups.safetensors");
  for (int changed = 0; changed < 2; changed++) {
    run r = practice_begin("cpu", v, (ac_plan_desc){0}, grouped(v));
    ac_group_settings first, second;
    if (changed) change(r.trainer, v);
    assert_ok(ac_trainer_get_group(r.trainer, 0, &first));
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    stop(&r);
    r = practice_begin("cpu", v, (ac_plan_desc){0}, grouped(v));
    assert_ok(ac_trainer_set_group(r.trainer, 0, &(ac_group_settings){.rate = 7, .clip = 3}));
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    assert_ok(ac_trainer_get_group(r.trainer, 0, &second));
    assert_memory_equal(&first, &second, sizeof first);
    stop(&r);
  }
  ac_trainer_desc fewer = grouped(v);
  fewer.group_count = 2;
  run r = practice_begin("cpu", v, (ac_plan_desc){0}, fewer);
  assert_refused(ac_trainer_load_state(r.trainer, path.text), AC_ERROR_FORMAT,
                 "has settings of other groups of parameters than these 2");
  stop(&r);
}

static void states(void **state) {
  (void)state;
  practice_cases("groups_sgd", 1, check_states);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    ac_trainer_desc desc;
    const char *sentence;
  } cases[] = {
      {{.groups = {{"mid.*,nothing", {0}}}, .group_count = 1},
       "no parameter's name matches \"nothing\" of group 0"},
      {{.groups = {{"mid.*", {0}}, {NULL, {0}}}, .group_count = 2}, "group 1 has no patterns"},
      {{.group_count = 9}, "9 groups of parameters; there are at most 8"},
      {{.group_count = -1}, "-1 groups of parameters"},
      {{.groups = {{"*", {.rate = NAN}}}, .group_count = 1}, "a setting of group 0 is not finite"},
      {{.groups = {{"*", {.clip = NAN}}}, .group_count = 1}, "a setting of group 0 is not finite"},
      {{.groups = {{"*", {.weight_decay = INFINITY}}}, .group_count = 1},
       "a setting of group 0 is not finite"},
  };
  ac_device *device = open_device("cpu");
  ac_graph *graph = practice_graph();
  ac_plan *plan, *folded;
  ac_trainer *trainer;
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 1}));
  assert_ok(ac_plan_create(&folded, graph, device,
                           &(ac_plan_desc){.batch = 1, .gradients = AC_GRADIENTS_FOLDED}));
  ac_graph_free(graph);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_refused(ac_trainer_create(&trainer, plan, &cases[i].desc), AC_ERROR_ARGUMENT,
                   cases[i].sentence);
  ac_trainer_desc desc = {.groups = {{"mid.*", {.clip = 1}}}, .group_count = 1};
  assert_refused(ac_trainer_create(&trainer, folded, &desc), AC_ERROR_ARGUMENT,
                 "cannot be clipped by the norm of all");
  desc.groups[0].settings.clip = 0;
  assert_ok(ac_trainer_create(&trainer, folded, &desc));
  ac_group_settings settings = {.clip = 1};
  assert_refused(ac_trainer_set_group(trainer, 0, &settings), AC_ERROR_ARGUMENT,
                 "cannot be clipped by the norm of all");
  assert_ok(ac_trainer_get_group(trainer, 0, &settings));
  assert_true(settings.clip == 0 && settings.rate == 1);
  assert_refused(ac_trainer_set_group(trainer, 1, &settings), AC_ERROR_ARGUMENT, "group 1 of 1");
  assert_refused(ac_trainer_get_group(trainer, -1, &settings), AC_ERROR_ARGUMENT, "group -1 of 1");
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_plan_free(folded);
  ac_device_close(device);
}

/* Two parameters with equal gradients, one with a quarter of the rate, or almost none. */
static void own_rates(void **state) {
  (void)state;
  static const double rates[] = {0.25, 2.2250738585072014e-308};
  const float x[] = {1, 2}, t[] = {3, 5};
  for (int k = 0; k < 2; k++) {
    ac_device *device = open_device("cpu");
    ac_graph *graph;
    ac_plan *plan;
    ac_trainer *trainer;
    assert_ok(ac_graph_create(&graph));
    ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 1)),
              *target = ac_input(graph, "t", AC_F32, AC_SHAPE(AC_BATCH, 1));
    const ac_parameter_desc whole = {.init = {AC_INIT_CONSTANT, .value = 1}},
                            part = {.init = {AC_INIT_CONSTANT, .value = 1}, .rate = rates[k]};
    ac_tensor *a = ac_parameter(graph, "a", AC_SHAPE(1, 1), &whole),
              *b = ac_parameter(graph, "b", AC_SHAPE(1, 1), &part);
    ac_tensor *y = ac_add(ac_linear(in, a, NULL, AC_OUT_IN), ac_linear(in, b, NULL, AC_OUT_IN));
    ac_graph_set_loss(graph, ac_mean_squared_error(y, target, NULL));
    ac_plan_desc desc = {.batch = 2, .optimizer = {.kind = AC_SGD}};
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    ac_graph_free(graph);
    assert_ok(ac_trainer_create(
        &trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.01}, .optimizer = {.clip = -1}}));
    const ac_feed feeds[] = {{"x", x}, {"t", t}};
    float values[2];
    assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
    assert_ok(ac_trainer_update(trainer, NULL));
    for (int p = 0; p < 2; p++) assert_ok(ac_trainer_get_parameter(trainer, p, 0, 1, &values[p]));
    assert_true(fabs((double)values[0] - 1) > 1e-3);
    assert_true(fabs(((double)values[1] - 1) - rates[k] * ((double)values[0] - 1)) < 1e-6);
    ac_trainer_free(trainer);
    ac_plan_free(plan);
    ac_device_close(device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(check_pytorch_everywhere),
                                     cmocka_unit_test(locally), cmocka_unit_test(states),
                                     cmocka_unit_test(refusals), cmocka_unit_test(own_rates)};
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
