/* Weights and gradients in bf16: which are stored so and in how many bytes, that what is rounded by
 * chance is right on average, and runs: the same bits again, also after a state, and losses near
 * those of a run in f32. tests/ops compares single roundings with references. */
#include "support/table_model.h"

#include <math.h>

static const ac_plan_desc weights = {.precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16};

static ac_dtype dtype_of(const run *t, ac_role role, const char *name) {
  const ac_cell *cell = ac_plan_cell(t->plan, role, ac_trainer_find_parameter(t->trainer, name), 0);
  return cell ? cell->dtype : AC_U8;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void large_weights_have_no_original(void **state) {
  (void)state;
  run t = begin("cpu", weights);
  assert_int_equal(dtype_of(&t, AC_ROLE_PARAMETER, "table"), AC_BF16);
  assert_int_equal(dtype_of(&t, AC_ROLE_PARAMETER, "matrix"), AC_BF16);
  assert_int_equal(dtype_of(&t, AC_ROLE_PARAMETER, "bias"), AC_F32);
  assert_int_equal(dtype_of(&t, AC_ROLE_GRADIENT, "table"), AC_F32);
  const ac_plan_info *info = ac_plan_get_info(t.plan);
  assert_int_equal(info->working_bytes, 0);
  assert_int_equal(info->weights, AC_WEIGHTS_BF16);
  assert_in_range(info->bytes.parameters, 2 * 2 * COUNT + 4 * ROWS, 2 * 2 * COUNT + 4 * ROWS + 192);
  stop(&t);
}

static void large_gradients_are_halved(void **state) {
  (void)state;
  for (int precision = AC_PRECISION_F32; precision <= AC_PRECISION_BF16; precision++) {
    run t = begin("cpu", (ac_plan_desc){.precision = (ac_precision)precision,
                                        .micro_batch = 2,
                                        .gradient_storage = AC_GRADIENT_BF16});
    assert_int_equal(dtype_of(&t, AC_ROLE_GRADIENT, "table"), AC_BF16);
    assert_int_equal(dtype_of(&t, AC_ROLE_GRADIENT, "matrix"), AC_BF16);
    assert_int_equal(dtype_of(&t, AC_ROLE_GRADIENT, "bias"), AC_F32);
    const uint64_t least = 2 * 2 * COUNT + 4 * ROWS;
    assert_in_range(ac_plan_get_info(t.plan)->bytes.gradients, least, least + 192);
    stop(&t);
  }
}

/* Weight standardisation reads its weights as floats. */
static void weights_read_as_floats_stay_f32(void **state) {
  (void)state;
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 3, 8, 8)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 4, 6, 6)),
            *w = ac_parameter(graph, "w", AC_SHAPE(4, 3, 3, 3), ZEROS);
  x = ac_conv2d(x, ac_weight_standardisation(w, 0), NULL, NULL);
  ac_graph_set_loss(graph, ac_mean_squared_error(x, y, NULL));
  ac_plan_desc desc = weights;
  desc.batch = 2;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_int_equal(ac_plan_cell(plan, AC_ROLE_PARAMETER, 0, 0)->dtype, AC_F32);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* ---- what is rounded is right on average ----------------------------------------------------- */

/* Weight decay takes a thousandth off at a time, a fraction of a weight's last bit: the nearest
 * value would be the same for ever. */
static void small_steps_are_not_lost_by(const char *device, ac_optimizer_kind optimizer) {
  enum { STEPS = 60 };
  ac_plan_desc desc = weights;
  desc.optimizer.kind = optimizer;
  run t = begin_with(
      device, desc,
      (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-6}, .optimizer = {.weight_decay = 1e3}});
  const int index = ac_trainer_find_parameter(t.trainer, "matrix");
  static float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = i % 2 ? 1.0f : -1.5f;
  assert_ok(ac_trainer_set_parameter(t.trainer, index, 0, COUNT, values));
  train_steps(&t, 0, STEPS);
  assert_ok(ac_trainer_get_parameter(t.trainer, index, 0, COUNT, values));
  double mean[2] = {0};
  int changed = 0;
  for (int i = 0; i < COUNT; i++) {
    mean[i % 2] += (double)values[i] * 2 / COUNT;
    changed += values[i] != (i % 2 ? 1.0f : -1.5f);
  }
  const double kept = pow(1 - 1e-3, STEPS);
  assert_true(changed > COUNT / 2);
  /* The deviation of a mean: about a tenth of the bound. */
  if (fabs(mean[1] - kept) > 0.004 || fabs(mean[0] + 1.5 * kept) > 0.006)
    fail_msg("%s, optimizer %d: means %g and %g, not %g and %g", device, (int)optimizer, mean[1],
             mean[0], kept, -1.5 * kept);
  stop(&t);
}

static void small_steps_are_not_lost(void **state) {
  static const ac_optimizer_kind kinds[] = {AC_ADAMW, AC_ADAFACTOR, AC_MUON, AC_ADAM_MINI};
  (void)state;
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < 4 && !is_missing(devices[d]); k++)
      small_steps_are_not_lost_by(devices[d], kinds[k]);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void runs_repeat_and_go_on(void **state) {
  (void)state;
  static const ac_plan_desc stored[] = {
      {.precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16},
      {.precision = AC_PRECISION_F32, .gradient_storage = AC_GRADIENT_BF16, .micro_batch = 4},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 1,
       .optimizer = {.kind = AC_LION}},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .optimizer = {.kind = AC_ADAFACTOR}},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 2,
       .optimizer = {.kind = AC_ADAFACTOR}},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 2,
       .optimizer = {.kind = AC_MUON}},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .micro_batch = 2,
       .optimizer = {.kind = AC_ADAM_MINI}},
      {.precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16,
       .gradient_storage = AC_GRADIENT_BF16,
       .whole_windows = true,
       .optimizer = {.state = AC_STATE_8BIT, .state_f32 = ""}},
  };
  for (int d = 0; d < 2; d++)
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
      if (is_missing(devices[d])) continue;
      ac_plan_desc floats = stored[k];
      floats.weights = AC_WEIGHTS_F32;
      floats.gradient_storage = AC_GRADIENT_F32;
      const test_path path = in_folder("state");
      run whole, half, other = begin(devices[d], floats);
      const double loss = train_with_a_state(devices[d], stored[k], path.text, &whole, &half);
      if (stored[k].weights == AC_WEIGHTS_BF16)
        assert_refused(ac_trainer_load_state(other.trainer, path.text), AC_ERROR_FORMAT,
                       "is kept in bf16, and the plan keeps it in f32");
      const double exact = train_steps(&other, 0, 40);
      if (!(fabs(loss - exact) < 0.02 * exact) || loss == exact)
        fail_msg("%s, case %d: loss %.9g in bf16, %.9g in f32", devices[d], (int)k, loss, exact);
      stop(&whole);
      stop(&half);
      stop(&other);
    }
}

/* Half of a window in a state: sums in bf16 go on. */
static void windows_go_on(void **state) {
  (void)state;
  const ac_plan_desc desc = {.gradient_storage = AC_GRADIENT_BF16, .micro_batch = 2};
  const test_path path = in_folder("window");
  run whole = begin("cpu", desc), half = begin("cpu", desc);
  ac_update a, b;
  accumulate(&whole, 0);
  accumulate(&whole, 1);
  assert_ok(ac_trainer_update(whole.trainer, &a));
  accumulate(&half, 0);
  assert_ok(ac_trainer_save_state(half.trainer, path.text, NULL, 0));
  stop(&half);
  half = begin("cpu", desc);
  assert_ok(ac_trainer_load_state(half.trainer, path.text));
  accumulate(&half, 1);
  assert_ok(ac_trainer_update(half.trainer, &b));
  assert_true(a.loss == b.loss && a.grad_norm == b.grad_norm);
  stop(&whole);
  stop(&half);
}

/* A whole window, and the update in another trainer: the numbers that round are those of the
 * update. */
static void an_update_after_a_state_rounds_alike(void **state) {
  (void)state;
  ac_plan_desc desc = weights;
  desc.micro_batch = 2;
  const test_path path = in_folder("whole");
  run whole = begin("cpu", desc), late = begin("cpu", desc);
  train_steps(&whole, 0, 3);
  accumulate(&whole, 3);
  assert_ok(ac_trainer_save_state(whole.trainer, path.text, NULL, 0));
  assert_ok(ac_trainer_update(whole.trainer, NULL));
  assert_ok(ac_trainer_load_state(late.trainer, path.text));
  assert_ok(ac_trainer_update(late.trainer, NULL));
  assert_same_parameters(&whole, &late);
  stop(&whole);
  stop(&late);
}

/* Gradients that ops give in 16 bits are rounded by chance too when they are added up. */
static void every_sum_is_rounded_by_chance(void **state) {
  (void)state;
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  const ac_parameter_desc normal = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.1f}};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, WIDTH)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, ROWS)),
            *w = ac_parameter(graph, "w", AC_SHAPE(ROWS, WIDTH), &normal);
  ac_tensor *twice =
      ac_add(ac_linear(x, ac_scale(w, 2), NULL, AC_OUT_IN), ac_linear(x, w, NULL, AC_OUT_IN));
  ac_graph_set_loss(graph, ac_mean_squared_error(twice, y, NULL));
  const ac_plan_desc desc = {.batch = 4,
                             .micro_batch = 2,
                             .precision = AC_PRECISION_BF16,
                             .gradient_storage = AC_GRADIENT_BF16};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  int sums = 0;
  for (int i = 0; i < plan->graph->node_count; i++)
    sums += ac_node_at(plan->graph, i)->op == AC_OP_rounded_sum;
  assert_int_equal(sums, 2);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void seeds_round_differently(void **state) {
  (void)state;
  run one = begin_with("cpu", weights, (ac_trainer_desc){.seed = 3}),
      two = begin_with("cpu", weights, (ac_trainer_desc){.seed = 4});
  size_t count;
  float *first = all_parameters(&one, &count);
  int at = 0;
  for (int i = 0; i < 3; i++) {
    const int size = i == 1 ? ROWS : COUNT;
    assert_ok(ac_trainer_set_parameter(two.trainer, i, 0, size, first + at));
    at += size;
  }
  free(first);
  assert_true(train_steps(&one, 0, 1) == train_steps(&two, 0, 1));
  assert_true(train_steps(&one, 1, 10) != train_steps(&two, 1, 10));
  stop(&one);
  stop(&two);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_weights_have_no_original),
      cmocka_unit_test(large_gradients_are_halved),
      cmocka_unit_test(weights_read_as_floats_stay_f32),
      cmocka_unit_test(small_steps_are_not_lost),
      cmocka_unit_test(runs_repeat_and_go_on),
      cmocka_unit_test(windows_go_on),
      cmocka_unit_test(an_update_after_a_state_rounds_alike),
      cmocka_unit_test(every_sum_is_rounded_by_chance),
      cmocka_unit_test(seeds_round_differently),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
