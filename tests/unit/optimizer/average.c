/* Moving averages of weights: against PyTorch's AveragedModel in every way of gradients; exchanged
 * with the weights and back; in states; their bytes; and refusals. */
#include "support/practice.h"

#include "plan/plan.h"

static const char *device_name;

static ac_trainer_desc averaging(const op_vector *v) {
  return (ac_trainer_desc){.average_decay = practice_number(v, "average")};
}

static void read_all(run *r, float values[PRACTICE_COUNT]) {
  for (int i = 0; i < PRACTICE_PARAMETERS; values += practice_counts[i++])
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, practice_counts[i], values));
}

static double loss_of(run *r, const op_vector *v) {
  float x[PRACTICE_SAMPLES * 18], y[PRACTICE_SAMPLES * 4];
  ac_dataset *dataset;
  ac_evaluation evaluation;
  for (int i = 0; i < PRACTICE_SAMPLES * 18; i++) x[i] = (float)op_vector_find(v, "x")->data[i];
  for (int i = 0; i < PRACTICE_SAMPLES * 4; i++) y[i] = (float)op_vector_find(v, "y")->data[i];
  const ac_field fields[] = {{"x", AC_F32, 18}, {"y", AC_F32, 4}};
  const void *const data[] = {x, y};
  assert_ok(ac_dataset_from_memory(&dataset, PRACTICE_SAMPLES, 2, fields, data));
  assert_ok(ac_trainer_evaluate(r->trainer, dataset, 0, &evaluation));
  ac_dataset_free(dataset);
  return evaluation.loss;
}

/* In use and back again, all is what it was. */
static void check_ways(const op_vector *v) {
  static const ac_plan_desc ways[] = {{.micro_batch = 4},
                                      {.micro_batch = 3},
                                      {.micro_batch = 4, .whole_windows = true},
                                      {.gradients = AC_GRADIENTS_FUSED},
                                      {.gradients = AC_GRADIENTS_FUSED_LOCAL},
                                      {.optimizer = {.clipping = AC_CLIP_VALUE}, .micro_batch = 2}};
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    ac_plan_desc plan = ways[k];
    float before[PRACTICE_COUNT], after[PRACTICE_COUNT];
    plan.average = true;
    run r = practice_begin(device_name, v, plan, averaging(v));
    for (int u = 0; u < (int)practice_number(v, "updates"); u++) {
      practice_feed(&r, v, u);
      assert_ok(ac_trainer_update(r.trainer, NULL));
      read_all(&r, before);
      const double loss = loss_of(&r, v);
      assert_ok(ac_trainer_use_average(r.trainer, true));
      practice_check(&r, v, "ema", u, ac_trainer_get_parameter);
      assert_true((loss_of(&r, v) != loss) == (u > 0));
      assert_ok(ac_trainer_use_average(r.trainer, false));
      read_all(&r, after);
      assert_memory_equal(before, after, sizeof before);
      assert_true(loss_of(&r, v) == loss);
      practice_check(&r, v, "p", u, ac_trainer_get_parameter);
    }
    stop(&r);
  }
}

static void check_pytorch(const char *device) {
  device_name = device;
  practice_cases("ema_", 2, check_ways);
}

ON_EVERY_DEVICE(check_pytorch)

/* ---- states and bytes ------------------------------------------------------------------------ */

static void train(run *r, const op_vector *v, int first, int last) {
  for (int u = first; u < last; u++) {
    practice_feed(r, v, u);
    assert_ok(ac_trainer_update(r->trainer, NULL));
  }
}

static void check_state(const op_vector *v) {
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_BF16};
  const test_path path = in_folder("average.safetensors");
  for (int k = 0; k < 2; k++) {
    const ac_plan_desc plan = {.average = true, .precision = precisions[k], .micro_batch = 4};
    float whole[2][PRACTICE_COUNT], parts[2][PRACTICE_COUNT];
    run r = practice_begin("cpu", v, plan, averaging(v));
    train(&r, v, 0, 2);
    assert_ok(ac_trainer_use_average(r.trainer, true));
    assert_ok(ac_trainer_use_average(r.trainer, true)); /* they are */
    assert_ok(ac_trainer_use_average(r.trainer, false));
    assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
    train(&r, v, 2, 4);
    read_all(&r, whole[0]);
    assert_ok(ac_trainer_use_average(r.trainer, true));
    read_all(&r, whole[1]);
    stop(&r);
    r = practice_begin("cpu", v, plan, averaging(v));
    assert_ok(ac_trainer_load_state(r.trainer, path.text));
    train(&r, v, 2, 4);
    read_all(&r, parts[0]);
    assert_ok(ac_trainer_use_average(r.trainer, true));
    read_all(&r, parts[1]);
    assert_memory_equal(parts, whole, sizeof whole);
    stop(&r);
  }
  run r = practice_begin("cpu", v, (ac_plan_desc){.micro_batch = 4}, averaging(v));
  assert_refused(ac_trainer_load_state(r.trainer, path.text), AC_ERROR_FORMAT,
                 "tensor \"accrue/average/conv.weight\", which the model does not have");
  stop(&r);
}

static void states(void **state) {
  (void)state;
  practice_cases("ema_adamw", 1, check_state);
}

/* A float for each trained one. */
static void bytes(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_graph *graph = practice_graph();
  ac_plan *without, *with;
  ac_plan_desc desc = {.batch = 1, .micro_batch = 1, .frozen = "conv.*"};
  assert_ok(ac_plan_create(&without, graph, device, &desc));
  desc.average = true;
  assert_ok(ac_plan_create(&with, graph, device, &desc));
  uint64_t cells = 0;
  for (int i = 0; i < with->cell_count; i++)
    if (with->cells[i].role == AC_ROLE_AVERAGE) cells += with->cells[i].bytes;
  assert_int_equal(cells, (PRACTICE_COUNT - 57) * sizeof(float));
  assert_int_equal(with->info.average_bytes, cells);
  assert_true(with->info.bytes.optimizer - without->info.bytes.optimizer >= cells);
  assert_int_equal(with->info.bytes.total - without->info.bytes.total,
                   with->info.bytes.optimizer - without->info.bytes.optimizer);
  ac_plan_free(without);
  ac_plan_free(with);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void check_refusals(const op_vector *v) {
  const char *in_use = "averages are in the place of parameters";
  const test_path path = in_folder("refused.safetensors");
  float one = 1;
  run r = practice_begin("cpu", v, (ac_plan_desc){.micro_batch = 4}, averaging(v));
  assert_refused(ac_trainer_use_average(r.trainer, true), AC_ERROR_STATE, "keeps no averages");
  stop(&r);
  r = practice_begin("cpu", v, (ac_plan_desc){.micro_batch = 4, .average = true}, averaging(v));
  assert_refused(ac_trainer_use_average(r.trainer, true), AC_ERROR_STATE,
                 "there is no average before the first update");
  assert_ok(ac_trainer_use_average(r.trainer, false));
  train(&r, v, 0, 1);
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  practice_feed(&r, v, 1);
  assert_refused(ac_trainer_use_average(r.trainer, true), AC_ERROR_STATE,
                 "a window is in progress");
  ac_trainer_discard(r.trainer);
  assert_ok(ac_trainer_use_average(r.trainer, true));
  const ac_feed none = {"x", &one};
  assert_refused(ac_trainer_accumulate(r.trainer, 1, &none, 1), AC_ERROR_STATE, in_use);
  assert_refused(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &one), AC_ERROR_STATE, in_use);
  assert_refused(ac_trainer_save_state(r.trainer, path.text, NULL, 0), AC_ERROR_STATE, in_use);
  assert_refused(ac_trainer_load_state(r.trainer, path.text), AC_ERROR_STATE, in_use);
  assert_ok(ac_trainer_use_average(r.trainer, false));
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  ac_trainer *trainer;
  assert_refused(ac_trainer_create(&trainer, r.plan, &(ac_trainer_desc){.average_decay = 1}),
                 AC_ERROR_ARGUMENT, "the decay 1 of averages must be below 1");
  ac_graph *graph = practice_graph();
  ac_plan *plan;
  assert_refused(ac_plan_create(&plan, graph, r.device,
                                &(ac_plan_desc){.average = true,
                                                .precision = AC_PRECISION_BF16,
                                                .weights = AC_WEIGHTS_BF16}),
                 AC_ERROR_ARGUMENT, "averages need weights that have an original in f32");
  ac_graph_free(graph);
  stop(&r);
}

static void refusals(void **state) {
  (void)state;
  practice_cases("ema_sgd", 1, check_refusals);
}

/* ---- where nothing is stepped ---------------------------------------------------------------- */

/* A window that is skipped moves no average. */
static void check_skipped(const op_vector *v) {
  static const ac_gradients ways[] = {AC_GRADIENTS_BUFFER, AC_GRADIENTS_FUSED,
                                      AC_GRADIENTS_FUSED_LOCAL};
  for (int k = 0; k < 3; k++) {
    run r = practice_begin("cpu", v, (ac_plan_desc){.average = true, .gradients = ways[k]},
                           averaging(v));
    float before[PRACTICE_COUNT], after[PRACTICE_COUNT],
        x[PRACTICE_SAMPLES * 18] = {0}, y[PRACTICE_SAMPLES * 4] = {0};
    ac_update update;
    train(&r, v, 0, 2);
    assert_ok(ac_trainer_use_average(r.trainer, true));
    read_all(&r, before);
    assert_ok(ac_trainer_use_average(r.trainer, false));
    y[0] = INFINITY;
    const ac_feed feeds[] = {{"x", x}, {"y", y}};
    assert_ok(ac_trainer_accumulate(r.trainer, PRACTICE_SAMPLES, feeds, 2));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.skipped);
    assert_ok(ac_trainer_use_average(r.trainer, true));
    read_all(&r, after);
    assert_memory_equal(before, after, sizeof before);
    stop(&r);
  }
}

static void skipped(void **state) {
  (void)state;
  practice_cases("ema_sgd", 1, check_skipped);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(check_pytorch_everywhere),
                                     cmocka_unit_test(states), cmocka_unit_test(bytes),
                                     cmocka_unit_test(refusals), cmocka_unit_test(skipped)};
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
