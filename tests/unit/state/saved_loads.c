/* All that can be trained can be saved, and all that is saved can be loaded: names that no file can
 * hold are refused before training, and every setting of a caller goes into a state and comes back.
 */
#include "support/victims.h"

#include "core/utf8.h"

#include <jansson.h>
#include <math.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* What there is an other opinion on: the writer's, of each sequence of up to four bytes of those at
 * which a rule begins or ends. */
static void utf8_is_the_writer_s(void **state) {
  (void)state;
  static const unsigned char edges[] = {0,    'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                        0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                        0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xff};
  enum { EDGES = sizeof edges };
  int good = 0, bad = 0;
  for (int i = 0; i < EDGES * EDGES * EDGES * EDGES; i++) {
    char text[5] = "";
    for (int k = 0, rest = i; k < 4; k++, rest /= EDGES) text[k] = (char)edges[rest % EDGES];
    json_t *string = json_string(text);
    if (ac_is_utf8(text) != (string != NULL))
      fail_msg("%02x %02x %02x %02x is %s", (unsigned char)text[0], (unsigned char)text[1],
               (unsigned char)text[2], (unsigned char)text[3], string ? "UTF-8" : "not UTF-8");
    good += string != NULL, bad += string == NULL;
    json_decref(string);
  }
  assert_true(good > 1000 && bad > 1000);
}

/* NULL: it was refused. */
static ac_graph *graph_with(const char *parameter, const char *loss) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, 2)),
            *y = ac_input(graph, "y", AC_F32, SHAPE(AC_BATCH, 2));
  ac_tensor *w = ac_parameter(graph, parameter, SHAPE(2, 2), ZEROS);
  x = ac_linear(x, w, ac_parameter(graph, "w", SHAPE(2), NULL), AC_OUT_IN);
  ac_graph_add_loss(graph, loss, ac_mean_squared_error(x, y, NULL), 1);
  if (ac_graph_status(graph) == AC_OK) return graph;
  assert_int_equal(ac_graph_status(graph), AC_ERROR_ARGUMENT);
  assert_true(ac_is_utf8(ac_graph_message(graph)));
  ac_graph_free(graph);
  return NULL;
}

/* Within a window, so that all that a state may hold is there. */
static void save_and_load(ac_graph *graph, const char *name) {
  const ac_plan_desc policy = {.batch = 4, .micro_batch = 2, .average = true};
  static const float x[4] = {1, 2, 3, 4};
  const ac_feed feeds[] = {{"x", x}, {"y", x}};
  run r = start_graph("cpu", graph, &policy, &(ac_trainer_desc){.seed = 1});
  for (int window = 0; window < 2; window++) {
    assert_ok(ac_trainer_accumulate(r.trainer, 2, feeds, 2));
    if (!window) assert_ok(ac_trainer_update(r.trainer, NULL));
  }
  const test_path path = in_folder("state"), model = in_folder("model");
  const bool kept = ac_trainer_save_state(r.trainer, path.text, NULL, 0) == AC_OK &&
                    ac_trainer_save(r.trainer, model.text, NULL, 0) == AC_OK &&
                    ac_trainer_load_state(r.trainer, path.text) == AC_OK &&
                    ac_trainer_load(r.trainer, model.text, NULL) == AC_OK;
  if (!kept) fail_msg("\"%s\": %s", name, ac_last_error());
  end_run(&r);
}

static void every_name_can_be_saved_or_is_refused(void **state) {
  (void)state;
  char longest[AC_MAX_NAME + 2];
  memset(longest, 'n', sizeof longest - 1);
  longest[AC_MAX_NAME + 1] = 0;
  const struct {
    const char *name;
    bool refused;
  } names[] = {{"w\xc3", true},
               {"\xed\xa0\x80", true},
               {"__metadata__", true},
               {"accrue/state.0/w", true},
               {"accrue/average/w", true},
               {"accrue/gradient/w", true},
               {"accrue/", true},
               {longest, true},
               {longest + 1, false},
               {"accrue", false},
               {"w\xc3\xa4rme", false},
               {"__metadata__.", false},
               {"state.0/w", false},
               {"a\"b\\c\n\x01", false}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const bool of_file =
        strncmp(names[i].name, "accrue/", 7) && strcmp(names[i].name, "__metadata__");
    ac_graph *graph = graph_with(names[i].name, "loss");
    if (!graph != names[i].refused)
      fail_msg("\"%s\" is %s", names[i].name, graph ? "taken" : "not");
    if (graph) save_and_load(graph, names[i].name);
    ac_graph_free(graph);
    graph = graph_with("v", names[i].name); /* a loss's is only part of a name in files */
    if (!graph != (names[i].refused && of_file)) fail_msg("loss \"%s\"", names[i].name);
    if (graph) save_and_load(graph, names[i].name);
    ac_graph_free(graph);
  }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void save_and_load_again(run *r, const char *what) {
  const test_path path = in_folder("numbers");
  const snapshot before = look_at(r);
  if (ac_trainer_save_state(r->trainer, path.text, NULL, 0) != AC_OK ||
      ac_trainer_load_state(r->trainer, path.text) != AC_OK)
    fail_msg("%s: %s", what, ac_last_error());
  const snapshot after = look_at(r);
  assert_same(what, &before, &after);
}

static ac_status read_any(void *user, const ac_sample_key *key, void *const *fields) {
  const ac_sample_key small = {.index = key->index % COUNT, .epoch = key->epoch};
  return read_sample(user, &small, fields);
}

static ac_dataset *endless(int64_t count) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {
      .count = count,
      .field_count = 2,
      .fields = {{"x", AC_F32, TOKENS * WIDTH}, {"kinds", AC_I32, TOKENS}},
      .read = read_any};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* An endless generator says that it has as many samples as can be said. */
static void endless_data(void **state) {
  (void)state;
  static const int64_t counts[] = {INT64_MAX, INT64_MAX / 2 + 1, INT64_MAX / 2};
  for (int i = 0; i < 6; i++) {
    ac_dataset *dataset = endless(counts[i / 2]);
    run r = start_model("cpu", &both, &split, &trained);
    const ac_fit_desc fit = {.train = dataset, .steps = 2, .no_shuffle = i % 2},
                      more = {.train = dataset, .steps = 3, .no_shuffle = i % 2, .resume = true};
    assert_ok(ac_fit(r.trainer, &fit, NULL));
    save_and_load_again(&r, "endless data");
    assert_ok(ac_fit(r.trainer, &more, NULL));
    ac_dataset_free(dataset);
    end_run(&r);
  }
}

/* Whatever a window may weigh that is said before it. */
static void given_windows(void **state) {
  (void)state;
  static const int64_t samples[] = {1, INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX};
  static const double weights[] = {0, 5e-324, 1e308};
  ac_plan_desc policy = split;
  policy.loss_means = AC_LOSS_MEANS_GIVEN;
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 3; k++) {
      run r = start_model("cpu", &both, &policy, &trained);
      const double given[] = {weights[k], weights[k]};
      const ac_status status = ac_trainer_begin_window(r.trainer, samples[i], given, 2);
      assert_int_equal(status, samples[i] > INT64_MAX / 2 ? AC_ERROR_ARGUMENT : AC_OK);
      save_and_load_again(&r, "a window that is given");
      end_run(&r);
    }
}

/* All settings that become what a state holds, at their ends. */
static void extreme_settings(void **state) {
  (void)state;
  static const ac_trainer_desc descs[] = {
      {.schedule = {.kind = AC_SCHEDULE_PLATEAU, .cooldown = INT64_MAX, .patience = -1}},
      {.schedule = {.kind = AC_SCHEDULE_PLATEAU, .cooldown = INT64_MAX / 2 + 1, .patience = -1}},
      {.loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 1e-18}},
      {.loss_scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 3.4e38}},
      {.loss_scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .growth = 1e300, .interval = 1}},
      {.loss_scaling = {.kind = AC_LOSS_SCALING_DYNAMIC, .interval = INT64_MAX}},
      {.spikes = {.policy = AC_SPIKE_SKIP, .deviations = 1e-300}},
      {.noise_every = 1, .noise_layers = true, .layers_every = 1, .seed = UINT64_MAX}};
  static const double losses[] = {3, (double)NAN, -HUGE_VAL, HUGE_VAL};
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
    run r = begin_run(&both, &split, &descs[i], 0, 2);
    for (int k = 0; k < 4 && descs[i].schedule.kind == AC_SCHEDULE_PLATEAU; k++) {
      for (int again = 0; again < 3; again++)
        assert_ok(ac_trainer_observe_validation(r.trainer, losses[k]));
      save_and_load_again(&r, "a plateau");
    }
    save_and_load_again(&r, "settings at their ends");
    end_run(&r);
  }
}

/* However often training has gone back, and whatever a window came to. */
static void spikes_of_any_kind(void **state) {
  (void)state;
  const ac_spike_desc desc = {.policy = AC_SPIKE_BACK, .back_rate = 1e-200, .most_back = 9};
  const ac_trainer_desc training = {.spikes = desc};
  static const double values[] = {1, (double)NAN, HUGE_VAL, -HUGE_VAL, 1e308};
  run r = begin_run(&both, &split, &training, 0, 0);
  ac_spikes *spikes = AC_WATCHED(&r.trainer->run, spikes);
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 5; k++)
      ac_spikes_take(spikes, &(ac_spike){.alarm = false}, BATCH, values[i], values[k], false);
  save_and_load_again(&r, "windows of any kind");
  for (int times = 0; times < 4; times++) {
    const ac_spikes before = *spikes;
    ac_watcher_spikes.went_back(spikes, &before, &r.trainer->run, times);
    save_and_load_again(&r, "gone back");
    assert_true(spikes->rate > 0);
  }
  end_run(&r);
}

/* Estimates with squares beyond doubles are left out. */
static void noise_of_any_size(void **state) {
  (void)state;
  static const double squares[] = {0, 1e-300, 1, 1e150, 1e200, HUGE_VAL};
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 6; k++) {
      ac_noise_averages a = {.g = 1, .s = 1, .gg = 1, .gs = 1, .ss = 1};
      ac_noise_add(&a, squares[i], squares[k], 2, 4);
      if (!isfinite(a.g) || !isfinite(a.s) || !isfinite(a.gg) || !isfinite(a.gs) || !isfinite(a.ss))
        fail_msg("squares of %g and %g", squares[i], squares[k]);
    }
}

/* A plan also loads, saves and loads a run with batches that have grown beyond the plan's. */
static void grown_batches(void **state) {
  (void)state;
  run r = start_model("cpu", &both, &split, &trained);
  ac_growth *growth = AC_WATCHED(&r.trainer->run, growth);
  *growth = (ac_growth){
      .count = 2, .stages = {{.batch = 8}, {.batch = 64, .unit = AC_BATCH_FROM_STEP, .from = 3}}};
  save_and_load_again(&r, "batches that have grown");
  assert_int_equal(growth->count, 2);
  end_run(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(utf8_is_the_writer_s),
      cmocka_unit_test(every_name_can_be_saved_or_is_refused),
      cmocka_unit_test(endless_data),
      cmocka_unit_test(given_windows),
      cmocka_unit_test(extreme_settings),
      cmocka_unit_test(spikes_of_any_kind),
      cmocka_unit_test(noise_of_any_size),
      cmocka_unit_test(grown_batches),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
