/* Other uses of a state: it is also a model file; moments through the interface; and parts of
 * models, by patterns of names. */
#include "support/victims.h"

#include <math.h>

/* A state is a model file: trainers take its weights, sessions compute with them. */
static void a_state_is_a_model_file(void **state) {
  (void)state;
  const test_path path = good_state();
  run whole = start_model("cpu", &both, &split, &trained);
  assert_ok(ac_trainer_load_state(whole.trainer, path.text));
  const snapshot loaded = look_at(&whole);

  victim v = make_victim(&both, &split, &trained, 3);
  assert_ok(ac_trainer_load(v.r.trainer, path.text, NULL));
  const snapshot now = look_at(&v.r);
  assert_memory_equal(now.weights, loaded.weights, sizeof now.weights);
  assert_memory_equal(now.moments, v.before.moments, sizeof now.moments);
  assert_memory_equal(&now.progress, &v.before.progress, sizeof now.progress);
  end_run(&v.r);

  ac_graph *graph = graph_of(&both);
  ac_plan *plan;
  ac_session *session;
  ac_evaluation evaluations[2];
  ac_dataset *dataset = dataset_of(COUNT);
  const ac_plan_desc evaluates = {
      .purpose = AC_EVALUATE, .batch = 2, .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
  assert_ok(ac_plan_create(&plan, graph, whole.device, &evaluates));
  assert_ok(ac_session_create(&session, plan, 77));
  assert_ok(ac_session_load(session, path.text, NULL));
  assert_ok(ac_session_evaluate(session, dataset, 0, &evaluations[0]));
  assert_ok(ac_trainer_evaluate(whole.trainer, dataset, 0, &evaluations[1]));
  facts a = {.count = 0}, b = {.count = 0};
  add_evaluation(&a, &evaluations[0]);
  add_evaluation(&b, &evaluations[1]);
  assert_true(same_facts(&a, &b));
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_dataset_free(dataset);
  end_run(&whole);
}

/* How many states the optimizer keeps for a parameter, by reading one element of each. */
static int kept_for(const run *r, const char *name) {
  const int index = ac_trainer_find_parameter(r->trainer, name);
  float value;
  int kept = 0;
  for (int k = 0; k < 4; k++)
    kept += ac_trainer_get_state(r->trainer, index, k, 0, 1, &value) == AC_OK;
  return kept;
}

static void moments_are_read_and_written(const char *device) {
  const ac_plan_desc plans[] = {
      {.batch = BATCH},
      {.batch = BATCH, .optimizer = {.kind = AC_SGD}},
      {.batch = BATCH, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}},
      {.batch = BATCH, .optimizer = {.kind = AC_LION}}};
  for (int i = 0; i < 4; i++) {
    run r = start_model(device, &both, &plans[i], &trained);
    const int states = i == 3 ? 1 : 2 - i, shared = ac_trainer_find_parameter(r.trainer, "shared");
    assert_int_equal(ac_trainer_state_count(r.trainer), states);
    assert_int_equal(kept_for(&r, "shared"), states);
    assert_int_equal(kept_for(&r, "norm.running_mean"), 0);
    assert_ok(feed_samples(&r, 0, BATCH));
    float gradient[16], values[16], read[16];
    assert_ok(ac_trainer_get_gradient(r.trainer, shared, 0, 16, gradient));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    for (int k = 0; k < states; k++) {
      assert_ok(ac_trainer_get_state(r.trainer, shared, k, 0, 16, read));
      for (int e = 0; e < 16; e++) { /* of the mean gradient, after one update */
        const float g = gradient[e] / BATCH;
        const float moment = i == 3 ? 0.01f * g : i ? g : k ? 0.001f * g * g : 0.1f * g;
        assert_true(fabsf(read[e] - moment) <= 2e-5f * fabsf(moment)); /* 0.999 is off by 1.3e-8 */
        values[e] = (float)(e + k);
      }
      assert_ok(ac_trainer_set_state(r.trainer, shared, k, 3, 5, values));
      memcpy(read + 3, values, 5 * sizeof *values);
      assert_ok(ac_trainer_get_state(r.trainer, shared, k, 0, 16, values));
      assert_memory_equal(values, read, sizeof read);
      assert_int_equal(ac_trainer_get_state(r.trainer, shared, k, 15, 2, read), AC_ERROR_ARGUMENT);
      assert_int_equal(ac_trainer_set_state(r.trainer, shared, k, -1, 2, read), AC_ERROR_ARGUMENT);
    }
    const int frozen = ac_trainer_find_parameter(r.trainer, "norm.running_mean");
    assert_refused(ac_trainer_get_state(r.trainer, shared, states, 0, 1, read), AC_ERROR_ARGUMENT,
                   "the optimizer keeps no state");
    assert_refused(ac_trainer_set_state(r.trainer, frozen, 0, 0, 1, read), AC_ERROR_ARGUMENT,
                   "the optimizer keeps no state 0");
    assert_int_equal(ac_trainer_get_state(r.trainer, shared, -1, 0, 1, read), AC_ERROR_ARGUMENT);
    assert_int_equal(ac_trainer_get_state(r.trainer, 99, 0, 0, 1, read), AC_ERROR_ARGUMENT);
    end_run(&r);
  }
}
ON_SHARED_DEVICES(moments_are_read_and_written)

/* Adafactor's are of rows and columns, and so fewer than the parameter's elements. */
static void moments_of_rows_and_columns_are_read(const char *device) {
  const ac_plan_desc plan = {.batch = BATCH, .optimizer = {.kind = AC_ADAFACTOR}};
  run r = start_model(device, &both, &plan, &trained);
  const int shared = ac_trainer_find_parameter(r.trainer, "shared");
  ac_tensor_info info;
  assert_ok(ac_trainer_parameter_info(r.trainer, shared, &info));
  const int rows = (int)info.shape[0], columns = (int)info.shape[1];
  assert_int_equal(rows * columns, 16);
  assert_ok(feed_samples(&r, 0, BATCH));
  float gradient[16], read[16];
  assert_ok(ac_trainer_get_gradient(r.trainer, shared, 0, 16, gradient));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  for (int k = 0; k < 2; k++) {
    const int count = k ? columns : rows, terms = k ? rows : columns;
    assert_ok(ac_trainer_get_state(r.trainer, shared, k, 0, count, read));
    for (int i = 0; i < count; i++) {
      float mean = 0;
      for (int j = 0; j < terms; j++) {
        const float g = gradient[k ? j * columns + i : i * columns + j] / BATCH;
        mean += g * g / (float)terms;
      }
      assert_true(fabsf(read[i] - mean) <= 1e-5f * mean);
    }
    assert_ok(ac_trainer_set_state(r.trainer, shared, k, 1, count - 1, read));
    assert_refused(ac_trainer_get_state(r.trainer, shared, k, 0, count + 1, read),
                   AC_ERROR_ARGUMENT, "which has");
    assert_refused(ac_trainer_set_state(r.trainer, shared, k, count, 1, read), AC_ERROR_ARGUMENT,
                   "which has");
  }
  end_run(&r);
}
ON_SHARED_DEVICES(moments_of_rows_and_columns_are_read)

/* Weights and moments that are read out and written into another trainer go on as if they were
 * its own. */
static void moments_move_through_the_interface(void **state) {
  (void)state;
  const ac_plan_desc plan = {.batch = BATCH};
  run a = begin_run(&both, &plan, &trained, 0, 0), b = begin_run(&both, &plan, &trained, 3, 0);
  float values[64];
  for (int i = 0; i < ac_trainer_parameter_count(a.trainer); i++) {
    const int count = (int)elements(a.trainer, i);
    assert_ok(ac_trainer_get_parameter(a.trainer, i, 0, count, values));
    assert_ok(ac_trainer_set_parameter(b.trainer, i, 0, count, values));
    for (int k = 0; k < 2; k++)
      if (ac_trainer_get_state(a.trainer, i, k, 0, count, values) == AC_OK)
        assert_ok(ac_trainer_set_state(b.trainer, i, k, 0, count, values));
  }
  end_window(&a);
  end_window(&b);
  const snapshot x = look_at(&a), y = look_at(&b);
  assert_same("moved by hand", &x, &y);
  end_run(&a);
  end_run(&b);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The names in a file, each followed by a space. */
static void names_in(const char *path, char text[256]) {
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path));
  int used = 0;
  for (int i = 0; i < ac_model_file_tensor_count(file); i++)
    used += snprintf(text + used, 256 - (size_t)used, "%s ", ac_model_file_tensor(file, i)->name);
  const char *note = ac_model_file_metadata(file, "note");
  assert_string_equal(note ? note : "", "of a part");
  ac_model_file_close(file);
}

/* Of another trainer's parameters, those of the part come, and no others. */
static void take_part(const char *path, const char *pattern, const snapshot *whole) {
  victim v = make_victim(&both, &split, &trained, 3);
  assert_ok(ac_trainer_load_part(v.r.trainer, path, pattern, NULL));
  const snapshot now = look_at(&v.r);
  for (int i = 0, at = 0; i < ac_trainer_parameter_count(v.r.trainer); i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(v.r.trainer, i, &info));
    const size_t bytes = (size_t)elements(v.r.trainer, i) * sizeof(float);
    const bool in_part = !strncmp(info.name, "encoder", 7);
    const float *from = in_part ? whole->weights : v.before.weights;
    assert_memory_not_equal(v.before.weights + at, whole->weights + at, bytes);
    assert_memory_equal(now.weights + at, from + at, bytes);
    at += elements(v.r.trainer, i);
  }
  assert_memory_equal(now.moments, v.before.moments, sizeof now.moments);
  assert_memory_equal(now.gradients, v.before.gradients, sizeof now.gradients);
  assert_memory_equal(&now.progress, &v.before.progress, sizeof now.progress);
  end_run(&v.r);
}

static void parts_go_by_patterns(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *names;
  } cases[] = {
      {"*", "norm.weight norm.running_mean norm.running_var encoder encoder.bias shared "},
      {"encoder*", "encoder encoder.bias "},
      {"*.bias", "encoder.bias "},
      {"norm.running_???", "norm.running_var "},
      {"[es]*[rd]", "encoder shared "},
      {"shared", "shared "},
  };
  const ac_metadata note = {"note", "of a part"};
  const test_path path = in_folder("part");
  run r = begin_run(&both, &split, &(ac_trainer_desc){.seed = 8}, 0, 2);
  const snapshot whole = look_at(&r);
  char names[256];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_ok(ac_trainer_save_part(r.trainer, path.text, cases[i].pattern, &note, 1));
    names_in(path.text, names);
    assert_string_equal(names, cases[i].names);
  }
  assert_ok(ac_trainer_save_part(r.trainer, path.text, "encoder*", &note, 1));
  take_part(path.text, "encoder*", &whole);
  take_part(save_run(&r, "state").text, "encoder*", &whole);
  end_run(&r);
}

static void parts_that_are_none_are_refused(void **state) {
  (void)state;
  const test_path path = in_folder("part"), none = in_folder("no_part");
  victim v = make_victim(&both, &split, &trained, 2);
  assert_ok(ac_trainer_save_part(v.r.trainer, path.text, "encoder*", NULL, 0));
  static const char *const patterns[] = {"", "encode", "Encoder", "h.*", "encoder?"};
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    assert_refused(ac_trainer_save_part(v.r.trainer, none.text, patterns[i], NULL, 0),
                   AC_ERROR_ARGUMENT, "no parameter's name matches \"");
    assert_refused(ac_trainer_load_part(v.r.trainer, path.text, patterns[i], NULL),
                   AC_ERROR_ARGUMENT, "no parameter's name matches \"");
  }
  assert_int_equal(access(none.text, F_OK), -1);
  assert_int_not_equal(ac_trainer_load_part(v.r.trainer, path.text, "[es]*", NULL), AC_OK);
  assert_non_null(strstr(ac_last_error(), "shared"));
  assert_untouched(&v, "a part that is not there");
  free_victim(&v);
}

/* ---- a frozen base --------------------------------------------------------------------------- */

static bool has_tensor(const char *path, const char *name) {
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path));
  const bool has = ac_model_file_find(file, name) >= 0;
  ac_model_file_close(file);
  return has;
}

/* States leave out what is frozen, and hold running statistics, which no gradient moves. Another
 * trainer that has the frozen weights goes on with the same bits. */
static void states_leave_out_what_is_frozen(void **state) {
  (void)state;
  ac_plan_desc plan = split;
  plan.frozen = "encoder*";
  const ac_trainer_desc base = {.seed = 3, .schedule = {.lr = 0.02}, .states_without_frozen = true};
  const test_path path = in_folder("without");
  run a = start_model("cpu", &both, &plan, &base);
  assert_ok(feed_samples(&a, 0, BATCH));
  assert_ok(ac_trainer_update(a.trainer, NULL));
  assert_ok(feed_samples(&a, 6, 2));
  assert_ok(ac_trainer_save_state(a.trainer, path.text, NULL, 0));
  assert_false(has_tensor(path.text, "encoder"));
  assert_false(has_tensor(path.text, "encoder.bias"));
  assert_true(has_tensor(path.text, "shared"));
  assert_true(has_tensor(path.text, "norm.running_mean"));
  assert_true(has_tensor(path.text, "norm.running_var"));

  ac_trainer_desc other = base;
  other.seed = 9;
  run b = start_model("cpu", &both, &plan, &other);
  static const char *const frozen[] = {"encoder", "encoder.bias"};
  float values[64];
  for (int i = 0; i < 2; i++) {
    const int index = ac_trainer_find_parameter(a.trainer, frozen[i]);
    const int count = (int)elements(a.trainer, index);
    assert_ok(ac_trainer_get_parameter(a.trainer, index, 0, count, values));
    assert_ok(ac_trainer_set_parameter(b.trainer, index, 0, count, values));
  }
  assert_ok(ac_trainer_load_state(b.trainer, path.text));
  end_window(&a);
  end_window(&b);
  const snapshot x = look_at(&a), y = look_at(&b);
  assert_same("a state without its frozen weights", &x, &y);

  /* Where the setting is another, a state says what it lacks, or what is not asked for. */
  run whole = start_model("cpu", &both, &plan, &trained);
  assert_refused(ac_trainer_load_state(whole.trainer, path.text), AC_ERROR_FORMAT,
                 "holds no tensor \"encoder\"");
  assert_ok(ac_trainer_save_state(whole.trainer, path.text, NULL, 0));
  assert_refused(ac_trainer_load_state(b.trainer, path.text), AC_ERROR_FORMAT,
                 "holds tensor \"encoder\", which the model does not have");
  end_run(&whole);
  end_run(&a);
  end_run(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_state_is_a_model_file),
      cmocka_unit_test(moments_are_read_and_written_everywhere),
      cmocka_unit_test(moments_of_rows_and_columns_are_read_everywhere),
      cmocka_unit_test(moments_move_through_the_interface),
      cmocka_unit_test(states_leave_out_what_is_frozen),
      cmocka_unit_test(parts_go_by_patterns),
      cmocka_unit_test(parts_that_are_none_are_refused),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
